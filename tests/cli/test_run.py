"""`mcp-subagents run`: a real process, a real file, a scripted model behind a real connection."""

import json
import signal
import sys
from pathlib import Path

import anyio
import pytest
from samples import put, statuses
from terminal import at_terminal, command, provider, result_of, said_by_user, turns

from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.delegation import ACTIVE
from mcp_subagents.records import TaskRecord
from mcp_subagents.store import Query
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.testing import Hang, Received, Reply, Status, Text, ToolCall, ToolCalls
from mcp_subagents.types import TaskStatus

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert home
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")
    monkeypatch.setenv("OPENAI_BASE_URL", "set by the provider")
    monkeypatch.delenv("MCP_SUBAGENTS_MODEL")


async def stored(home: Path) -> list[TaskRecord]:
    async with open_sqlite(home / "tasks.db") as store:
        return list(await store.select(Query()))


def forty_two(_: Received) -> Reply:
    return Text("The answer:\n\n\x1b[31m42\x1b[0m")


def asking(request: Received) -> Reply:
    """Asks in its first turn, and repeats what it is told in its second."""
    if not turns(request):
        return ToolCalls([ToolCall("ask_parent", {"question": "Which \x1b[5mregion\x1b[0m?"})], "I have a question.")
    return Text(f"So it is {request.body['messages'][-1]['content']}.")


def stuck_after_a_turn(request: Received) -> Reply:
    """Delegates, reads the result, and then hangs."""
    if "small part" in said_by_user(request):
        return Text("A small thing.")
    if not turns(request):
        delegate = ToolCall("task", {"description": "A small part.", "subagent_type": "helper"})
        return ToolCalls([delegate], "First, the small part.")
    return Hang()


async def test_the_result_alone_is_on_standard_output(home: Path):
    async with provider(home, forty_two):
        code, out, err = await result_of("run", "What is it?")
    assert (code, out) == (0, "The answer:\n\n42\n")
    assert err.splitlines()[0].startswith("task ")
    assert "turn 1 · asking the model" in err
    assert err.splitlines()[-1].startswith("completed · 1 turn · ")
    [record] = await stored(home)
    assert (record.handle.result, record.unread, record.handle.mode) == (
        "The answer:\n\n\x1b[31m42\x1b[0m",
        False,
        "sync",
    )


async def test_as_json_it_is_the_whole_task(home: Path):
    async with provider(home, forty_two):
        code, out, _ = await result_of("run", "What is it?", "--agent", "Helper", "--json")
    task = json.loads(out)
    assert (code, task["status"], task["subagent"]) == (0, "completed", "helper")
    assert task["result"] == "The answer:\n\n\x1b[31m42\x1b[0m"


async def test_the_description_can_come_from_standard_input(home: Path):
    async with provider(home, forty_two):
        argv = [sys.executable, "-m", "mcp_subagents", "run", "-"]
        done = await anyio.run_process(argv, input=b"What\nis it?\n")
    assert done.stdout == b"The answer:\n\n42\n"
    assert (await stored(home))[0].handle.description == "What\nis it?"


async def test_a_failure_is_told_in_words(home: Path):
    async with provider(home, lambda _: Status(401)):
        code, out, err = await result_of("run", "What is it?")
    assert (code, out) == (1, "")
    assert "Permanent: The model provider refused the credentials" in err
    assert "You could: Give it to another subagent: helper." in err


async def test_another_model_can_be_named_for_one_task(home: Path):
    async with provider(home, forty_two) as gateway:
        code, _, _ = await result_of("run", "What is it?", "--model", "openai-chat:gpt-4.1-mini")
    assert (code, gateway.requests[0].body["model"]) == (0, "gpt-4.1-mini")


async def test_a_task_can_be_followed_up_by_the_same_subagent(home: Path):
    async with provider(home, forty_two) as gateway:
        await result_of("run", "What is it?", "--agent", "helper")
        [first] = await stored(home)
        code, _, _ = await result_of("run", "And why?", "--continue", first.task_id[:10])
    assert code == 0
    assert "What is it?" in said_by_user(gateway.requests[1])
    assert [each.handle.subagent_name for each in await stored(home)] == ["helper", "helper"]


async def test_the_queue_of_others_is_not_touched(home: Path):
    helper = SubAgentSpec(name="helper", model="openai-chat:gpt-4o-mini").model_dump_json(exclude_none=True)
    async with open_sqlite(home / "tasks.db") as store:
        for number in range(5):
            await put(store, f"other{number}", "helper", "Not for you.", definition=helper)
    async with provider(home, stuck_after_a_turn) as gateway, command("run", "Do it.") as running:
        await running.noted("turn 2 · asking the model")
        assert not any("Not for you" in said_by_user(each) for each in gateway.requests)
        async with open_sqlite(home / "tasks.db") as store:
            found = await statuses(store)
    assert [found[f"other{number}"] for number in range(5)] == [TaskStatus.PENDING] * 5


