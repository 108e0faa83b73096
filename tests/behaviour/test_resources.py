"""What can be read, and what can be completed."""

import json
from typing import Any

import anyio
import pytest
from front import PASS, Gate, ask, call, connected, delegate, host_of, outcome, server_of, subagent
from mcp import Client, MCPError
from mcp_types import INVALID_PARAMS, PromptReference, ResourceTemplateReference
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from mcp_subagents.server import resources

TEMPLATES = [
    "subagents://tasks/{task_id}",
    "subagents://tasks/{task_id}/result",
    "subagents://tasks/{task_id}/transcript",
]


async def read(host: Client, uri: str) -> str:
    [contents] = (await host.read_resource(uri)).contents
    return getattr(contents, "text", "")


async def test_everything_that_can_be_read_is_listed(era: str):
    async with host_of(era=era) as host:
        fixed = (await host.list_resources()).resources
        templates = (await host.list_resource_templates()).resource_templates
    assert [str(each.uri) for each in fixed] == ["subagents://agents", "subagents://tasks"]
    assert [each.uri_template for each in templates] == TEMPLATES
    assert all(each.title and each.description and each.mime_type for each in [*fixed, *templates])


async def test_the_subagents_are_listed_in_the_order_of_their_definition(era: str):
    subagents = [subagent(name="z", preferred_mode="async"), subagent(name="a", can_ask_questions=False)]
    async with host_of(*subagents, era=era) as host:
        assert json.loads(await read(host, "subagents://agents")) == {
            "subagents": [
                {
                    "name": "z",
                    "description": "What z does.",
                    "model": None,
                    "preferred_mode": "async",
                    "can_ask_questions": True,
                },
                {
                    "name": "a",
                    "description": "What a does.",
                    "model": None,
                    "preferred_mode": None,
                    "can_ask_questions": False,
                },
            ]
        }


async def test_all_tasks_are_listed_the_newest_first(era: str):
    async with host_of(subagent("Done.", ask("Which?")), era=era) as host:
        done = await call(host, "task", description="The first.")
        asking = await call(host, "task", description="x" * 500)
        tasks = json.loads(await read(host, "subagents://tasks"))
    assert tasks == {
        "tasks": [
            {
                "task_id": asking["task_id"],
                "subagent": "general-purpose",
                "status": "waiting_for_answer",
                "description": f"{'x' * 199}…",
                "created_at": tasks["tasks"][0]["created_at"],
                "completed_at": None,
                "uri": f"subagents://tasks/{asking['task_id']}",
            },
            {
                "task_id": done["task_id"],
                "subagent": "general-purpose",
                "status": "completed",
                "description": "The first.",
                "created_at": tasks["tasks"][1]["created_at"],
                "completed_at": tasks["tasks"][1]["completed_at"],
                "uri": f"subagents://tasks/{done['task_id']}",
            },
        ]
    }


async def test_a_long_list_says_what_it_leaves_out(era: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resources, "MOST_LISTED", 2)
    async with host_of(subagent("1", "2", "3"), era=era) as host:
        ids = [(await call(host, "task", description="Go."))["task_id"] for _ in range(3)]
        tasks = json.loads(await read(host, "subagents://tasks"))
    assert ([task["task_id"] for task in tasks["tasks"]], tasks["omitted"]) == ([ids[2], ids[1]], 1)


async def test_a_task_reads_as_check_task_shows_it(era: str):
    async with host_of(subagent("Done."), era=era) as host:
        task = await call(host, "task", description="Go.")
        assert json.loads(await read(host, f"subagents://tasks/{task['task_id']}")) == task


async def test_a_result_is_plain_text(era: str):
    async with host_of(subagent('{"k": 1}'), era=era) as host:
        task = await call(host, "task", description="Go.")
        assert await read(host, task["result_uri"]) == '{"k": 1}'


async def test_a_task_without_a_result_says_what_it_had_found(era: str):
    gate = Gate()
    lines = ModelResponse(parts=[TextPart("Half of it."), PASS])
    async with host_of(subagent(lines, tools=[gate.gate]), era=era) as host:
        task_id = await delegate(host)
        await gate.reached.wait()
        uri = f"subagents://tasks/{task_id}/result"
        with pytest.raises(MCPError, match=f"Task '{task_id}' is running and has no result yet. Call `wait_tasks`"):
            await host.read_resource(uri)
        await call(host, "hard_cancel_task", task_id=task_id)
        left = await read(host, uri)
    assert left == (
        "The task has no result: it is cancelled.\n\nThe task was cancelled.\n\n"
        "What it had found until then:\n\nHalf of it."
    )


@pytest.mark.parametrize("template", TEMPLATES)
async def test_what_is_not_there_is_refused_in_our_words(template: str, era: str):
    async with host_of(era=era) as host:
        with pytest.raises(MCPError) as refused:
            await host.read_resource(template.format(task_id="nope"))
    assert refused.value.error.code == INVALID_PARAMS
    assert "There is no task 'nope'." in refused.value.error.message


async def test_an_address_that_does_not_exist_is_refused(era: str):
    async with host_of(era=era) as host:
        with pytest.raises(MCPError) as refused:
            await host.read_resource("subagents://nobody")
    assert refused.value.error.code == INVALID_PARAMS


