"""MCP servers that others have written, run by Node."""

from pathlib import Path
from typing import Any

from node_tools import BIN, install

PACKAGES = Path(__file__).resolve().parent / "npm"


def server_of_others(package: str, *arguments: str) -> dict[str, Any]:
    """How to start a server of that package. Raises: `RuntimeError` if it cannot be had."""
    script = install(PACKAGES) / "@modelcontextprotocol" / package / "dist" / "index.js"
    return {"command": str(BIN / "node"), "args": [str(script), *arguments]}
