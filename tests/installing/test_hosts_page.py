"""docs/hosts.md and the README show what `install` writes."""

import re
from pathlib import Path, PurePosixPath

import pytest

from mcp_subagents.cli.install import parser
from mcp_subagents.hosts.changes import Change, added
from mcp_subagents.hosts.entries import entry_for, variables
from mcp_subagents.hosts.known import HOSTS
from mcp_subagents.hosts.launches import Launch
from mcp_subagents.hosts.places import project_files

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [PAGE, README], ids=["hosts.md", "README.md"])
@pytest.mark.parametrize("name", HOSTS)
def test_the_page_shows_what_is_written_into_an_empty_file_of(name: str, page: str) -> None:
    host = HOSTS[name]
    given = variables(host, {"ANTHROPIC_API_KEY": "any"})
    change = added("", host, "subagents", entry_for(host, Launch(command="/path/to/mcp-subagents"), given))
    assert isinstance(change, Change)
    shown = dict(re.findall(r"```\w+ ([\w-]+)\n(.*?)```", page, flags=re.DOTALL))
    assert shown[name] == change.text


def test_the_page_names_every_host_and_its_file_in_a_project() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| ([^|]+) \| [^|]+ \| ([^|]+) \|$", PAGE, flags=re.MULTILINE)
    assert [(name, title.strip()) for name, title, _ in rows] == [(host.name, host.title) for host in HOSTS.values()]
    for name, _, files in rows:
        first = [str(file) for file in project_files(HOSTS[name], PurePosixPath())][-1:]
        assert re.findall(r"`([^`]+)`", files)[:1] == first


def test_the_page_tells_every_option() -> None:
    options = {word for action in parser()._actions for word in action.option_strings if word.startswith("--")}  # pyright: ignore[reportPrivateUsage]  # argparse lists them nowhere else
    told = re.findall(r"--[a-z][\w-]+", PAGE.partition("## Options")[2].partition("## What")[0])
    assert set(told) == options - {"--help"}
