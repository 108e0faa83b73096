"""Native MCP tasks: a client that takes them need not hold a call open, and what it waits for is ours, in the store."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.extension import advertise
from mcp_types import CallToolResult, InputRequiredResult
from native_host import MODERN, OVER, TASKS, NativeHost, accepted, hosting, serving
from office import subagent
from pydantic_ai.messages import ToolCallPart

from mcp_subagents import SubAgentConfig
from mcp_subagents.server import foreground
from mcp_subagents.server.http import network_app
from mcp_subagents.testing import Line

ACK = {"resultType": "complete"}
UNKNOWN, UNDECLARED, MISMATCH = -32602, -32021, -32020


def ask(question: str, call_id: str = "q1") -> ToolCallPart:
    return ToolCallPart("ask_parent", {"question": question}, tool_call_id=call_id)


class Digging:
    """A subagent at work until it is told to go on."""

    def __init__(self, *lines: Line, **more: Any) -> None:
        self.begun = anyio.Event()
        self.may_end = anyio.Event()

        async def dig() -> str:
            self.begun.set()
            await self.may_end.wait()
            return "dug"

        self.subagent: SubAgentConfig = subagent(ToolCallPart("dig", {}), *lines, tools=[dig], **more)


def structured(task: dict[str, Any]) -> dict[str, Any]:
    return task["result"]["structuredContent"]


async def test_a_sync_task_is_a_native_task_whose_result_is_that_of_the_call(tmp_path: Path):
    digging = Digging("Found it.")
    async with hosting(serving(tmp_path, digging.subagent)) as host:
        created = await host.begin("task", description="Dig.", subagent_type="worker")
        task_id = created.pop("taskId")
        assert datetime.fromisoformat(created.pop("createdAt")) <= datetime.fromisoformat(created.pop("lastUpdatedAt"))
        assert created == {"resultType": "task", "status": "working", "ttlMs": None, "pollIntervalMs": 1000}
        await digging.begun.wait()
        working = await host.get(task_id)
        assert (working["status"], working["statusMessage"]) == ("working", "calling dig")
        assert not {"result", "error", "inputRequests"} & working.keys()
        digging.may_end.set()
        done = await host.until(task_id, "completed")
    assert (done["resultType"], done["taskId"]) == ("complete", task_id)
    assert (structured(done)["task_id"], structured(done)["result"]) == (task_id, "Found it.")
    assert "Found it." in done["result"]["content"][0]["text"]
    assert timedelta(milliseconds=done["ttlMs"]) >= timedelta(days=30)


async def test_the_sdks_client_calls_as_ever(tmp_path: Path):
    async with hosting(serving(tmp_path, subagent("Found it."))) as host:
        result = await host.client.call_tool("task", {"description": "Dig.", "subagent_type": "worker"})
    assert result.structured_content is not None
    assert result.structured_content["result"] == "Found it."


async def test_an_async_task_is_still_handed_over_at_once(tmp_path: Path):
    digging = Digging("Found it.")
    async with hosting(serving(tmp_path, digging.subagent)) as host:
        arguments = {"description": "Dig.", "subagent_type": "worker", "mode": "async"}
        handed = await host.client.session.call_tool("task", arguments, allow_claimed=True)
        assert isinstance(handed, CallToolResult)
        assert handed.structured_content is not None
        assert handed.structured_content["status"] in ("pending", "running")


@pytest.mark.parametrize(
    ("mode", "extensions"), [(MODERN, []), ("legacy", [advertise(TASKS)])], ids=["does not say so", "is of the past"]
)
async def test_a_client_that_takes_no_native_tasks_gets_the_result_itself(
    tmp_path: Path, mode: Any, extensions: list[Any]
):
    with anyio.fail_after(10):
        async with Client(serving(tmp_path, subagent("Found it.")), mode=mode, extensions=extensions) as client:
            done = await client.call_tool("task", {"description": "Dig.", "subagent_type": "worker"})
            assert done.structured_content is not None
            assert done.structured_content["result"] == "Found it."
            task_ids = [done.structured_content["task_id"]]
            waited = await client.call_tool("wait_tasks", {"task_ids": task_ids})
            assert waited.structured_content is not None
            assert waited.structured_content["finished"] == 1


async def test_the_user_answers_a_question_of_the_task(tmp_path: Path):
    async with hosting(serving(tmp_path, subagent(ask("Which river?"), "The Rhine."))) as host:
        task_id = await host.task()
        asking = await host.until(task_id, "input_required")
        [(key, request)] = asking["inputRequests"].items()
        assert request["method"] == "elicitation/create"
        assert request["params"]["message"] == "The subagent 'worker' asks: Which river?"
        assert request["params"]["requestedSchema"]["required"] == ["answer"]
        assert await host.update(task_id, **{key: accepted("The one in Basel")}) == ACK
        done = await host.until(task_id, "completed")
    assert structured(done)["result"] == "The Rhine."


async def test_answers_come_one_by_one_and_strange_ones_are_ignored(tmp_path: Path):
    lines = [ask("Who?", "who"), ask("When?", "when")]
    async with hosting(serving(tmp_path, subagent(lines, "Anna, today."))) as host:
        task_id = await host.task()
        assert (await host.until(task_id, "input_required"))["inputRequests"].keys() == {"who", "when"}
        assert await host.update(task_id, what=accepted("?"), when="today", who={"action": "shrug"}) == ACK
        assert (await host.get(task_id))["inputRequests"].keys() == {"who", "when"}
        assert await host.update(task_id, who=accepted("Anna")) == ACK
        assert (await host.get(task_id))["inputRequests"].keys() == {"when"}
        assert await host.update(task_id, who=accepted("Berta"), when=accepted("today")) == ACK
        done = await host.until(task_id, "completed")
        assert structured(done)["result"] == "Anna, today."
        said = await host.client.read_resource(f"subagents://tasks/{task_id}/transcript")
    transcript: Any = said.contents[0]
    assert "Anna" in transcript.text
    assert "Berta" not in transcript.text


@pytest.mark.parametrize("said", [{"action": "decline"}, {"action": "cancel"}, accepted("  ")], ids=str)
async def test_what_the_user_will_not_answer_is_left_to_the_model(tmp_path: Path, said: dict[str, Any]):
    lines = (ask("Which river?"), "The Rhine.")
    async with hosting(serving(tmp_path, subagent(*lines), subagent(ask("Who?"), name="other"))) as host:
        task_id = await host.task()
        other = (await host.begin("task", description="Go.", subagent_type="other"))["taskId"]
        await host.until(task_id, "input_required")
        assert await host.update(task_id, q1=said) == ACK
        left = await host.until(task_id, "completed")
        assert structured(left)["questions"] == [{"question_id": "q1", "question": "Which river?"}]
        assert await host.cancel(task_id) == ACK, "it is over, so that there is nothing to cancel"
        answer = {"task_id": task_id, "answer": "The one in Basel"}
        done = await host.client.call_tool("answer_subagent", answer)
        assert done.structured_content is not None
        assert done.structured_content["result"] == "The Rhine."
        assert (await host.until(other, "input_required"))["inputRequests"].keys() == {"q1"}


async def test_a_client_without_forms_gets_the_question_as_the_result(tmp_path: Path):
    async with hosting(serving(tmp_path, subagent(ask("Which river?"), "The Rhine.")), asks_user=False) as host:
        done = await host.until(await host.task(), "completed")
    assert structured(done)["status"] == "waiting_for_answer"
    assert "Which river?" in done["result"]["content"][0]["text"]


async def test_a_cancel_stops_the_task_and_can_be_repeated(tmp_path: Path):
    digging = Digging("Never said.")
    async with hosting(serving(tmp_path, digging.subagent)) as host:
        task_id = await host.task()
        await digging.begun.wait()
        assert await host.cancel(task_id) == ACK
        cancelled = await host.until(task_id, "cancelled")
        assert not {"result", "error", "inputRequests"} & cancelled.keys()
        assert await host.cancel(task_id) == ACK
        assert await host.update(task_id, q1=accepted("Late.")) == ACK
        assert (await host.get(task_id))["status"] == "cancelled"
        checked = await host.client.call_tool("check_task", {"task_id": task_id})
    assert checked.structured_content is not None
    assert checked.structured_content["status"] == "cancelled"


async def test_only_who_gets_the_result_has_read_it(tmp_path: Path):
    async with hosting(serving(tmp_path, subagent("Found it."))) as host:
        task_id = await host.task()
        await until_unread(host)
        assert await host.cancel(task_id) == ACK
        assert await host.update(task_id) == ACK
        assert "1 finished" in await mail(host)
        assert (await host.get(task_id))["status"] == "completed"
        assert await mail(host) == ""


async def until_unread(host: NativeHost) -> None:
    while not await mail(host):
        pass


async def mail(host: NativeHost) -> str:
    listed = await host.client.call_tool("list_active_tasks", {})
    assert listed.structured_content is not None
    return listed.structured_content.get("unread", "")


async def test_a_wrong_call_is_refused_in_the_words_of_the_tool(tmp_path: Path):
    async with hosting(serving(tmp_path, subagent("Found it."))) as host:
        for tool, arguments, words in [
            ("task", {"description": "Go.", "subagent_type": "nobody"}, "nobody"),
            ("task", {"describe": "Go."}, "describe"),
            ("wait_tasks", {"task_ids": ["no-such-task"]}, "no-such-task"),
        ]:
            refused = await host.client.session.call_tool(tool, arguments, allow_claimed=True)
            assert isinstance(refused, CallToolResult)
            said: Any = refused.content[0]
            assert (refused.is_error, words in said.text) == (True, True)


async def test_an_unknown_task_is_an_error_of_the_parameters(tmp_path: Path):
    async with hosting(serving(tmp_path, subagent("Found it."))) as host:
        for task_id in ("no-such-task", "", "x" * 5_000):
            assert await host.refusal("tasks/get", taskId=task_id) == UNKNOWN
            assert await host.refusal("tasks/update", taskId=task_id, inputResponses={}) == UNKNOWN
            assert await host.refusal("tasks/cancel", taskId=task_id) == UNKNOWN


async def test_a_client_has_to_say_that_it_takes_native_tasks(tmp_path: Path):
    with anyio.fail_after(10):
        async with Client(serving(tmp_path, subagent("Found it.")), mode=MODERN) as client:
            for method in ("tasks/get", "tasks/cancel"):
                assert await NativeHost(client).refusal(method, taskId="any") == UNDECLARED


@pytest.mark.parametrize(
    ("task_id", "header", "code"),
    [("a", {"mcp-name": "a"}, UNKNOWN), ("a", {"mcp-name": "b"}, MISMATCH), ("\ud800", {}, UNKNOWN)],
    ids=["they do", "they do not", "half a character, which no header can hold"],
)
async def test_the_header_and_the_task_have_to_agree(tmp_path: Path, task_id: str, header: dict[str, str], code: int):
    app = network_app(serving(tmp_path, subagent("Found it.")))
    capabilities: dict[str, Any] = {"extensions": {TASKS: {}}}
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    request: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tasks/get",
        "params": {"taskId": task_id, "_meta": meta},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tasks/get",
    }
    with anyio.fail_after(10):
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1:8000") as client,
        ):
            answer = await client.post("/mcp", content=json.dumps(request), headers={**headers, **header})
    assert answer.json()["error"]["code"] == code


async def test_a_native_task_is_known_to_the_next_server_on_the_same_file(tmp_path: Path):
    asking = subagent(ask("Which river?"), name="asking")
    async with hosting(serving(tmp_path, asking, subagent("Found it."))) as host:
        parked = (await host.begin("task", description="Go.", subagent_type="asking"))["taskId"]
        await host.until(parked, "input_required")
        done = await host.task()
        waiting = (await host.begin("wait_tasks", task_ids=[done], timeout=3600))["taskId"]
        before = await host.until(waiting, "completed")
    async with hosting(serving(tmp_path, subagent("The Rhine.", name="asking"), subagent())) as host:
        after = await host.get(waiting)
        assert structured(after)["tasks"] == structured(before)["tasks"]
        assert after["createdAt"] == before["createdAt"]
        assert structured(await host.get(done))["result"] == "Found it."
        assert await host.update(parked, q1=accepted("The one in Basel")) == ACK
        assert structured(await host.until(parked, "completed"))["result"] == "The Rhine."


async def test_a_wait_is_a_native_task_that_ends_with_what_it_waits_for(tmp_path: Path):
    first, second = Digging("One.", name="first"), Digging("Two.", name="second")
    async with hosting(serving(tmp_path, first.subagent, second.subagent)) as host:
        task_ids = [
            (await host.begin("task", description="Go.", subagent_type=n))["taskId"] for n in ("first", "second")
        ]
        created = await host.begin("wait_tasks", task_ids=task_ids)
        assert (created["status"], created["statusMessage"]) == ("working", "0 of 2 tasks have ended")
        either = (await host.begin("wait_tasks", task_ids=task_ids, mode="any", timeout=1e300))["taskId"]
        await first.begun.wait()
        first.may_end.set()
        done = await host.until(either, "completed")
        assert (structured(done)["finished"], structured(done)["timed_out"]) == (1, False)
        assert (await host.get(created["taskId"]))["statusMessage"] == "1 of 2 tasks have ended"
        second.may_end.set()
        done = await host.until(created["taskId"], "completed")
        assert [task["result"] for task in structured(done)["tasks"]] == ["One.", "Two."]
        assert timedelta(days=29) < timedelta(milliseconds=done["ttlMs"]) < timedelta(days=31)


async def test_a_wait_ends_when_its_time_is_up_or_a_task_asks(tmp_path: Path):
    digging = Digging(ask("Deeper?"))
    async with hosting(serving(tmp_path, digging.subagent)) as host:
        task_id = await host.task()
        late = (await host.begin("wait_tasks", task_ids=[task_id], timeout=0))["taskId"]
        assert structured(await host.get(late))["timed_out"] is True
        waiting = (await host.begin("wait_tasks", task_ids=[task_id]))["taskId"]
        digging.may_end.set()
        done = await host.until(waiting, "completed")
        assert structured(done)["tasks"][0]["questions"] == [{"question_id": "q1", "question": "Deeper?"}]


async def test_a_cancelled_wait_leaves_the_tasks_alone(tmp_path: Path):
    digging = Digging("Found it.")
    async with hosting(serving(tmp_path, digging.subagent)) as host:
        task_id = await host.task()
        waiting = (await host.begin("wait_tasks", task_ids=[task_id]))["taskId"]
        other = (await host.begin("wait_tasks", task_ids=[task_id]))["taskId"]
        assert await host.cancel(waiting) == ACK
        assert (await host.get(waiting))["status"] == "cancelled"
        digging.may_end.set()
        assert structured(await host.until(task_id, "completed"))["result"] == "Found it."
        assert (await host.get(waiting))["status"] == "cancelled"
        await host.until(other, "completed")
        assert await host.cancel(other) == ACK
        assert (await host.get(other))["status"] == "completed", "over is over"


async def test_of_very_many_cancelled_waits_the_first_are_waits_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(foreground, "MOST_REMEMBERED", 1)
    digging = Digging("Found it.")
    async with hosting(serving(tmp_path, digging.subagent)) as host:
        task_id = await host.task()
        waits = [(await host.begin("wait_tasks", task_ids=[task_id]))["taskId"] for _ in range(2)]
        for waiting in waits:
            await host.cancel(waiting)
        assert [(await host.get(waiting))["status"] for waiting in waits] == ["working", "cancelled"]


async def test_a_wait_for_very_many_tasks_is_a_plain_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(foreground, "LONGEST_ID", 100)
    async with hosting(serving(tmp_path, subagent("Found it."))) as host:
        task_id = await host.task()
        await host.until(task_id, *OVER)
        waited = await host.client.session.call_tool("wait_tasks", {"task_ids": [task_id]}, allow_claimed=True)
        assert isinstance(waited, CallToolResult)
        assert waited.structured_content is not None
        assert waited.structured_content["total"] == 1


def altered(change: Callable[[list[Any]], Any]) -> Callable[[str], str]:
    """A wait's id that says something else."""

    def alter(task_id: str) -> str:
        encoded = task_id.removeprefix("wait.")
        said = change(json.loads(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))))
        text = said if isinstance(said, str) else json.dumps(said, separators=(",", ":"))
        return "wait." + urlsafe_b64encode(text.encode()).decode().rstrip("=")

    return alter