async def test_a_transcript_tells_the_whole_story_without_secrets(era: str):
    secret = "sk-abcdefghijklmnopqrstuvwxyz0123456789"

    def look_up(name: str) -> str:
        return f"{name}: OPENAI_API_KEY={secret}\nsecond line"

    worker = subagent(
        ModelResponse(parts=[ThinkingPart("Hm."), ToolCallPart("look_up", {"name": "config"}, tool_call_id="c1")]),
        ask("Which one?"),
        "The first.",
        tools=[look_up],
    )
    async with host_of(worker, era=era) as host:
        task_id = (await call(host, "task", description="Find it."))["task_id"]
        await call(host, "answer_subagent", task_id=task_id, answer="The first one.")
        told = await read(host, f"subagents://tasks/{task_id}/transcript")
    assert secret not in told
    assert told.startswith(f"# general-purpose: completed\n\nTask `{task_id}`\n")
    for line in (
        "> Find it.",
        "> Hm.",
        "**Called `look_up`**",
        '> {"name":"config"}',
        "**`look_up` returned**",
        "> config: OPENAI_API_KEY=[redacted]",
        "> second line",
        "> Which one?",
        "> The first one.",
        "> The first.",
    ):
        assert line in told.split("\n")
    assert told.index("Find it.") < told.index("look_up") < told.index("Which one?") < told.index("> The first one.")


async def test_a_secret_at_the_place_where_a_transcript_is_cut_is_not_shown_in_part(era: str):
    secret = "sk-abcdefghijklmnopqrstuvwxyz0123456789"
    text = "x" * 9_989 + " " + secret + " " + "y" * 5_000
    async with host_of(subagent(text), era=era) as host:
        task_id = (await call(host, "task", description="Go."))["task_id"]
        told = await read(host, f"subagents://tasks/{task_id}/transcript")
    assert "sk-" not in told
    assert "characters left out]" in told


async def test_a_tool_that_was_interrupted_is_shown(era: str):
    gate = Gate()
    async with host_of(subagent(PASS, tools=[gate.gate]), era=era) as host:
        task_id = await delegate(host)
        await gate.reached.wait()
        await call(host, "hard_cancel_task", task_id=task_id)
        told = await read(host, f"subagents://tasks/{task_id}/transcript")
    assert "*`gate` was started and has not been heard of since.*" in told
    assert "cancel forced" in told


async def test_a_tool_that_has_returned_is_not_taken_for_interrupted(era: str):
    gate = Gate()

    def quick() -> str:
        return "Here."

    lines = [ToolCallPart("quick", {}, tool_call_id="c1"), PASS]
    async with host_of(subagent(lines, tools=[gate.gate, quick]), era=era) as host:
        task_id = await delegate(host)
        await gate.reached.wait()
        while "`quick` was started" in (told := await read(host, f"subagents://tasks/{task_id}/transcript")):
            await anyio.lowlevel.checkpoint()
    assert "*`gate` was started and has not been heard of since.*" in told


async def test_a_transcript_begins_with_what_was_asked_for(era: str):
    gate = Gate()
    busy = subagent(PASS, "Done.", "Done.", tools=[gate.gate], max_concurrency=1)
    async with host_of(busy, era=era) as host:
        await delegate(host, "The first.")
        await gate.reached.wait()
        queued = await delegate(host, "The second.")
        told = await read(host, f"subagents://tasks/{queued}/transcript")
    assert told.startswith(f"# general-purpose: pending\n\nTask `{queued}`\n\n**Asked for**\n\n> The second.\n")


async def test_the_transcript_of_a_follow_up_has_its_own_part(era: str):
    async with host_of(subagent("It is blue.", "Still blue."), era=era) as host:
        first = await call(host, "task", description="Which colour?")
        second = await call(host, "task", description="And now?", continue_task_id=first["task_id"])
        told = await read(host, f"subagents://tasks/{second['task_id']}/transcript")
    assert "*It goes on from what an earlier task has done.*" in told
    assert "rewritten" not in told
    assert told.index("> And now?") < told.index("> Still blue.")
    assert "Which colour?" not in told


async def complete(host: Client, ref: Any, name: str, value: str) -> list[str]:
    return (await host.complete(ref, {"name": name, "value": value})).completion.values


@pytest.mark.parametrize("template", TEMPLATES)
async def test_ids_are_completed_the_newest_first(template: str, era: str):
    ref = ResourceTemplateReference(type="ref/resource", uri=template)
    async with host_of(subagent("1", "2", "3"), era=era) as host:
        ids = [(await call(host, "task", description="Go."))["task_id"] for _ in range(3)]
        assert await complete(host, ref, "task_id", "") == ids[::-1]
        assert await complete(host, ref, "task_id", ids[0][:8]) == [ids[0]]
        assert await complete(host, ref, "task_id", "~") == []
        assert await complete(host, ref, "other", "") == []


async def test_names_are_completed(era: str):
    ref = PromptReference(type="ref/prompt", name="delegate")
    async with host_of(subagent(name="reviewer"), subagent(name="researcher"), era=era) as host:
        assert await complete(host, ref, "subagent_type", "") == ["reviewer", "researcher"]
        assert await complete(host, ref, "subagent_type", "rev") == ["reviewer"]


async def test_more_completions_than_one_answer_holds(era: str):
    ref = PromptReference(type="ref/prompt", name="delegate")
    async with host_of(*(subagent(name=f"a{i}") for i in range(120)), era=era) as host:
        completion = (await host.complete(ref, {"name": "subagent_type", "value": "a"})).completion
    assert (len(completion.values), completion.total, completion.has_more) == (100, 120, True)


async def test_a_result_read_by_another_host_is_the_same(era: str):
    server = server_of(subagent("Done."))
    async with connected(server, era) as host, connected(server, era) as other:
        task_id = await delegate(host)
        await outcome(host, task_id)
        assert await read(other, f"subagents://tasks/{task_id}/result") == "Done."
