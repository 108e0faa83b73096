"""Make the bundle that apps install with a click: `make bundle` writes it into `dist`.

It holds the manifest, a project file, the program that starts the server, and the wheel. What the wheel needs is
installed by the app, with uv, for the machine that it runs on.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from node_tools import BIN, ENVIRONMENT, install

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def mcpb(*arguments: str | Path) -> None:
    """Run the MCPB command line. Raises: `SystemExit`, with its words, if it fails."""
    program = install(HERE / "npm") / "@anthropic-ai/mcpb/dist/cli/cli.js"
    _run(str(BIN / "node"), str(program), *arguments)


def pack(wheel: Path, bundle: Path) -> None:
    """Write `bundle`: what is in this folder, and `wheel`. Raises: `SystemExit` if anything is wrong with it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "bundle")
        shutil.copytree(HERE, folder)
        shutil.copy(ROOT / "LICENSE", folder)
        shutil.copy(wheel, folder)
        mcpb("validate", folder / "manifest.json")
        bundle.parent.mkdir(parents=True, exist_ok=True)
        mcpb("pack", folder, bundle)


def _run(*command: str | Path) -> None:
    done = subprocess.run(
        [*map(str, command)], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{Path(command[0]).name} failed:\n{done.stdout}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the bundle that apps install with a click.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "mcp-subagents.mcpb", metavar="FILE")
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="the wheel to put in it (default: a new one)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as built:
        if given.wheel is None:
            _run(sys.executable, "-m", "build", "--wheel", "--outdir", built, ROOT)
            [given.wheel] = Path(built).glob("*.whl")
        pack(given.wheel, given.output.absolute())
    sys.stdout.write(f"{given.output}\n")


if __name__ == "__main__":
    main()
