"""Build .venv from requirements.lock when that has changed; quick when it has not.

Standard library only. A stamp is written last, so that a build cut short is done again, and the
whole is done under a lock, so that two calls at once build once.
"""

import fcntl
import hashlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK, PROJECT, FOLDER = ROOT / "requirements.lock", ROOT / "pyproject.toml", ROOT / ".venv"
STAMP = FOLDER / "stamp.json"
PYTHON = (3, 11)


def main() -> None:
    if sys.version_info[:2] != PYTHON:
        wanted = ".".join(map(str, PYTHON))
        sys.exit(f"error: Python {sys.version.split()[0]} runs this; expected {wanted}. "
                 f"To mend: make PYTHON=/path/to/python{wanted}")  # fmt: skip
    if FOLDER.is_symlink():
        sys.exit(f"error: {FOLDER.name} is a link to {FOLDER.resolve()}; expected a folder of "
                 f"this checkout, to be cleared and built. To mend: rm {FOLDER.name}")  # fmt: skip
    with LOCK.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        wanted_stamp = {"lock": digest(LOCK), "project": digest(PROJECT), "folder": str(ROOT)}
        found = json.loads(STAMP.read_text()) if STAMP.exists() else {}
        if found == wanted_stamp:
            return
        pip = [str(FOLDER / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        if {**found, "project": None} != {**wanted_stamp, "project": None}:
            print(f"building {FOLDER.name} from {LOCK.name} (minutes)", flush=True)
            STAMP.unlink(missing_ok=True)
            run(sys.executable, "-m", "venv", "--clear", str(FOLDER))
            run(*pip, "--requirement", str(LOCK))
        STAMP.unlink(missing_ok=True)
        run(*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
        STAMP.write_text(json.dumps(wanted_stamp))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(*command: str) -> None:
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(f"error: {' '.join(command)} failed (above). To mend: run make again")


if __name__ == "__main__":
    main()
