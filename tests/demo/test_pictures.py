"""The pictures in docs: drawn from what a terminal showed, and of the demo as it is."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from drawing import HOLD, LEADING, PALETTES, moving, still
from recording import Line, record

from mcp_subagents.demo.conversation import Conversation
from mcp_subagents.demo.replies import reply_to

ROOT = Path(__file__).resolve().parents[2]
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
LINES = [
    Line("\x1b[1mTitle\x1b[0m", 0.0),
    Line("", 1.0),
    Line("  \x1b[36mhost\x1b[0m  a < b & c", 1.0),
    Line("end", 2.0),
]


def texts(svg: str) -> list[tuple[str, str | None, float, int]]:
    """What is written in a picture: the text, its class, and where it is."""
    found = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return [(each.text or "", each.get("class"), float(each.get("x", 0)), int(each.get("y", 0))) for each in found]


WRITTEN = [
    ("Title", "bold", 16.0, 30),
    ("host", "cyan", 32.8, 68),
    ("a < b & c", None, 83.2, 68),
    ("end", None, 16.0, 87),
]


@pytest.mark.parametrize("palette", PALETTES)
def test_a_still_picture_has_every_text_in_its_cell_and_colour(palette: str):
    svg = still(LINES, columns=40, palette=palette)
    assert texts(svg) == WRITTEN
    assert f".cyan{{fill:{PALETTES[palette]['cyan']}}}" in svg


def test_a_moving_picture_moves_as_the_lines_came():
    svg = moving(LINES, columns=40, rows=3)
    assert texts(svg) == WRITTEN
    whole = 2.0 + HOLD
    stops = {float(at): int(by) for at, by in re.findall(r"([\d.]+)%\{transform:translateY\((-?\d+)px\)", svg)}
    assert stops == {0.0: 2 * LEADING, 100 * 1 / whole: 0, 100 * 2 / whole: -LEADING, 100.0: -LEADING}
    assert all(PALETTES[each]["back"] in svg for each in ("dark", "light"))
    assert "prefers-reduced-motion" in svg


@pytest.mark.slow
def test_a_terminal_of_the_given_size_is_recorded():
    program = "import os, sys; print('\\x1b[1mwide\\x1b[0m', *os.get_terminal_size()); sys.exit(len(sys.argv) - 1)"
    assert record([sys.executable, "-c", program], columns=70, rows=9) == [Line("\x1b[1mwide\x1b[0m 70 9", 0.0)]
    with pytest.raises(subprocess.CalledProcessError):
        record([sys.executable, "-c", program, "fail"], columns=70, rows=9)


def test_the_pictures_are_of_the_demo_as_it_is():
    assert [each.name for each in PICTURES] == [
        *("demo-120-dark.svg", "demo-120-light.svg", "demo-80-dark.svg", "demo-80-light.svg", "demo.svg"),
    ]
    for picture in PICTURES:
        svg = picture.read_text("utf-8")
        assert len(svg) < 300_000
        written = [text for text, *_ in texts(svg)]
        scenes = (ROOT / "mcp_subagents" / "demo" / "scenes.py").read_text("utf-8")
        titles = [f"{number} · {title}" for number, title in enumerate(re.findall(r'\.scene\("(.+)"\)', scenes), 1)]
        assert [each for each in written if re.match(r"\d · ", each)] == titles
        assert "What you saw" in written


def test_the_page_tells_of_every_word_that_the_demo_model_knows():
    page = (ROOT / "docs" / "demo.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[^|]+`) \|", page, re.MULTILINE)
    words = [word for row in rows for word in re.findall(r"`(\w+)`", row)]
    tools = frozenset({"ask_parent", "take_step"})
    assert words == ["ask", "slowly", "long", "fail", "unavailable"]
    plain = type(reply_to(Conversation(task="Hello."), tools))
    assert [word for word in words if type(reply_to(Conversation(task=f"Hello, {word}."), tools)) is plain] == []