TAMPERED: dict[str, Callable[[str], str]] = {
    "cut off": lambda task_id: task_id[:-7],
    "empty": lambda task_id: "wait.",
    "not base64": lambda task_id: "wait.ü",
    "with something added": lambda task_id: task_id + "!",
    "not JSON": altered(lambda said: "nonsense"),
    "nested without end": altered(lambda said: "[" * 2_900),
    "a number": altered(lambda said: 7),
    "an object": altered(lambda said: {"mode": "all"}),
    "a text": altered(lambda said: "wait"),
    "no tasks": altered(lambda said: said[:3]),
    "no such mode": altered(lambda said: ["some", *said[1:]]),
    "no such time": altered(lambda said: [said[0], -1, *said[2:]]),
    "not a number of seconds": altered(lambda said: '["all",NaN,' + json.dumps(said[2:])[1:]),
    "no such moment": altered(lambda said: [*said[:2], "yesterday", *said[3:]]),
    "a moment without a zone": altered(lambda said: [*said[:2], "2026-01-01T00:00:00", *said[3:]]),
    "a moment that is a number": altered(lambda said: [*said[:2], 7, *said[3:]]),
    "half a character": altered(lambda said: [*said[:3], "\ud800"]),
    "another task": altered(lambda said: [*said[:3], "no-such-task"]),
    "written otherwise": altered(lambda said: json.dumps(said, indent=1)),
}


