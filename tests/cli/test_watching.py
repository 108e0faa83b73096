"""`tasks` as a process of its own: live tables, prompts at a terminal, and what it does not load."""

import json
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from samples import ASKING, RUNNING, TORN, fill, put, started
from terminal import at_terminal, command

from mcp_subagents import moves
from mcp_subagents.store import Query
from mcp_subagents.store.sqlite import SqliteStore, open_sqlite
from mcp_subagents.types import TaskStatus, TaskUsage, utc_now

pytestmark = pytest.mark.slow


@pytest.fixture
async def store(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[SqliteStore]:
    monkeypatch.setenv("MCP_SUBAGENTS_STORE", f"sqlite:///{home}/tasks.db")
    async with open_sqlite(home / "tasks.db") as opened:
        await fill(opened)
        yield opened


async def finish(store: SqliteStore, task_id: str) -> None:
    record = await started(store, task_id)
    done = moves.complete("42", usage=TaskUsage(), seconds=0.0, at=utc_now())
    await store.change(task_id, done, lease=record.lease)


async def test_piped_there_is_a_line_for_each_change_until_ctrl_c(store: SqliteStore):
    with anyio.fail_after(40):
        async with command("tasks", "watch") as watching:
            assert (await watching.printed("run4xYz0")).endswith(
                "run4xYz0  running    researcher: asking the model · turn 1 · $0.0123"
            )
            assert (await watching.printed("two4xYz0")).endswith("general-purpose: ? First? · turn 1 · $0.0123")
            await put(store, "new4xYz0aaaaaaaaaaaaaa", "helper", "Something new.")
            assert (await watching.printed("new4xYz0")).endswith("pending    helper: number 2 in the queue")
            watching.process.send_signal(signal.SIGINT)
            assert await watching.ended() == (0, "", "")


async def test_one_task_is_watched_until_it_has_ended(store: SqliteStore):
    await put(store, "new4xYz0aaaaaaaaaaaaaa", "helper", "Something new.")
    with anyio.fail_after(40):
        async with command("tasks", "watch", "new", "--json") as watching:
            assert json.loads(await watching.printed())["status"] == "pending"
            await put(store, "odd4xYz0aaaaaaaaaaaaaa", "helper", "Of no interest.")
            await put(store, "low4xYz0aaaaaaaaaaaaaa", "helper", "Below it.", parent="new4xYz0aaaaaaaaaaaaaa")
            assert json.loads(await watching.printed("low4xYz0"))["parent_id"] == "new4xYz0aaaaaaaaaaaaaa"
            await finish(store, "low4xYz0aaaaaaaaaaaaaa")
            await finish(store, "odd4xYz0aaaaaaaaaaaaaa")
            await finish(store, "new4xYz0aaaaaaaaaaaaaa")
            code, out, err = await watching.ended()
    assert (code, err) == (0, "")
    assert json.loads(out.splitlines()[-1])["status"] == "completed"
    assert "odd4xYz0" not in out


async def test_at_a_terminal_the_table_follows_the_changes(store: SqliteStore):
    with anyio.fail_after(40):
        async with at_terminal("tasks", "watch") as terminal:
            seen = await terminal.shows("Ctrl-C leaves")
            await put(store, "new4xYz0aaaaaaaaaaaaaa", "helper", "Something new.")
            seen = await terminal.shows("new4xYz0", after=seen)
            terminal.process.send_signal(signal.SIGINT)
            assert await terminal.ended() == 0
    assert "\x1b[2J" not in terminal.shown
    assert "owned" not in terminal.shown


async def test_at_a_terminal_each_open_question_is_asked(store: SqliteStore):
    with anyio.fail_after(40):
        async with at_terminal("tasks", "answer", "two") as terminal:
            seen = await terminal.shows("First?")
            await terminal.type("one\n")
            await terminal.shows("Second?", after=seen)
            await terminal.type("two\n")
            await terminal.shows("Answered.")
            assert await terminal.ended() == 0
    handle = (await store.read(TORN)).handle
    assert [each.answer for each in handle.questions] == ["one", "two"]
    assert handle.status is TaskStatus.PENDING


async def test_at_a_terminal_ctrl_d_leaves_the_question_open(store: SqliteStore):
    with anyio.fail_after(40):
        async with at_terminal("tasks", "answer", "ask") as terminal:
            await terminal.shows("> ")
            await terminal.type("\x04")
            assert await terminal.ended() == 3
    assert (await store.read(ASKING)).handle.status is TaskStatus.WAITING_FOR_ANSWER


@pytest.mark.parametrize(("said", "left"), [("n", 8), ("", 8), ("y", 4)])
async def test_at_a_terminal_nothing_is_deleted_before_somebody_agrees(store: SqliteStore, said: str, left: int):
    with anyio.fail_after(40):
        async with at_terminal("tasks", "prune", "--older-than", "0s") as terminal:
            await terminal.shows("[y/N] ")
            await terminal.type(f"{said}\n")
            assert await terminal.ended() == (0 if said == "y" else 3)
    assert await store.count(Query()) == left


LOADED = """if True:
    import sys
    from mcp_subagents.cli import main
    code = main(sys.argv[1:])
    print(*sorted({"pydantic_ai", "mcp", "rich", "openai"} & sys.modules.keys()), file=sys.stderr)
    sys.exit(code)
"""


@pytest.mark.parametrize("action", ["list", "show don", "answer ask x", "send run x", "result don"])
@pytest.mark.usefixtures("store")
async def test_a_glance_at_the_tasks_loads_no_engine(action: str):
    done = await anyio.run_process([sys.executable, "-c", LOADED, "tasks", *action.split()])
    assert done.stderr.decode().splitlines()[-1] == "rich"


async def test_a_reader_that_has_seen_enough_is_no_mistake(store: SqliteStore):
    assert await store.read(RUNNING)
    shell = f"{sys.executable} -m mcp_subagents tasks list --all | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = await anyio.run_process(["bash", "-c", shell])
    assert (done.stdout.decode().split()[-1], done.stderr) == ("0", b"")