async def test_what_is_below_it_is_told_and_run_here(home: Path):
    def answers(request: Received) -> Reply:
        reply = stuck_after_a_turn(request)
        return Text("All of it.") if isinstance(reply, Hang) else reply

    async with provider(home, answers):
        code, out, err = await result_of("run", "Do it.")
    assert (code, out) == (0, "All of it.\n")
    assert "  └ helper: turn 1 · asking the model" in err.splitlines()


async def test_what_is_left_below_it_ends_with_it(home: Path):
    def answers(request: Received) -> Reply:
        if "small part" in said_by_user(request):
            return Hang()
        aside = ToolCall("task", {"description": "A small part.", "subagent_type": "helper", "mode": "async"})
        return ToolCalls([aside], "Meanwhile:") if not turns(request) else Text("All but the small part.")

    async with provider(home, answers):
        assert (await result_of("run", "Do it."))[:2] == (0, "All but the small part.\n")
    assert {each.handle.description: each.handle.status for each in await stored(home)} == {
        "Do it.": TaskStatus.COMPLETED,
        "A small part.": TaskStatus.CANCELLED,
    }


async def test_ctrl_c_stops_it_softly_and_keeps_what_it_found(home: Path):
    def answers(request: Received) -> Reply:
        if not turns(request):
            return ToolCalls([ToolCall("list_active_tasks")], "First, I look around.")
        return ToolCalls([ToolCall("list_active_tasks")], "Then I look again.") if turns(request) < 40 else Hang()

    async with provider(home, answers), command("run", "Do it.") as running:
        await running.noted("turn 2")
        running.process.send_signal(signal.SIGINT)
        code, out, err = await running.ended()
    assert (code, out) == (130, "")
    assert "Cancelled: The task was asked to stop, and did." in err
    assert "First, I look around." in err.partition("What it had found until then:\n")[2]
    [record] = await stored(home)
    assert (record.handle.status, record.unread) == (TaskStatus.CANCELLED, False)


async def test_ctrl_c_again_stops_it_at_once(home: Path):
    async with provider(home, stuck_after_a_turn), command("run", "Do it.") as running:
        await running.noted("turn 2 · asking the model")
        running.process.send_signal(signal.SIGINT)
        await running.noted("Ctrl-C again stops it at once.")
        running.process.send_signal(signal.SIGINT)
        await running.noted("Stopping it now.")
        code, out, err = await running.ended()
    assert (code, out) == (130, "")
    assert "What it had found until then:\nFirst, the small part." in err
    assert not [each for each in await stored(home) if each.handle.status in ACTIVE]


@pytest.mark.parametrize("told_by", [signal.SIGTERM, signal.SIGHUP])
async def test_a_terminal_that_is_closed_leaves_the_task_to_the_next_server(home: Path, told_by: signal.Signals):
    async with provider(home, stuck_after_a_turn), command("run", "Do it.") as running:
        await running.noted("turn 2 · asking the model")
        running.process.send_signal(told_by)
        code, out, err = await running.ended()
    assert (code, out) == (128 + told_by, "")
    assert "the next server goes on with task" in err
    top = (await stored(home))[0]
    assert (top.handle.status, top.handle.turns) == (TaskStatus.PENDING, 1)


async def test_after_a_kill_a_server_goes_on_with_it(home: Path):
    killed = anyio.Event()

    def answers(request: Received) -> Reply:
        reply = stuck_after_a_turn(request)
        return Text("In the end.") if isinstance(reply, Hang) and killed.is_set() else reply

    async with provider(home, answers):
        async with command("run", "Do it.") as running:
            await running.noted("turn 2 · asking the model")
            running.process.kill()
            await running.process.wait()
        killed.set()
        async with command("serve", "--transport", "http", "--port", "0") as server:
            await server.noted("listening")
            async with open_sqlite(home / "tasks.db") as store, store.watch() as changes:
                top = (await store.select(Query()))[0]
                while not top.handle.status.is_terminal:
                    await changes.receive()
                    top = await store.read(top.task_id)
    assert (top.handle.result, top.handle.turns) == ("In the end.", 2)


async def test_in_the_background_it_is_left_to_a_server(home: Path):
    async with provider(home, forty_two) as gateway:
        code, out, err = await result_of("run", "What is it?", "--background")
        [record] = await stored(home)
        assert (code, out, record.handle.status) == (0, f"{record.task_id}\n", TaskStatus.PENDING)
        assert err.startswith("No server seems to be at work here; the next one,")
        assert gateway.requests == []
        async with command("serve", "--transport", "http", "--port", "0") as server:
            await server.noted("listening")
            code, out, _ = await result_of("tasks", "watch", record.task_id)
            assert (code, "completed" in out.splitlines()[-1]) == (0, True)
            assert (await result_of("run", "And now?", "--background"))[2] == ""


