"""`install` and `uninstall`, as people and scripts call them: files, folders, modes, links, words, exit codes."""

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mcp_subagents.cli import main
from mcp_subagents.errors import ConfigError
from mcp_subagents.hosts.known import HOSTS
from mcp_subagents.hosts.launches import launch_in
from mcp_subagents.hosts.plans import carry_out, plan_install
from mcp_subagents.hosts.receipts import Receipts

KEPT = Path("mcp-subagents", "hosts")
"""Where backups and receipts are, below the home of a test."""


@pytest.fixture(autouse=True)
def bare_machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with none of the hosts, and no keys."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", "")
    for name in [name for name in os.environ if name.endswith("_API_KEY") or "_HOME" in name or "CLAUDE" in name]:
        if not name.startswith("XDG"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("MCP_SUBAGENTS_MODEL")


def tree(folder: Path) -> dict[str, tuple[str, bytes | None, int]]:
    """Everything in a folder but what we keep: its kind, content and mode."""
    found: dict[str, tuple[str, bytes | None, int]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] != KEPT.parts[0]:
            kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
            content = path.read_bytes() if path.is_file() else None
            found[name] = (kind, content, path.lstat().st_mode)
    return found


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def server(file: Path, key: str = "mcpServers") -> Any:
    return json.loads(file.read_text("utf-8"))[key]["subagents"]


def test_install_and_uninstall_leave_no_trace_in_any_host(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".claude.json", '{"numStartups": 3, "projects": {"/srv": {}}}').chmod(0o640)
    write(home / ".cursor/mcp.json", '\ufeff{\r\n\t"mcpServers": {\r\n\t\t"a": {}, // x\r\n\t}\r\n}')
    write(home / ".codex/config.toml", '# mine\nmodel = "x"')
    (home / ".gemini").mkdir()
    before = tree(home)
    everywhere = ["claude-desktop", "claude-code", "cursor", "vscode", "codex", "gemini", "opencode"]

    assert main(["install", "--yes", *everywhere]) == 0
    installed = tree(home)
    assert main(["install", "--yes", *everywhere, "--env", "MORE=1"]) == 0
    assert main(["install", "--yes", *everywhere]) == 0
    assert {name: mode for name, (_, _, mode) in installed.items() if name in before} == {
        name: mode for name, (_, _, mode) in before.items()
    }
    assert {"Code/User/mcp.json", "Claude/claude_desktop_config.json", "opencode/opencode.json"} <= set(installed)
    assert main(["uninstall", "--yes"]) == 0

    assert tree(home) == before
    assert "Gemini CLI: removed" in capsys.readouterr().out


def test_without_a_name_only_hosts_that_are_here_are_touched(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".codex/config.toml", "")
    assert main(["install", "--yes"]) == 0
    assert set(tree(home)) == {".codex", ".codex/config.toml"}
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["codex", "yes", "-", "~/.codex/config.toml"] in lines
    assert ["claude-code", "no", "-", "~/.claude.json"] in lines
    assert ["Codex:", "added"] in lines


def test_a_host_is_here_if_its_program_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / "bin/claude", "").chmod(0o755)
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert main(["install", "--yes"]) == 0
    launch = launch_in(server(home / ".claude.json"))
    assert launch is not None
    assert launch.is_ours
    assert Path(launch.command).is_absolute()


