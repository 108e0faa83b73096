"""The command line: what it prints, where, and with which exit code it leaves."""

import sys
from importlib.metadata import entry_points, version
from runpy import run_module

import pytest

from mcp_subagents.cli import main


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_says_what_the_command_is_for(option: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main([option])
    printed = capsys.readouterr()
    assert (left.value.code, printed.err) == (0, "")
    assert printed.out.startswith("usage: mcp-subagents [-h] [--version]\n")
    assert "Hand work to subagents from any MCP app." in printed.out


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert (left.value.code, *capsys.readouterr()) == (0, f"mcp-subagents {version('mcp-subagents')}\n", "")


def test_without_arguments_it_says_what_there_is_and_leaves_stdout_to_the_protocol(capsys: pytest.CaptureFixture[str]):
    assert main([]) == 2
    told = "mcp-subagents: this release has no server yet; use it as a Python library.\n"
    assert tuple(capsys.readouterr()) == ("", told)


def test_an_unknown_argument_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(["--verison"])
    printed = capsys.readouterr()
    assert (left.value.code, printed.out) == (2, "")
    assert printed.err.endswith("mcp-subagents: error: unrecognized arguments: --verison\n")


def test_the_console_script_is_the_same_command():
    [script] = entry_points(group="console_scripts", name="mcp-subagents")
    assert script.load() is main


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], []], ids=["--version", "--help", "without arguments"])
def test_the_module_is_the_same_command(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["mcp-subagents", *arguments])
    with pytest.raises(SystemExit) as module_left:
        run_module("mcp_subagents", run_name="__main__")
    by_module = capsys.readouterr()
    with pytest.raises(SystemExit) as script_left:
        sys.exit(main())
    assert (module_left.value.code, by_module) == (script_left.value.code, capsys.readouterr())


def test_importing_the_module_runs_nothing(capsys: pytest.CaptureFixture[str]):
    run_module("mcp_subagents.__main__", run_name="imported")
    assert tuple(capsys.readouterr()) == ("", "")
