"""What docs/operations.md says is true."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from paperwork import add, ids, task
from platformdirs.macos import MacOS
from platformdirs.unix import Unix

from mcp_subagents.cli import main
from mcp_subagents.cli.completion import whole
from mcp_subagents.config.providers import PROVIDERS
from mcp_subagents.doctor import CHECKS
from mcp_subagents.store import Query
from mcp_subagents.store.sqlite import open_sqlite

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGE = (DOCS / "operations.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_doctor_says_what_is_shown(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    for each in PROVIDERS:
        monkeypatch.delenv(each.variable, raising=False)
    monkeypatch.delenv("MCP_SUBAGENTS_MODEL")
    (home / "subagents.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    command = shlex.split(blocks("sh")[1])
    assert main(command[1:]) == 1
    assert capsys.readouterr().out == blocks("text")[0]


def test_every_check_has_a_row():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE) == list(CHECKS)


def test_every_command_is_one():
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("mcp-subagents ")]
    assert [whole().parse_args(shlex.split(each)[1:]).command for each in commands] == ["doctor", "doctor"]


def test_the_store_is_where_it_is_said_to_be(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    told = dict(re.findall(r"^\| (Linux|macOS) \| `([^`]+)` \|", PAGE, flags=re.MULTILINE))
    real = {
        name: kind("mcp-subagents", False).user_data_path / "tasks.db"
        for name, kind in (("Linux", Unix), ("macOS", MacOS))
    }
    assert {name: Path(path).expanduser() for name, path in told.items()} == real


@pytest.mark.slow
async def test_a_store_in_use_can_be_backed_up_as_shown(tmp_path: Path):
    [command] = blocks("sh")[0].splitlines()
    async with open_sqlite(tmp_path / "tasks.db") as store:
        await add(store, task())
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(  # noqa: ASYNC221  # nobody else is waiting
            ["sh", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            timeout=20,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "tasks-backup.db").stat().st_mode & 0o777 == 0o600
    async with open_sqlite(tmp_path / "tasks-backup.db") as copy:
        assert ids(await copy.select(Query())) == ["t1"]


def test_the_page_links_only_to_files_that_exist():
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", PAGE)
    assert [link for link in links if not (DOCS / link).exists()] == []