def test_a_dry_run_shows_the_diff_and_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(home / ".cursor/mcp.json", '{\n  "mcpServers": {\n  }\n}\n')
    before = tree(home)
    assert main(["install", "cursor", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert f'--- {file}\n+++ {file}\n@@ -1,4 +1,8 @@\n {{\n   "mcpServers": {{\n+    "subagents": {{\n' in shown
    assert "Cursor: would add" in shown
    assert tree(home) == before
    assert not (home / KEPT).exists()


def test_without_a_terminal_and_without_yes_nothing_is_written(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "codex"]) == 2
    assert main(["install", "codex", "--json"]) == 2
    assert "There is no terminal to ask on. Look at it with --dry-run, then say --yes." in capsys.readouterr().err
    assert tree(home) == {}


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("yes", 0), ("n", 3), ("", 3), ("\x04", 3)])
def test_on_a_terminal_it_asks(home: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    controller, terminal = os.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        os.write(controller, f"{answer}\n".encode())
        assert main(["install", "codex"]) == code
    os.close(controller)
    assert (home / ".codex/config.toml").exists() == (code == 0)


def test_json_says_what_came_of_each_host(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".claude.json", "{]")
    assert main(["install", "--json", "--yes", "claude-code", "gemini"]) == 2
    said = json.loads(capsys.readouterr().out)
    [claude, gemini] = said["hosts"]
    assert said["found"] == [
        {
            "host": "claude-code",
            "file": str(home / ".claude.json"),
            "present": True,
            "server": "absent",
            "trouble": claude["told"][0],
        },
        {
            "host": "gemini",
            "file": str(home / ".gemini/settings.json"),
            "present": False,
            "server": "absent",
            "trouble": None,
        },
    ]
    assert claude == {
        "host": "claude-code",
        "file": str(home / ".claude.json"),
        "result": "refused",
        "told": [f"{home / '.claude.json'}:1: not valid JSON: ']' where a name in double quotes was expected"],
        "diff": "",
        "backup": None,
    }
    assert (gemini["result"], gemini["backup"]) == ("added", None)
    assert main(["uninstall", "--json", "--yes", "gemini", "codex"]) == 0
    outcomes = json.loads(capsys.readouterr().out)["hosts"]
    assert [(each["host"], each["result"]) for each in outcomes] == [("codex", "absent"), ("gemini", "removed")]


def test_the_file_as_it_was_is_kept_for_the_user_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".codex/config.toml", "a = 1\n")
    assert main(["install", "codex", "--yes", "--json"]) == 0
    backup = Path(json.loads(capsys.readouterr().out)["hosts"][0]["backup"])
    assert backup.read_text() == "a = 1\n"
    assert [path.stat().st_mode & 0o777 for path in (backup, backup.parent)] == [0o600, 0o700]
    assert backup.parent == home / KEPT


def test_only_some_backups_are_kept(home: Path) -> None:
    for _ in range(7):
        assert main(["install", "codex", "--yes"]) == 0
        assert main(["uninstall", "codex", "--yes"]) == 0
        write(home / ".codex/config.toml", "a = 1\n")
    assert len(list((home / KEPT).glob("*.backup"))) == 10
    assert list((home / KEPT).glob("*.json")) == []


def test_a_link_is_followed_and_stays_a_link(home: Path) -> None:
    real = write(home / "dotfiles/mcp.json", "{}\n")
    link = home / ".cursor/mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    before = tree(home)
    assert main(["install", "cursor", "--yes"]) == 0
    assert link.is_symlink()
    assert launch_in(server(real)) is not None
    assert main(["uninstall", "cursor", "--yes"]) == 0
    assert tree(home) == before


def test_a_project_has_files_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = home / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    assert main(["install", "--project", "--yes", "claude-code", "vscode"]) == 0
    assert set(tree(project)) == {".mcp.json", ".vscode", ".vscode/mcp.json"}
    assert server(project / ".vscode/mcp.json", "servers")["type"] == "stdio"
    assert main(["uninstall", "--project", "--yes"]) == 0
    assert tree(project) == {}


def test_another_file_another_name_and_a_configuration(home: Path) -> None:
    config = write(home / "team.yaml", "subagents: []\n")
    file = home / "insiders/mcp.json"
    options = ["vscode", "--file", str(file), "--name", "team"]
    assert main(["install", *options, "--config", "team.yaml", "--yes"]) == 0
    launch = launch_in(json.loads(file.read_text())["servers"]["team"])
    assert launch is not None
    assert launch.args[-2:] == ("--config", str(config))
    assert main(["uninstall", *options, "--yes"]) == 0
    assert not file.parent.exists()


