"""Files of a project, changed so that a server that follows them can see it."""

import os
from pathlib import Path

AGENT = "---\nname: {}\ndescription: Helps.\ntools: {}\n---\nHelp.\n"


def write(path: Path, text: str) -> Path:
    """Change a file so that it can be seen, however fast."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(before + 10**9, max(before + 10**9, path.stat().st_mtime_ns)))
    return path
