"""What a host gets to see of models and results, over a real connection in memory."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from jsonschema import validate
from mcp import Client
from mcp_types import TextContent, TextResourceContents
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.usage import RequestUsage

from mcp_subagents.config import SubAgentConfig
from mcp_subagents.server import create_server
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.testing import Gateway, Line, ScriptedModel, Status, Text, ToolCall, ToolCalls
from mcp_subagents.views import BUDGET, TASK_OUTLINE
from mcp_subagents.words import is_same_model

# Loaded here, where it may take its time: in a test the clock is running.
pytest.importorskip("pydantic_ai.models.anthropic")
pytest.importorskip("pydantic_ai.models.openai")

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"verdict": {"enum": ["good", "bad"]}, "notes": {"type": "string"}},
    "required": ["verdict"],
}


@asynccontextmanager
async def host(*subagents: SubAgentConfig, **more: Any) -> AsyncGenerator[Client]:
    with anyio.fail_after(20):
        async with Client(create_server(subagents, store=MemoryStore(), **more)) as client:
            yield client


def worker(*lines: Line, **more: Any) -> SubAgentConfig:
    config: Any = {"name": "worker", "description": "", "instructions": "", "retry_initial_delay": 0.0}
    made: Any = {**config, **({"model": ScriptedModel(*lines)} if lines else {}), **more}
    return made


async def delegated(client: Client, subagent: str = "worker") -> tuple[dict[str, Any], str]:
    """A task that has ended, as data and in words."""
    done = await client.call_tool("task", {"description": "Judge it.", "subagent_type": subagent})
    [text] = done.content
    assert isinstance(text, TextContent)
    assert done.structured_content is not None
    validate(done.structured_content, TASK_OUTLINE)
    return done.structured_content, text.text


async def read(client: Client, uri: str) -> tuple[str | None, str]:
    """What is there: of which type, and its text."""
    [contents] = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    return contents.mime_type, contents.text


def gives(result: Any) -> ToolCallPart:
    return ToolCallPart("final_result", result)


async def test_the_result_of_a_subagent_with_a_schema_is_an_object():
    result = {"verdict": "good", "notes": "naïve, but fine"}
    async with host(worker(gives(result), output_schema=SCHEMA)) as client:
        task, words = await delegated(client)
        checked = await client.call_tool("check_task", {"task_id": task["task_id"]})
        mime_type, whole = await read(client, task["result_uri"])
        _, shown = await read(client, f"subagents://tasks/{task['task_id']}")

    assert (task["status"], task["result"], task["result_omitted_chars"]) == ("completed", result, 0)
    assert checked.structured_content is not None
    assert checked.structured_content["result"] == result
    assert json.dumps(result, ensure_ascii=False) in words
    assert (mime_type, json.loads(whole)) == ("application/json", result)
    assert json.loads(shown)["result"] == result


async def test_the_result_of_any_other_subagent_is_text_even_if_it_looks_like_json():
    async with host(worker('{"verdict": "good"}')) as client:
        task, _ = await delegated(client)
        mime_type, whole = await read(client, task["result_uri"])

    assert task["result"] == '{"verdict": "good"}'
    assert (mime_type, whole) == ("text/plain", task["result"])


async def test_an_object_that_is_too_long_is_shown_in_part_and_is_whole_at_its_address():
    result = {"verdict": "bad", "notes": "x" * (BUDGET * 2)}
    async with host(worker(gives(result), output_schema=SCHEMA)) as client:
        task, words = await delegated(client)
        mime_type, whole = await read(client, task["result_uri"])

    assert isinstance(task["result"], str)
    assert task["result"].startswith('{"verdict":"bad"')
    assert task["result_omitted_chars"] > BUDGET
    assert task["result_uri"] in task["next"]
    assert len(words) < BUDGET * 2
    assert (mime_type, json.loads(whole)) == ("application/json", result)


async def test_a_result_that_never_fits_is_a_failure_of_validation_with_the_last_try():
    async with host(worker(*[gives({"verdict": "so so"})] * 4, output_schema=SCHEMA)) as client:
        task, words = await delegated(client)
        mime_type, _ = await read(client, task["result_uri"])

    assert (task["status"], task["result"]) == ("failed", None)
    assert task["failure"]["failure_type"] == "validation"
    assert "$.verdict: 'so so' is not one of ['good', 'bad']" in task["failure"]["message"]
    assert json.loads(task["failure"]["partial_results"]) == {"verdict": "so so"}
    assert "failed (validation)" in words
    assert mime_type == "text/plain"


async def test_the_model_that_was_asked_for_and_those_that_answered_are_shown():
    async with Gateway([Status(503), Text("done")]) as gateway:
        config = worker(
            model="openai:gpt-5", fallback_models=["openai:gpt-5-mini-2026-01-31"], base_url=f"{gateway.url}/v1"
        )
        async with host(config) as client:
            task, words = await delegated(client)
            checked = await client.call_tool("check_task", {"task_id": task["task_id"]})

    assert (task["model"], task["models_used"]) == ("openai:gpt-5", ["openai:gpt-5-mini-2026-01-31"])
    assert "Asked for openai:gpt-5; answered by openai:gpt-5-mini-2026-01-31." in words
    assert checked.structured_content is not None
    assert checked.structured_content["models_used"] == task["models_used"]


async def test_nothing_is_said_of_the_model_that_did_what_it_was_asked_for():
    async with Gateway([Text("done")]) as gateway:
        async with host(worker(model="openai-chat:gpt-4o-mini", base_url=f"{gateway.url}/v1")) as client:
            task, words = await delegated(client)

    assert (task["model"], task["models_used"]) == ("openai-chat:gpt-4o-mini", ["openai:gpt-4o-mini"])
    assert "Asked for" not in words
    assert task["usage"]["cost_usd"] > 0
    assert "price" not in words


async def test_a_task_says_that_the_price_of_its_model_is_not_known():
    async with Gateway([Text("done")]) as gateway:
        async with host(worker(model="ollama:qwen3", base_url=f"{gateway.url}/v1")) as client:
            task, words = await delegated(client)

    assert task["usage"]["cost_usd"] is None
    assert "The price of its model is not known" in words


async def test_a_ready_made_chain_of_models_is_on_record_too():
    broken = ScriptedModel(ModelHTTPError(503, "scripted"))
    answer = ModelResponse(parts=[TextPart("done")], model_name="other", usage=RequestUsage(input_tokens=1))
    async with host(worker(model=FallbackModel(broken, ScriptedModel(answer)))) as client:
        task, _ = await delegated(client)

    assert (task["result"], task["models_used"]) == ("done", ["scripted"])
    assert task["model"].startswith("fallback:")


@pytest.mark.parametrize(
    ("asked", "used", "same"),
    [
        ("openai:gpt-5", "openai:gpt-5", True),
        ("openai:gpt-5", "openai:gpt-5-2026-01-31", True),
        ("anthropic:claude-x", "anthropic:claude-x-20260131", True),
        ("google:gemini@20260131", "google:gemini", True),
        ("openai-responses:gpt-5", "openai:gpt-5", True),
        ("qwen3:8b", "openai:qwen3:8b", True),
        ("function:scripted", "scripted", True),
        ("openai:gpt-5", "openai:gpt-5-mini", False),
        ("openai:gpt-5", "anthropic:gpt-5", False),
        ("openai:gpt-4o", "openai:gpt-4", False),
    ],
)
def test_a_model_is_the_same_in_its_version_of_some_day(asked: str, used: str, same: bool):
    assert is_same_model(asked, used) is same


KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY", "GROQ_API_KEY")


async def test_without_a_model_the_server_starts_and_a_task_says_what_to_set(monkeypatch: pytest.MonkeyPatch):
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    async with host() as client:
        assert "No model is configured" in (client.instructions or "")
        task, _ = await delegated(client, "general-purpose")

    assert (task["status"], task["failure"]["failure_type"]) == ("failed", "permanent")
    for name in ("MCP_SUBAGENTS_MODEL", *KEYS):
        assert name in task["failure"]["message"]
    assert (task["model"], task["models_used"]) == (None, [])


async def test_with_a_model_nothing_is_said_of_models():
    async with host(default_model="test") as client:
        assert "No model" not in (client.instructions or "")


async def test_a_turn_with_tools_and_one_with_the_result_come_from_the_real_client():
    calls = [ToolCalls([ToolCall("final_result", {"verdict": each})]) for each in ("so so", "bad")]
    async with Gateway(calls) as gateway:
        config = worker(model="anthropic:claude-haiku-5-5", base_url=gateway.url, output_schema=SCHEMA)
        async with host(config) as client:
            task, _ = await delegated(client)

    assert task["result"] == {"verdict": "bad"}
    assert task["usage"]["requests"] == 2
