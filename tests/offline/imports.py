"""Records which modules each module of ours, and the script itself, imports while it runs."""

import atexit
import builtins
import json
import os
import sys
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

OURS = ("__main__", "tiebench")


def record(folder: Path) -> None:
    """Write `<script>-<process>.json` into `folder` at the end: names of modules by importer."""
    found: dict[str, set[str]] = {}
    original = builtins.__import__

    def recorded(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        module = original(name, globals, locals, fromlist, level)
        importer = (globals or {}).get("__name__") or ""
        compiled = isinstance(fromlist, list)  # an import in C, told of the frame that called it
        if importer.partition(".")[0] in OURS and not compiled:
            base = resolve_name("." * level + name, globals["__package__"]) if level else name
            parts = {f"{base}.{part}" for part in fromlist or ()}
            found.setdefault(importer, set()).update({base}, parts & sys.modules.keys())
        return module

    def write() -> None:
        path = folder / f"{Path(sys.argv[0]).stem}-{os.getpid()}.json"
        path.write_text(json.dumps({name: sorted(names) for name, names in found.items()}))

    builtins.__import__ = recorded
    atexit.register(write)
