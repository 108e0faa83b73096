"""`mcp-subagents doctor` finds every problem that was planted, says it in one line, and says what to do."""

import re
import sys
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from planting import TOOLBENCH, Ground, Plant
from plants_of_configuration import CONFIGURATION
from plants_of_hosts import HOSTS
from plants_of_models import MODELS
from plants_of_stores import STORES
from plants_of_tools import TOOLS

from mcp_subagents.cli import main
from mcp_subagents.cli.commands import COMMANDS
from mcp_subagents.cli.completion import whole

PLANTS = {**CONFIGURATION, **STORES, **MODELS, **TOOLS, **HOSTS}


@pytest.mark.parametrize(
    "plant",
    [pytest.param(plant, id=name, marks=[pytest.mark.slow] * plant.slow) for name, plant in PLANTS.items()],
)
def test_doctor_finds(plant: Plant, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    names: dict[str, object] = {"home": home, "python": sys.executable, "bench": TOOLBENCH}
    with ExitStack() as stack:
        plant.plant(Ground(home=home, monkeypatch=monkeypatch, names=names, keep=stack.enter_context))
        capsys.readouterr()
        code = main(["doctor", plant.check, *plant.arguments])

    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    found = [pair for pair in pairwise(lines) if pair[0].startswith(("!", "\N{BALLOT X}"))]
    assert (found[:1], code, printed.err) == ([plant.lines(names)], plant.code, "")
    fix = found[0][1].strip().removeprefix("fix").strip()
    assert lines[-1].endswith(f": {fix}"), "that is the next step"


COMMAND_IN_A_FIX = re.compile(r"mcp-subagents (?P<words>\w[\w ./{}-]*)")
PASTED = [
    words
    for plant in PLANTS.values()
    for match in COMMAND_IN_A_FIX.finditer(plant.fix)
    if (words := match["words"].split()) and words[0] in COMMANDS
]


@pytest.mark.parametrize("words", PASTED, ids=" ".join)
def test_a_command_to_paste_is_one(words: list[str]):
    assert whole().parse_args(words).command == words[0]
