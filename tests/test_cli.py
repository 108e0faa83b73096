"""The command line: what it prints, where, and with which exit code it leaves."""

import sys
from importlib.metadata import entry_points, version
from pathlib import Path
from runpy import run_module

import pytest

from mcp_subagents.cli import main


def exits(*argv: str) -> object:
    with pytest.raises(SystemExit) as left:
        main(argv)
    return left.value.code


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_says_what_the_command_is_for(option: str, capsys: pytest.CaptureFixture[str]):
    assert exits(option) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.startswith("usage: mcp-subagents [serve] [options]\n")
    assert "Hand work to subagents from any MCP app." in printed.out
    for word in ("--config FILE", "--store URL", "--transport NAME", "--host", "--port", "--log-level", "--version"):
        assert word in printed.out


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]):
    assert exits("--version") == 0
    assert tuple(capsys.readouterr()) == (f"mcp-subagents {version('mcp-subagents')}\n", "")


MISUSED: dict[str, tuple[list[str], str]] = {
    "an unknown option": (["--verison"], "unrecognized arguments: --verison"),
    "an option cut short": (["--transp=http"], "unrecognized arguments: --transp"),
    "an unknown command": (["serv"], "invalid choice: 'serv' (choose from 'serve', "),
    "a command after its options": (["--config", "x", "agents"], "agents comes first: mcp-subagents agents ..."),
    "an unknown action": (["agents", "chek"], "invalid choice: 'chek' (choose from 'list', 'check', 'show', 'import')"),
    "no action": (["agents"], "the following arguments are required: list|check|show|import"),
    "nobody to show": (["agents", "show"], "the following arguments are required: NAME"),
    "an unknown transport": (["--transport", "carrier-pigeon"], "invalid choice: 'carrier-pigeon'"),
    "a port that is none": (["--transport", "http", "--port", "70000"], "'70000' is not a port, 0 to 65535"),
    "a port on stdio": (
        ["--transport", "stdio", "--port", "1"],
        "--host and --port need --transport http or --transport sse",
    ),
}


@pytest.mark.parametrize("case", MISUSED)
def test_a_wrong_argument_is_refused(case: str, capsys: pytest.CaptureFixture[str]):
    arguments, told = MISUSED[case]
    assert exits(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert told in printed.err.splitlines()[-1]


def test_a_wrong_log_level_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("MCP_SUBAGENTS_LOG_LEVEL", "loud")
    assert exits() == 2
    assert "MCP_SUBAGENTS_LOG_LEVEL: 'loud' is not one of debug" in capsys.readouterr().err


def test_a_broken_configuration_is_told_whole(home: Path, capsys: pytest.CaptureFixture[str]):
    (home / "subagents.yaml").write_text("subagents: [{name: a, modle: x}]\nmax_concurrency: 0\n")
    assert main(["--store", "postgresql://me:secret@host/db"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == (
        "",
        [
            "mcp-subagents: subagents.yaml:1: subagents[0].modle: unknown key, did you mean 'model'?",
            "mcp-subagents: subagents.yaml:2: max_concurrency: must be 1 or more, not 0",
            "mcp-subagents: --store: PostgreSQL is not supported yet; use sqlite:///FILE",
        ],
    )


@pytest.mark.parametrize("arguments", [["--port", "1"], ["serve", "--host", "::1"]])
@pytest.mark.usefixtures("home")
def test_an_address_needs_a_network(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(arguments) == 2
    assert capsys.readouterr().err == "mcp-subagents: --host and --port need --transport http or --transport sse\n"


def test_the_console_script_is_the_same_command():
    [script] = entry_points(group="console_scripts", name="mcp-subagents")
    assert script.load() is main


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["--port", "x"], ["agents", "--help"]])
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