def test_a_key_is_copied_only_when_asked_and_never_shown(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "plain as day")
    file = home / "Claude/claude_desktop_config.json"
    assert main(["install", "claude-desktop", "--yes"]) == 0
    assert "env" not in server(file)
    assert "will not see OPENAI_API_KEY" in " ".join(capsys.readouterr().out.split())
    assert main(["install", "claude-desktop", "--yes", "--copy-keys"]) == 0
    assert server(file)["env"] == {"OPENAI_API_KEY": "plain as day"}
    assert main(["install", "claude-desktop", "--yes", "--copy-keys", "--env", "A=b"]) == 0
    assert main(["uninstall", "claude-desktop", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "plain as day" not in said
    assert '-        "OPENAI_API_KEY": "***"' in said
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("host", "file", "text"),
    [
        ("cursor", ".cursor/mcp.json", '{\n "mcpServers": {\n  "a": {"env": {"A": "sesame"}}}}'),
        ("cursor", ".cursor/mcp.json", '{\n "mcpServers": {\n  "a": {"url": "x", "headers": {"A": "sesame"}}}}'),
        ("opencode", "opencode/opencode.json", '{\n "mcp": {\n  "a": {"environment": {"A": "sesame"}}}}'),
        ("codex", ".codex/config.toml", "[mcp_servers.a]\nenv = { A = 'sesame' }\n"),
    ],
)
def test_secrets_of_other_servers_are_not_shown(
    home: Path, capsys: pytest.CaptureFixture[str], host: str, file: str, text: str
) -> None:
    write(home / file, text)
    assert main(["install", host, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "sesame" not in said
    assert "***" in said


def test_another_server_of_that_name_is_replaced_by_force_alone_and_comes_back(home: Path) -> None:
    file = write(home / ".cursor/mcp.json", '{"mcpServers": {"subagents": {"command": "npx"}}}')
    before = tree(home)
    assert main(["install", "cursor", "--yes"]) == 2
    assert main(["uninstall", "cursor", "--yes"]) == 2
    assert main(["uninstall", "--yes"]) == 0
    assert tree(home) == before
    assert main(["install", "cursor", "--yes", "--force"]) == 0
    assert server(file)["command"] != "npx"
    assert main(["uninstall", "cursor", "--yes"]) == 0
    assert tree(home) == before


def test_a_file_that_changes_while_one_decides_is_left_alone(home: Path) -> None:
    file = write(home / ".codex/config.toml", "a = 1\n")
    receipts = Receipts(home / KEPT)
    plan = plan_install(HOSTS["codex"], file, "subagents", {"command": "mcp-subagents"}, receipts)
    assert plan is not None
    file.write_text("a = 2\n")
    with pytest.raises(ConfigError, match="it has just been changed by somebody else"):
        carry_out(plan, receipts, datetime.now(UTC))
    assert file.read_text() == "a = 2\n"
    assert receipts.read(file, "subagents") is None


def test_a_file_that_may_not_be_written_is_left_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(home / ".codex/config.toml", "a = 1\n")
    file.chmod(0o444)
    assert main(["install", "codex", "--yes"]) == 2
    assert "it may not be written" in capsys.readouterr().out
    assert file.read_text() == "a = 1\n"


def test_a_receipt_that_cannot_be_read_is_done_without(home: Path) -> None:
    file = write(home / ".codex/config.toml", "a = 1\n")
    assert main(["install", "codex", "--yes"]) == 0
    [receipt] = (home / KEPT).glob("*.json")
    receipt.write_text("[]")
    assert main(["uninstall", "codex", "--yes"]) == 0
    assert file.read_text() == "a = 1\n"


def test_a_file_that_the_user_has_made_anew_stays(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    assert main(["install", "cursor", "--yes"]) == 0
    file.unlink()
    write(file, '{"mcpServers": {"subagents": {"command": "mcp-subagents", "args": []}}}')
    assert main(["uninstall", "cursor", "--yes"]) == 0
    assert file.read_text() == "{}"


def test_what_was_noted_of_an_entry_goes_when_the_entry_is_seen_to_be_gone(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    assert main(["install", "cursor", "--yes"]) == 0
    installed = file.read_text()
    file.unlink()
    assert main(["uninstall", "--yes", "--dry-run"]) == 0
    assert len(list((home / KEPT).glob("*.json"))) == 1
    assert main(["uninstall", "--yes"]) == 0
    assert list((home / KEPT).glob("*.json")) == []
    write(file, installed)
    assert main(["uninstall", "--yes"]) == 0
    assert json.loads(file.read_text())["mcpServers"] == {}


def test_keys_that_a_configuration_names_are_looked_up_too(home: Path) -> None:
    write(home / "team.yaml", "subagents:\n- {name: a, description: b, instructions: c, api_key_env: TEAM_KEY}\n")
    assert main(["install", "cursor", "--config", "team.yaml", "--yes"]) == 0
    assert server(home / ".cursor/mcp.json")["env"] == {"TEAM_KEY": "${env:TEAM_KEY}"}


def folder_in_place(file: Path) -> None:
    file.mkdir(parents=True)


def not_text(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes('{"é": 1}'.encode("utf-16"))


def a_loop(file: Path) -> None:
    file.parent.mkdir()
    file.symlink_to(file)


def a_file_as_folder(file: Path) -> None:
    file.parent.touch()


def a_pipe(file: Path) -> None:
    file.parent.mkdir()
    os.mkfifo(file)


REFUSALS = {
    "a pipe": (a_pipe, "this is a device or a pipe, and should be a file. Name another one."),
    "a folder": (folder_in_place, "this is a folder, and should be a file. Move it away, and try again."),
    "another encoding": (not_text, "this is not UTF-8 text (byte 0). Save it as UTF-8, and try again."),
    "a link to itself": (a_loop, "it cannot be read: "),
    "a file in place of its folder": (a_file_as_folder, "it cannot be "),
}


@pytest.mark.parametrize(("prepare", "told"), REFUSALS.values(), ids=REFUSALS)
def test_it_is_refused_in_place_of_the_file_to_take(
    home: Path, capsys: pytest.CaptureFixture[str], prepare: Any, told: str
) -> None:
    file = home / ".cursor/mcp.json"
    prepare(file)
    before = tree(home)
    assert main(["install", "cursor", "--yes", "--json"]) == 2
    [outcome] = json.loads(capsys.readouterr().out)["hosts"]
    assert outcome["result"] == "refused"
    assert outcome["told"][0].startswith(f"{file}: {told}")
    assert tree(home) == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["nano"], "There is no host 'nano' here; known: claude-code"),
        (["codex", "--name", "my server"], "--name: 'my server' is no name for a server: 1 to 32 letters"),
        (["--file", "x"], "--file needs exactly one HOST"),
        (["claude-desktop", "--project"], "Claude Desktop keeps no servers in projects: leave --project out."),
        (["codex", "--config", "nowhere.yaml"], "--config: there is no file"),
        (["codex", "--env", "1X=2"], "--env: '1X' is no name of a variable. It is NAME, or NAME=VALUE."),
        ([], "No host was found here. Name the one that you mean: mcp-subagents install HOST."),
    ],
)
def test_a_wrong_option_is_told(home: Path, capsys: pytest.CaptureFixture[str], options: list[str], told: str) -> None:
    assert main(["install", "--yes", *options]) == 2
    assert told in capsys.readouterr().err
    assert tree(home) == {}


def test_uninstall_says_so_when_there_is_nothing_of_ours(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["uninstall", "--yes"]) == 0
    assert capsys.readouterr().out == "No host here has a server of ours that is called 'subagents'.\n"
