"""Stage `code`: what each stage depends on beside parameters and inputs."""

from pathlib import Path

from tiebench.digests import ROOT, write_digests
from tiebench.errors import SettingsError
from tiebench.stage import run_stage


def main() -> None:
    """Write the digests, if the code that runs is the code of this folder."""
    if Path.cwd() != ROOT:
        raise SettingsError(
            "tiebench",
            found=f"the package of {ROOT}",
            expected=f"the one of {Path.cwd()}",
            mend="run `export PYTHONPATH=$PWD/src` first (a git worktree, `dvc exp run --temp`), "
            "or `make setup` in a clone",
        )
    write_digests(Path("code"))


if __name__ == "__main__":
    run_stage(main)
