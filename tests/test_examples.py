"""Examples that are no programs (those are run by `test_docs.py`): configurations, and the page that lists them all."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from mcp_subagents.cli import main
from mcp_subagents.config.schema import SHIPPED
from mcp_subagents.testing import ScriptedModel, host

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PAGE = (EXAMPLES / "README.md").read_text(encoding="utf-8")
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
FILES = sorted(EXAMPLES.glob("*.yaml"))
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
every_program = pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)


def names_in(path: Path) -> list[str]:
    return [each["name"] for each in yaml.safe_load(path.read_text(encoding="utf-8"))["subagents"]]


@every_file
def test_a_file_is_one_for_editors(path: Path):
    validator: Any = Draft202012Validator(json.loads(SHIPPED.read_text(encoding="utf-8")))
    assert list(validator.iter_errors(yaml.safe_load(path.read_text(encoding="utf-8")))) == []


@every_file
def test_agents_check_has_nothing_against_a_file(path: Path, home: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["agents", "check", "--config", str(path)]) == 0
    assert "wrong" not in capsys.readouterr().out


@every_file
async def test_every_subagent_of_a_file_does_its_task(path: Path):
    names = names_in(path)
    async with host(path, {name: ScriptedModel(f"{name} was here.") for name in names}) as app:
        done = [await app.delegate("Do it.", name) for name in names]
    assert [task["result"] for task in done] == [f"{name} was here." for name in names]


@pytest.mark.slow
@every_file
async def test_a_file_is_served_by_the_command(path: Path, home: Path):
    """Without a key: that is missed by the first task, and not by the server."""
    env = {name: value for name, value in os.environ.items() if not name.endswith("_KEY")}
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "mcp_subagents", "--config", str(path)], env=env, cwd=home
    )
    with anyio.fail_after(30):
        async with Client(server) as client:
            page = await client.read_resource("subagents://agents")
            tools = await client.list_tools()
    assert [each["name"] for each in json.loads(getattr(page.contents[0], "text", ""))["subagents"]] == names_in(path)
    assert "task" in [tool.name for tool in tools.tools]


def test_the_page_lists_every_example_once():
    listed = re.findall(r"^\| \[`([^`]+)`\]\(([^)]+)\)", PAGE, flags=re.MULTILINE)
    assert sorted(name for name, _ in listed) == sorted(path.name for path in [*PROGRAMS, *FILES])
    assert all(name == target for name, target in listed)


@every_program
def test_a_program_says_how_it_is_run(path: Path):
    assert f"\nRun it: python examples/{path.name}\n" in path.read_text(encoding="utf-8")


@every_file
def test_a_file_says_on_top_how_it_is_served(path: Path):
    top = path.read_text(encoding="utf-8").partition("\n\n")[0]
    assert all(line.startswith("#") for line in top.splitlines())
    assert f"mcp-subagents --config examples/{path.name}" in top