async def test_beside_a_server_it_is_run_once(home: Path):
    async with provider(home, forty_two) as gateway, command("serve", "--transport", "http", "--port", "0") as server:
        await server.noted("listening")
        assert (await result_of("run", "What is it?"))[:2] == (0, "The answer:\n\n42\n")
    assert len(gateway.requests) == 1


async def test_piped_a_question_can_be_answered_from_elsewhere(home: Path):
    async with provider(home, asking), command("run", "Do it.") as running:
        assert await running.noted("It asks") == "It asks: Which region?"
        task_id = (await running.noted("tasks answer")).split()[-2]
        assert (await result_of("tasks", "answer", task_id, "the EU"))[:2] == (0, "Answered.\n")
        code, out, _ = await running.ended()
    assert (code, out) == (0, "So it is the EU.\n")


async def test_piped_a_question_can_be_left_open(home: Path):
    async with provider(home, asking):
        code, out, err = await result_of("run", "Do it.", "--leave-questions")
    assert (code, out) == (3, "")
    assert "The question stays open: mcp-subagents tasks answer " in err
    [record] = await stored(home)
    assert record.handle.status is TaskStatus.WAITING_FOR_ANSWER


async def test_at_a_terminal_the_person_is_asked(home: Path):
    async with provider(home, asking), at_terminal("run", "Do it.") as terminal:
        asked = await terminal.shows("? Which region?")
        await terminal.type("\n")
        await terminal.type("the EU\n")
        await terminal.shows("So it is the EU.", after=asked)
        assert await terminal.ended() == 0
    assert "\x1b[5m" not in terminal.shown
    assert "pydantic-ai v" not in terminal.shown


async def test_at_a_terminal_a_question_can_be_left_open(home: Path):
    async with provider(home, asking), at_terminal("run", "Do it.") as terminal:
        await terminal.shows("> ")
        await terminal.type("\x04")
        await terminal.shows("The question stays open")
        assert await terminal.ended() == 3


async def test_a_question_that_is_answered_elsewhere_is_not_asked_any_more(home: Path):
    async with provider(home, asking), at_terminal("run", "Do it.") as terminal:
        await terminal.shows("> ")
        [record] = await stored(home)
        assert (await result_of("tasks", "answer", record.task_id, "the US"))[0] == 0
        await terminal.shows("So it is the US.")
        assert await terminal.ended() == 0


async def test_of_several_questions_one_that_is_answered_elsewhere_is_not_asked(home: Path):
    def answers(request: Received) -> Reply:
        if turns(request):
            return Text(" and ".join(str(each["content"]) for each in request.body["messages"][-2:]))
        calls = [ToolCall("ask_parent", {"question": question}) for question in ("Which region?", "Which year?")]
        return ToolCalls(calls, "Two questions.")

    async with provider(home, answers), at_terminal("run", "Do it.") as terminal:
        await terminal.shows("? Which region?")
        [record] = await stored(home)
        assert (await result_of("tasks", "answer", record.task_id, "--question", "2", "2026"))[0] == 0
        await terminal.type("the EU\n")
        await terminal.shows("the EU and 2026")
        assert await terminal.ended() == 0
    assert "Which year?" not in terminal.shown


async def test_at_a_terminal_ctrl_c_ends_a_question(home: Path):
    async with provider(home, asking), at_terminal("run", "Do it.") as terminal:
        await terminal.shows("> ")
        terminal.process.send_signal(signal.SIGINT)
        await terminal.shows("Cancelled: The task was cancelled.")
        assert await terminal.ended() == 130


MISTAKEN: dict[str, tuple[list[str], str]] = {
    "nothing to do": (["run", "  "], "The task is empty: say what the subagent is to do."),
    "an unknown subagent": (["run", "x", "--agent", "nobody"], "No subagent is named 'nobody'. Configured: general-p"),
    "an unknown past": (["run", "x", "--continue", "zzz"], "There is no task whose id begins with 'zzz'."),
}


@pytest.mark.parametrize("case", MISTAKEN)
async def test_a_mistake_is_told_in_a_line(home: Path, case: str):
    words, told = MISTAKEN[case]
    async with provider(home, forty_two):
        code, out, err = await result_of(*words)
    assert (code, out) == (2, "")
    assert err.startswith(f"mcp-subagents: {told}")


async def test_without_a_model_it_says_what_to_set(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    code, out, err = await result_of("run", "What is it?")
    assert (code, out) == (2, "")
    assert err.startswith("mcp-subagents: There is no model to run tasks on. Set MCP_SUBAGENTS_MODEL")


async def test_without_a_usual_subagent_one_has_to_be_named(home: Path):
    (home / "subagents.yaml").write_text("model: test\nsubagents: [{name: a}, {name: b}]\n")
    code, _, err = await result_of("run", "What is it?")
    assert (code, err) == (2, "mcp-subagents: Say which subagent with --agent: a, b.\n")
