"""Makes the pictures in this folder from real runs of the demo: `make pictures`."""

import sys
from pathlib import Path

from drawing import PALETTES, moving, still
from recording import record

HERE = Path(__file__).parent
DEMO = [sys.executable, "-m", "mcp_subagents", "demo"]
ROWS = 28
"""Of the moving picture."""


def main() -> None:
    told = record(DEMO, columns=80, rows=24)
    (HERE / "demo.svg").write_text(moving(told, columns=80, rows=ROWS), "utf-8")
    wide = record([*DEMO, "--fast"], columns=120, rows=40)
    for columns, lines in ((80, told), (120, wide)):
        for palette in PALETTES:
            picture = still(lines, columns=columns, palette=palette)
            (HERE / f"demo-{columns}-{palette}.svg").write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
