"""Draws the lines of a terminal as SVG: all of them, or moving as they came."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from recording import Line
from rich.style import Style
from rich.text import Text

CELL, LEADING, MARGIN, SIZE = 8.4, 19, 16, 14
"""Pixels: how wide a character is, how high a line, what is around them, and the size of the font."""
HOLD = 8.0
"""Seconds for which the last lines of a moving picture stay."""
PALETTES = {
    "dark": {
        **{"back": "#0d1117", "edge": "#30363d", "fore": "#e6edf3", "cyan": "#39c5cf", "magenta": "#d2a8ff"},
        **{"blue": "#79c0ff", "green": "#56d364", "red": "#ff7b72"},
    },
    "light": {
        **{"back": "#ffffff", "edge": "#d0d7de", "fore": "#1f2328", "cyan": "#1b7c83", "magenta": "#8250df"},
        **{"blue": "#0969da", "green": "#1a7f37", "red": "#cf222e"},
    },
}
NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
"""The colours of a terminal, by their numbers."""
FONT = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"


def still(lines: Sequence[Line], *, columns: int, palette: str) -> str:
    """All lines, one below the other."""
    height = MARGIN * 2 + LEADING * len(lines)
    return _svg(columns, height, _rules(PALETTES[palette]), f"<g>{''.join(_rows(lines))}</g>")


def moving(lines: Sequence[Line], *, columns: int, rows: int) -> str:
    """A window of some rows, into which the lines come from below as they came; dark or light, as the reader likes it.

    Who wants no motion, or cannot show any, sees the end.
    """
    height = MARGIN * 2 + LEADING * rows
    whole = lines[-1].at + HOLD
    stops = [
        f"{100 * line.at / whole:.2f}%{{transform:translateY({LEADING * (rows - number)}px)}}"
        for number, line in enumerate(lines, 1)
        if number == len(lines) or lines[number].at > line.at  # those that came together move together
    ]
    end = LEADING * (rows - len(lines))
    style = (
        f"{_rules(PALETTES['dark'])}"
        f"@media (prefers-color-scheme:light){{{_rules(PALETTES['light'])}}}"
        f"@keyframes tell{{0%{{transform:translateY({LEADING * rows}px)}}{''.join(stops)}"
        f"100%{{transform:translateY({end}px)}}}}"
        f"#story{{transform:translateY({end}px);animation:tell {whole:.1f}s step-end infinite}}"
        "@media (prefers-reduced-motion:reduce){#story{animation:none}}"
    )
    window = f'<clipPath id="window"><rect y="{MARGIN}" width="100%" height="{LEADING * rows}"/></clipPath>'
    story = f'<g clip-path="url(#window)"><g id="story">{"".join(_rows(lines))}</g></g>'
    return _svg(columns, height, style, window + story)


def _svg(columns: int, height: int, style: str, content: str) -> str:
    width = round(MARGIN * 2 + CELL * columns)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        "<title>mcp-subagents demo, recorded in a terminal</title>"
        f"<style>text{{font:{SIZE}px {FONT};white-space:pre}}.bold{{font-weight:bold}}{style}</style>"
        f'<rect class="back" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>{content}</svg>\n'
    )


def _rules(palette: dict[str, str]) -> str:
    colours = {name: colour for name, colour in palette.items() if name not in {"back", "edge", "fore"}}
    special = f".back{{fill:{palette['back']};stroke:{palette['edge']}}}text{{fill:{palette['fore']}}}"
    return special + "".join(f".{name}{{fill:{colour}}}" for name, colour in colours.items())


def _rows(lines: Sequence[Line]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield "\n"
        yield from _runs(Text.from_ansi(line.text), MARGIN + LEADING * number + SIZE)


def _runs(line: Text, y: int) -> Iterator[str]:
    """Texts of one style each. Every one is as wide as its cells, whichever font there is."""
    edges = sorted({0, len(line), *(edge for span in line.spans for edge in (span.start, span.end))})
    for start, end in pairwise(edges):
        text = line.plain[start:end]
        first, last = len(text) - len(text.lstrip()), len(text.rstrip())
        if not text.strip():
            continue
        styles = [span.style for span in line.spans if span.start <= start < span.end]
        classes = " ".join(name for style in styles if isinstance(style, Style) for name in _classes(style))
        x = MARGIN + CELL * (start + first)
        marked = f' class="{classes}"' if classes else ""
        length = CELL * (last - first)
        yield f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}"{marked}>{escape(text.strip(), quote=False)}</text>'


def _classes(style: Style) -> Iterator[str]:
    if style.bold:
        yield "bold"
    if style.color is not None and style.color.number is not None:
        yield NAMES[style.color.number]
