"""Staying with a task while others act on it: nothing is lost between two looks."""

import logging
from collections.abc import AsyncIterator, Callable
from io import StringIO
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai.messages import ToolCallPart
from rich.console import Console
from samples import put, started

from mcp_subagents import moves
from mcp_subagents.agents import Roster
from mcp_subagents.cli import task_watch
from mcp_subagents.cli.following import stay_with
from mcp_subagents.cli.run import on_model
from mcp_subagents.cli.screens import PlainScreen, ScreenLog
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.delegation import Submission
from mcp_subagents.errand import run_errands
from mcp_subagents.store import Store
from mcp_subagents.store.sqlite import SqliteStore, open_sqlite
from mcp_subagents.testing import ScriptedModel
from mcp_subagents.types import TaskStatus, TaskUsage, utc_now

ID = "new4xYz0aaaaaaaaaaaaaa"


async def no_signals() -> AsyncIterator[int]:
    await anyio.sleep_forever()
    yield 0


async def test_an_answer_between_two_looks_is_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model = ScriptedModel(ToolCallPart("ask_parent", {"question": "Which?"}), "Done.")
    roster = Roster([SubAgentConfig(name="a", description="b", instructions="c", model=model)])
    with anyio.fail_after(20):
        async with open_sqlite(tmp_path / "tasks.db") as store, run_errands(store, roster) as errands:
            engine = errands.engine
            really = engine.wait

            async def answered_at_once(task_ids: list[str]) -> Any:
                waited = await really(task_ids)
                if waited.tasks[0].status is TaskStatus.WAITING_FOR_ANSWER:
                    await engine.answer(task_ids[0], "This one.")
                return waited

            monkeypatch.setattr(engine, "wait", answered_at_once)
            task = await errands.run(Submission(description="Do it.", subagent="a", mode="sync"))
            screen = PlainScreen(Console(file=StringIO()))
            await stay_with(engine, task.task_id, screen, no_signals(), interactive=False, leaves_questions=False)
            assert (await engine.check(task.task_id)).status is TaskStatus.COMPLETED


async def end(store: Store) -> None:
    record = await started(store, ID)
    done = moves.complete("42", usage=TaskUsage(), seconds=0.0, at=utc_now())
    await store.change(ID, done, lease=record.lease)


def ending_it_after(really: Callable[..., Any], store: SqliteStore) -> Callable[..., Any]:
    """The same function; when it is called for the first time, the task ends before anything else happens."""
    calls: list[None] = []

    async def act(*given: Any, **named: Any) -> Any:
        calls.append(None)
        made = await really(*given, **named)
        if len(calls) == 1:
            await end(store)
        return made

    return act


@pytest.mark.parametrize(("shown_by", "live"), [("standing_of", False), ("picture", True)], ids=["lines", "a table"])
async def test_the_end_of_a_task_is_told_though_it_came_while_its_beginning_was(
    shown_by: str, live: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("COLUMNS", "80")
    if live:
        monkeypatch.setenv("FORCE_COLOR", "1")
    with anyio.fail_after(20):
        async with open_sqlite(tmp_path / "tasks.db") as store:
            await put(store, ID, "helper", "Something new.")
            monkeypatch.setattr(task_watch, shown_by, ending_it_after(getattr(task_watch, shown_by), store))
            await task_watch.watch_tasks(store, [ID], as_json=False)
    out = capsys.readouterr().out
    assert "pending" in out
    assert "completed" in out


def test_another_model_does_not_inherit_the_address_the_key_or_the_stand_ins():
    own = SubAgentConfig(
        name="a",
        description="b",
        instructions="c",
        model="openai:qwen3",
        base_url="http://localhost:11434/v1",
        api_key_env="LOCAL_KEY",
        fallback_models=["openai:llama"],
        effort="low",
    )
    assert on_model(own, "anthropic:claude-sonnet-4-5") == SubAgentConfig(
        name="a", description="b", instructions="c", model="anthropic:claude-sonnet-4-5", effort="low"
    )
    assert own.get("base_url"), "the definition itself stays as it is"


def test_the_log_of_a_run_has_no_secrets():
    out = StringIO()
    log = ScreenLog(PlainScreen(Console(file=out, width=200)))
    log.emit(logging.makeLogRecord({"msg": "Incorrect key %s.", "args": ("sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8t",)}))
    assert out.getvalue() == "mcp-subagents: Incorrect key [redacted].\n"