@pytest.mark.parametrize("tampered", TAMPERED.values(), ids=TAMPERED)
async def test_a_waits_id_that_is_not_of_our_making_is_unknown(tmp_path: Path, tampered: Callable[[str], str]):
    async with hosting(serving(tmp_path, subagent("Found it."))) as host:
        waiting = (await host.begin("wait_tasks", task_ids=[await host.task()]))["taskId"]
        assert (await host.get(waiting))["taskId"] == waiting
        assert await host.refusal("tasks/get", taskId=tampered(waiting)) == UNKNOWN
        assert await host.refusal("tasks/cancel", taskId=tampered(waiting)) == UNKNOWN


async def test_answers_to_a_plain_call_do_not_begin_a_second_task(tmp_path: Path):
    server = serving(tmp_path, subagent(ask("Which river?"), "The Rhine."))
    arguments = {"description": "Go.", "subagent_type": "worker"}
    async with hosting(server) as host, Client(server, mode=MODERN, elicitation_callback=_silent) as plain:
        asking = await plain.session.call_tool("task", arguments, allow_input_required=True)
        assert isinstance(asking, InputRequiredResult)
        said: Any = {"q1": accepted("The one in Basel")}
        done = await host.client.session.call_tool(
            "task", arguments, input_responses=said, request_state=asking.request_state, allow_claimed=True
        )
        assert isinstance(done, CallToolResult)
        assert done.structured_content is not None
        assert done.structured_content["result"] == "The Rhine."


async def _silent(context: Any, params: Any) -> Any:
    raise AssertionError("the test answers itself")
