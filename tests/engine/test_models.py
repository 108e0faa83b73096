"""Models by their names: gateways, keys, fallbacks, connections, and who answered in the end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from office import at_work, delegate, outcome
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.fallback import FallbackModel

from mcp_subagents.agents import Roster
from mcp_subagents.config import SubAgentConfig
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import run_engine
from mcp_subagents.models import Models
from mcp_subagents.store import Store
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.testing import (
    Gateway,
    ProviderError,
    Received,
    Reply,
    ScriptedModel,
    Status,
    Text,
    ToolCall,
    ToolCalls,
    rate_limited,
)
from mcp_subagents.types import FailureType, TaskHandle, TaskStatus

# Loaded here, where it may take its time: in a test the clock is running.
pytest.importorskip("pydantic_ai.models.anthropic")
pytest.importorskip("pydantic_ai.models.openai")

CHAT = "openai-chat:gpt-4o-mini"


def by_model(**replies: Reply) -> Callable[[Received], Reply]:
    """A script that goes by the model that was asked for."""
    return lambda received: replies[received.body["model"].replace("-", "_")]


def worker(gateway: Gateway, model: str = CHAT, **more: Any) -> SubAgentConfig:
    """A subagent that is nothing but data, with a model at the gateway."""
    url = gateway.url if model.startswith("anthropic") else f"{gateway.url}/v1"
    config: Any = {"name": "worker", "description": "", "instructions": "", "model": model, "base_url": url}
    made: Any = {**config, "retry_initial_delay": 0.0, **more}
    return made


def key_in(request: Received) -> str:
    return request.headers["authorization"].removeprefix("Bearer ")


async def run(*subagents: SubAgentConfig, store: Store | None = None) -> TaskHandle:
    """What becomes of one task for the first of them."""
    async with at_work(store or MemoryStore(), *subagents) as engine:
        return await outcome(engine, await delegate(engine))


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("openai:qwen3", "/v1/chat/completions"),
        ("openai-chat:qwen3", "/v1/chat/completions"),
        ("ollama:qwen3", "/v1/chat/completions"),
        ("vllm:qwen3", "/v1/chat/completions"),
        ("litellm:qwen3", "/v1/chat/completions"),
        ("qwen3", "/v1/chat/completions"),
        ("anthropic:qwen3", "/v1/messages"),
    ],
)
async def test_a_model_at_a_gateway_is_asked_there(model: str, path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GATEWAY_KEY", "sk-of-the-gateway")
    async with Gateway([Text("done")]) as gateway:
        task = await run(worker(gateway, model, api_key_env="GATEWAY_KEY"))

    [request] = gateway.requests
    assert (task.status, task.result) == (TaskStatus.COMPLETED, "done")
    assert (request.path, request.body["model"]) == (path, "qwen3")
    assert key_in(request) == "sk-of-the-gateway"


@pytest.mark.parametrize("model", ["openai:gpt-4o-mini", "anthropic:claude-haiku-5-5", "ollama:qwen3"])
async def test_a_gateway_never_gets_a_key_that_was_not_named_for_it(model: str, monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.setenv(name, "sk-secret-of-the-provider")
    async with Gateway([Text("done")]) as gateway:
        task = await run(worker(gateway, model))

    assert task.result == "done"
    assert "sk-secret" not in str(gateway.requests[0].headers)


def all_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_a_key_never_reaches_the_store_the_failure_or_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    key = "not-a-pattern-anybody-knows"
    monkeypatch.setenv("GATEWAY_KEY", key)
    echo = Status(401, body={"error": {"message": f"bad key {key}", "code": "invalid_api_key"}})
    async with Gateway([echo]) as gateway, open_sqlite(tmp_path / "tasks.db") as store:
        task = await run(worker(gateway, api_key_env="GATEWAY_KEY"), store=store)

    assert key_in(gateway.requests[0]) == key
    assert task.failure is not None
    assert key not in f"{task}{caplog.text}"
    assert key.encode() not in all_bytes(tmp_path)


@pytest.mark.parametrize(
    ("value", "said"), [(None, "GATEWAY_KEY (`api_key_env`) is not set"), (" ", "is empty"), ("a\nb", "no key has")]
)
async def test_a_missing_key_is_named(value: str | None, said: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GATEWAY_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("GATEWAY_KEY", value)
    async with Gateway([]) as gateway:
        task = await run(worker(gateway, api_key_env="GATEWAY_KEY"))

    assert task.failure is not None
    assert (task.failure.failure_type, task.failure.is_retryable) == (FailureType.PERMANENT, False)
    assert said in task.failure.message
    assert "GATEWAY_KEY" in task.failure.message
    assert "a\nb" not in task.failure.message


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("opnai:gpt-5", "'opnai:gpt-5' cannot be used: Unknown provider: opnai"),
        ("gpt-5", "Unknown model: gpt-5. Did you mean 'openai-chat:gpt-5'?"),
        ("mistral:mistral-small-latest", "is missing: install mcp-subagents[mistral]."),
        ("openai:gpt-5", "Set the `OPENAI_API_KEY` environment variable"),
    ],
)
async def test_a_model_that_cannot_be_used_says_why(model: str, said: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    task = await run(SubAgentConfig(name="worker", description="", instructions="", model=model))

    assert task.failure is not None
    assert task.failure.failure_type is FailureType.PERMANENT
    assert said in task.failure.message
    assert "Pydantic" not in task.failure.message


async def test_a_provider_without_other_addresses_says_what_to_do():
    config = SubAgentConfig(name="a", description="", instructions="", model="deepseek:x", base_url="http://localhost")
    with pytest.raises(Exception, match="name the model openai:NAME"):
        Models({}).model_for(config, None)


@pytest.mark.slow
async def test_a_hundred_tasks_share_a_few_connections_which_close_with_the_engine(store: Store):
    def reply(_: Received) -> Reply:
        return Text("done")

    settings = EngineSettings(max_concurrency=4)
    with anyio.fail_after(60):
        async with Gateway(reply) as gateway:
            roster = Roster([worker(gateway), worker(gateway, "openai:gpt-5-mini", name="other")])
            async with run_engine(store, roster, settings) as engine:
                names = ["worker", "other"] * 50
                tasks = [(await engine.submit(Submission(description="Go.", subagent=name))).task_id for name in names]
                waited = await engine.wait(tasks)
                assert {task.status for task in waited.tasks} == {TaskStatus.COMPLETED}
                assert gateway.open_connections
            while gateway.open_connections:
                await checkpoint()

    assert len(gateway.requests) == 100
    assert gateway.connections <= 10  # 4 at a time; on a slow machine an idle one may have been closed meanwhile


async def test_connections_are_made_anew_for_the_next_engine():
    async with Gateway([Text("one"), Text("two")]) as gateway:
        roster = Roster([worker(gateway)])
        for expected in ("one", "two"):
            with anyio.fail_after(10):
                async with run_engine(MemoryStore(), roster) as engine:
                    assert (await outcome(engine, await delegate(engine))).result == expected

    assert gateway.connections == 2


async def test_a_second_engine_keeps_the_connections_of_the_first_open():
    async with Gateway([Text("one"), Text("two")]) as gateway:
        roster = Roster([worker(gateway)])
        with anyio.fail_after(10):
            async with run_engine(MemoryStore(), roster) as first:
                async with run_engine(MemoryStore(), roster) as second:
                    await outcome(second, await delegate(second))
                await outcome(first, await delegate(first))

    assert gateway.connections == 1


@pytest.mark.parametrize("model", [CHAT, "anthropic:claude-haiku-5-5"])
async def test_the_client_of_a_named_model_does_not_retry_by_itself(model: str):
    async with Gateway([Status(503), Text("done")]) as gateway:
        task = await run(worker(gateway, model))

    assert (task.result, task.retry_count, len(gateway.requests)) == ("done", 1, 2)


FALLBACK: dict[str, Any] = {"model": "openai:first", "fallback_models": ["openai:second"]}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Status(503), id="it is unavailable"),
        pytest.param(Status(500), id="it is broken"),
        pytest.param(rate_limited(seconds=30), id="it is busy"),
        pytest.param(ProviderError("insufficient_quota"), id="its account is empty"),
        pytest.param(ProviderError("invalid_api_key"), id="it is barred to us"),
        pytest.param(ProviderError("context_length_exceeded"), id="its window is too small"),
        pytest.param(Status(404), id="nobody knows it"),
    ],
)
async def test_the_next_model_is_asked_when(fault: Reply):
    async with Gateway(by_model(first=fault, second=Text("done"))) as gateway:
        task = await run(worker(gateway, **FALLBACK))

    assert [request.body["model"] for request in gateway.requests] == ["first", "second"]
    assert (task.result, task.retry_count) == ("done", 0)
    assert (task.model, task.models_used) == ("openai:first", ("openai:second",))


async def test_no_other_model_is_asked_what_one_has_rejected():
    async with Gateway(by_model(first=Status(400), second=Text("done"))) as gateway:
        task = await run(worker(gateway, **FALLBACK))

    assert [request.body["model"] for request in gateway.requests] == ["first"]
    assert task.failure is not None
    assert task.failure.failure_type is FailureType.VALIDATION


async def test_when_every_model_is_down_the_task_is_retried_from_the_first():
    replies = iter([Status(503), Status(503), Text("done")])
    async with Gateway(replies) as gateway:
        task = await run(worker(gateway, **FALLBACK))

    assert [request.body["model"] for request in gateway.requests] == ["first", "second", "first"]
    assert (task.result, task.retry_count, task.models_used) == ("done", 1, ("openai:first",))


async def test_every_model_of_a_chain_is_told_when_all_fail_for_good():
    async with Gateway(by_model(first=Status(401), second=Status(404))) as gateway:
        task = await run(worker(gateway, **FALLBACK))

    assert task.failure is not None
    assert task.failure.failure_type is FailureType.PERMANENT
    assert "Every model of the fallback chain failed: 1." in task.failure.message
    assert "2. The model provider does not know the model 'second'" in task.failure.message
    assert len(gateway.requests) == 2


async def test_a_fallback_of_another_provider_goes_to_its_own_address(monkeypatch: pytest.MonkeyPatch):
    async with Gateway([Status(503)]) as first, Gateway([Text("done")]) as second:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-own")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", second.url)
        task = await run(worker(first, fallback_models=["anthropic:claude-haiku-5-5"]))

    assert (task.result, task.model, task.models_used) == ("done", CHAT, ("anthropic:claude-haiku-5-5",))
    assert key_in(second.requests[0]) == "sk-ant-own"


async def test_a_live_model_can_have_fallbacks_too():
    async with Gateway([Text("done")]) as gateway:
        broken = ScriptedModel(ModelHTTPError(503, "scripted"))
        config = worker(gateway, model="x", fallback_models=["openai:gpt-4o-mini"])
        config["model"] = broken
        with pytest.raises(Exception, match="OPENAI_API_KEY"):
            Models({}).model_for(config, None)
    made = Models({}).model_for(SubAgentConfig(name="a", model=broken, fallback_models=["test"]), None)
    assert isinstance(made, FallbackModel)


async def test_every_model_that_answered_is_on_record(store: Store):
    calls = ToolCalls([ToolCall("ask_parent", {"question": "Which?"})])
    replies = iter([calls, Status(503), Text("done")])
    async with Gateway(replies) as gateway, at_work(store, worker(gateway, **FALLBACK)) as engine:
        task_id = await delegate(engine)
        asked = await outcome(engine, task_id)
        assert asked.models_used == ("openai:first",)
        await engine.answer(task_id, "That one.")
        task = await outcome(engine, task_id)

    assert (task.model, task.models_used) == ("openai:first", ("openai:first", "openai:second"))


@pytest.mark.parametrize(
    ("model", "asked_for"),
    [
        ("openai-chat:gpt-5-mini", {"reasoning_effort": "high"}),
        ("openai-chat:gpt-4o-mini", {}),
        ("anthropic:claude-haiku-5-5", {"thinking", "output_config"}),
    ],
)
async def test_effort_reaches_a_model_that_can_think_and_no_other(model: str, asked_for: Any):
    async with Gateway([Text("done")]) as gateway:
        task = await run(worker(gateway, model, effort="high"))

    assert task.result == "done"
    body = gateway.requests[0].body
    thinking = {key: body[key] for key in ("reasoning_effort", "thinking", "output_config") if key in body}
    assert thinking == asked_for if isinstance(asked_for, dict) else set(thinking) == asked_for


async def test_a_price_that_is_known_is_held_against_the_limit_and_one_that_is_not_is_none():
    dear = Text("done", usage=(1_000_000, 100_000))
    async with Gateway(lambda _: dear) as gateway:
        priced = await run(worker(gateway, "openai:gpt-4o-mini", limits={"cost_usd": 0.01}))
        unpriced = await run(worker(gateway, "openai:qwen3", limits={"cost_usd": 0.01}))
        bounded = await run(worker(gateway, "openai:qwen3", limits={"cost_usd": 0.01, "total_tokens": 1000}))

    assert priced.failure is not None
    assert (priced.failure.failure_type, "cost" in priced.failure.message) == (FailureType.LIMIT, True)
    assert unpriced.usage is not None
    assert (unpriced.result, unpriced.usage.cost_usd) == ("done", None)
    assert bounded.failure is not None
    assert (bounded.failure.failure_type, "token" in bounded.failure.message) == (FailureType.LIMIT, True)


def provider(**config: Any) -> str:
    return Roster([SubAgentConfig(name="a", **config)], default_model="openai:gpt-5").assignment("a").provider


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "openai"),
        ({"model": "openai-responses:gpt-5"}, "openai"),
        ({"api_key_env": "OPENAI_API_KEY"}, "openai"),
        ({"api_key_env": "TEAM_KEY"}, "openai TEAM_KEY"),
        ({"base_url": "http://localhost:4000/v1"}, "openai localhost:4000"),
        ({"base_url": "https://api.openai.com/v1"}, "openai"),
        ({"model": "qwen3", "base_url": "http://localhost:4000/v1"}, "openai localhost:4000"),
        ({"fallback_models": ["openai:gpt-5-mini"]}, "openai"),
        ({"fallback_models": ["anthropic:x"]}, "openai, anthropic"),
        ({"base_url": "http://h/v1", "fallback_models": ["openai:b", "groq:c"]}, "openai h, groq"),
        ({"model": ScriptedModel(), "fallback_models": ["groq:c"]}, "function, groq"),
        ({"model": "groq:c", "agent_factory": ScriptedModel}, "groq"),
        ({"agent_factory": ScriptedModel}, "openai"),
    ],
)
def test_tasks_share_a_cooldown_by_the_account_that_serves_them(config: dict[str, Any], expected: str):
    assert provider(**config) == expected
