"""`mcp-subagents doctor` as people and scripts meet it: real processes, pipes and terminals."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import yaml
from listening import listening
from planting import TOOLBENCH

from mcp_subagents.doctor import CHECKS
from mcp_subagents.hosts import HOSTS

KEY = "sk-" + "s3cretOfOurs" * 2
COMMAND = [sys.executable, "-m", "mcp_subagents", "doctor"]


@pytest.fixture
def healthy(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which everything works: a configuration, a tool server, a host that knows us."""
    server = {"command": sys.executable, "args": [TOOLBENCH], "env": {"BENCH_TOKEN": "${BENCH_TOKEN}"}}
    subagents = [{"name": "helper", "mcp_servers": ["bench"], "tools": ["bench__add"]}]
    (home / "subagents.yaml").write_text(yaml.safe_dump({"mcp_servers": {"bench": server}, "subagents": subagents}))
    entry = {"command": sys.executable, "args": ["-m", "mcp_subagents"], "env": {"BENCH_TOKEN": "${env:BENCH_TOKEN}"}}
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"subagents": entry}}))
    monkeypatch.setenv("BENCH_TOKEN", KEY)
    monkeypatch.delenv("COLUMNS", raising=False)
    return home


def run(*arguments: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, encoding="utf-8", timeout=60, check=False, **more
    )


@pytest.mark.slow
async def test_a_server_of_ours_on_the_port_is_no_problem(home: Path):
    async with listening("-m", "mcp_subagents", "serve", "--transport", "http", "--port", "0") as [address]:
        port = int(address.rpartition(":")[2].removesuffix("/mcp"))
        (home / "subagents.yaml").write_text(f"transport: http\nport: {port}\n")
        done = await anyio.to_thread.run_sync(run, "port")
    assert done.returncode == 0
    assert f"mcp-subagents {version('mcp-subagents')} is listening on 127.0.0.1, port {port}." in done.stdout


@pytest.mark.slow
def test_a_healthy_machine_has_no_problem(healthy: Path):
    done = run()
    *lines, blank, last = done.stdout.splitlines()
    assert (done.returncode, done.stderr, blank) == (0, "", "")
    assert last.startswith("Nothing stands in the way")
    lines = [line for line in lines if not line.startswith(" ")]  # the fix, where a busy machine is slow
    assert {line[:10] for line in lines[:6]} == {"\N{CHECK MARK} ok      "}
    subjects = [line[11:17].strip() for line in lines]
    assert subjects == ["python", "sqlite", "config", "store", "models", "tools", "start", "hosts"]
    assert lines[2].endswith("subagents.yaml; 1 subagent: helper.")
    assert lines[3].endswith(f"{healthy}/mcp-subagents/tasks.db is not there yet; it is made with the first task.")
    assert re.search(r"bench \(helper\): started, [1-9]\d* tools\.$", lines[5])
    assert re.search(r"The server (answers|takes) \d", lines[6])
    assert re.search(r"Cursor \(subagents\): its server (answers after|takes) \d", lines[7])
    assert not (healthy / "mcp-subagents").exists(), "it was looked at, and nothing was made"


@pytest.mark.slow
def test_what_install_writes_is_what_doctor_wants(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    command = [sys.executable, "-m", "mcp_subagents", "install", *HOSTS, "--yes"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(run("--json", "hosts").stdout)
    told = [(each["what"].partition(" (subagents): ")[0], each["level"]) for each in report["findings"]]
    assert dict(told).keys() == {host.title for host in HOSTS.values()}
    assert (report["problems"], len(told)) == (0, len(HOSTS))


@pytest.mark.slow
def test_json_is_valid_and_complete(healthy: Path):
    (healthy / "subagents.yaml").write_text("subagents: [{name: a, modle: x}]\n")
    done = run("--json")
    report = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert report.keys() == {"version", "findings", "problems", "warnings", "next_step"}
    assert (report["problems"], report["warnings"]) == (2, 1), "the host's server has the same configuration"
    assert report["findings"][2] == {
        "check": "config",
        "level": "problem",
        "what": "subagents.yaml:1: subagents[0].modle: unknown key, did you mean 'model'?",
        "fix": report["next_step"],
    }
    assert report["findings"][-1]["what"].startswith("Cursor (subagents): its server does not start: mcp-subagents: ")
    assert {each["level"] for each in report["findings"]} == {"ok", "warning", "problem"}
    assert {each["check"] for each in report["findings"]} <= CHECKS.keys()


@pytest.mark.slow
def test_no_secret_is_printed(healthy: Path):
    broken = {"command": sys.executable, "args": [TOOLBENCH, "--broken", KEY], "env": {"TOKEN": KEY}}
    said = {
        "mcp_servers": {"bench": broken},
        "subagents": [{"name": "a", "model": f"nope:{KEY}", "mcp_servers": ["bench"]}],
    }
    (healthy / "subagents.yaml").write_text(yaml.safe_dump(said))
    done = run("config", env=os.environ | {"MCP_SUBAGENTS_STORE": f"mysql://me:{KEY}@there/db"})
    assert "MCP_SUBAGENTS_STORE: there is no store of the kind 'mysql'" in done.stdout
    assert KEY not in done.stdout + done.stderr
    done = run("models", "tools", env=os.environ | {"OPENAI_API_KEY": KEY})
    assert done.stdout.count("problem") >= 2
    assert KEY not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_stream_that_knows_only_ascii_gets_words_and_plain_signs(healthy: Path):
    (healthy / "subagents.yaml").write_text("subagents: [{name: Zoë, modle: x}]\n", encoding="utf-8")
    done = run("python", "config", env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    lines = done.stdout.splitlines()
    assert [line[:10] for line in lines if line.startswith(("+", "x"))] == ["+ ok      ", "x problem "]
    assert (done.returncode, done.stderr) == (1, "")


def on_a_terminal(columns: int, *arguments: str, **env: str) -> str:
    """What the command shows on a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "PYTHONIOENCODING": "utf-8", **env},
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # how Linux says that the other end is closed
            pass
        process.wait(60)
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.slow
def test_on_a_terminal_long_lines_go_on_below_themselves(healthy: Path):
    (healthy / "subagents.yaml").write_text("subagents: [{name: a, modle: x}]\n")
    shown = on_a_terminal(60, "config", TERM="dumb", COLUMNS="60", LINES="40")
    lines = [line.rstrip() for line in shown.splitlines()]
    assert max(map(len, lines[:4])) <= 60
    assert lines[:4] == [
        "\N{BALLOT X} problem  config  subagents.yaml:1: subagents[0].modle:",
        "                   unknown key, did you mean 'model'?",
        "           fix     Mend it in that file, and look again:",
        "                   mcp-subagents doctor",
    ]


@pytest.mark.slow
def test_colour_is_for_terminals_that_want_it(healthy: Path):
    (healthy / "subagents.yaml").write_text("subagents: [{name: a, modle: x}]\n")
    assert "\x1b[1;31m\N{BALLOT X} problem" in on_a_terminal(80, "config")
    assert "\x1b[1;31m" not in on_a_terminal(80, "config", NO_COLOR="1")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["stor"], "argument CHECK: invalid choice: 'stor' (choose from 'python', 'sqlite', "),
        (["--patience", "0"], "'0' is not a number of seconds above 0 and below an hour"),
        (["--patience", "soon"], "'soon' is not a number of seconds"),
    ],
)
@pytest.mark.slow
def test_misuse_is_exit_code_2(arguments: list[str], told: str):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
