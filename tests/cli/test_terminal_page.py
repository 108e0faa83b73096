"""What docs/terminal.md says is true."""

import re
from pathlib import Path

import pytest
from samples import fill, with_store

from mcp_subagents.cli import main, run, tasks

PAGE = (Path(__file__).resolve().parents[2] / "docs/terminal.md").read_text(encoding="utf-8")


def test_the_table_of_the_fleet_is_what_list_prints(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("COLUMNS", "80")
    with_store(home / "tasks.db", fill)
    assert main(["tasks", "list", "--limit", "3", "--store", "sqlite:///tasks.db"]) == 0
    [shown] = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == shown.splitlines()


def test_every_action_has_a_row(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        tasks.parser().parse_args(["--help"])
    actions = re.findall(r"^    ([a-z]+)\b", capsys.readouterr().out, flags=re.MULTILINE)
    assert re.findall(r"^\| `([a-z]+)[ `]", PAGE.partition("| action |")[2], flags=re.MULTILINE) == actions


def test_the_exit_codes_are_those_of_help():
    told = dict(re.findall(r"^\| `(\d+)` \| (.*) \|", PAGE, flags=re.MULTILINE))
    helped = dict(re.findall(r"^  (\d+) +([a-z ,]+)", run.EPILOG, flags=re.MULTILINE))
    assert told == helped


@pytest.mark.parametrize("line", re.findall(r"^mcp-subagents (.*)", PAGE, flags=re.MULTILINE))
def test_every_command_on_the_page_is_understood(line: str):
    words = re.findall(r'"[^"]*"|[^\s<>]+', line.partition(" > ")[0].partition(" < ")[0])
    module = {"run": run, "tasks": tasks}[words[0]]
    assert module.parser().parse_args([word.strip('"') for word in words[1:]])


def test_every_option_on_the_page_exists():
    named = set(re.findall(r"`(--[a-z-]+)", PAGE))
    known = set(re.findall(r"--[a-z-]+", "".join(Path(module.__file__ or "").read_text() for module in (run, tasks))))
    assert named - {"--store", "--json", "--agents"} <= known
