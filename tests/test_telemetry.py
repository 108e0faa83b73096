"""A delegation is one trace, over all its attempts; nothing is recorded unless somebody takes spans."""

from collections.abc import Generator

import anyio
import pytest
from mcp import Client
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ToolCallPart

from mcp_subagents import telemetry
from mcp_subagents.config import SubAgentConfig
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.server import create_server
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.testing import ScriptedModel

SECRET = "the-treasure-is-under-the-oak"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Generator[InMemorySpanExporter]:
    """All spans that end from here on."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def dig(where: str) -> str:
    """Dig there."""
    return f"found {where}"


def digger() -> SubAgentConfig:
    model = ScriptedModel(
        ModelHTTPError(503, "scripted"), ToolCallPart("dig", {"where": SECRET}), f"I found it: {SECRET}"
    )
    return SubAgentConfig(
        name="digger",
        description="",
        instructions="",
        model=model,
        agent_kwargs={"tools": [dig]},
        retry_initial_delay=0.0,
    )


async def delegate(settings: EngineSettings | None = None) -> None:
    server = create_server([digger()], store=MemoryStore(), settings=settings)
    with anyio.fail_after(10):
        async with Client(server) as client:
            done = await client.call_tool("task", {"description": f"Dig: {SECRET}", "subagent_type": "digger"})
    assert done.structured_content is not None
    assert done.structured_content["status"] == "completed"


def above(span: ReadableSpan, spans: tuple[ReadableSpan, ...]) -> list[str]:
    """The names of the spans around one, from the outside in."""
    by_id = {each.context.span_id: each for each in spans if each.context}
    parent = by_id.get(span.parent.span_id) if span.parent else None
    return [*above(parent, spans), span.name] if parent else [span.name]


async def test_a_delegation_is_one_trace_from_the_call_to_turns_and_tools(spans: InMemorySpanExporter):
    await delegate()
    ended = spans.get_finished_spans()
    call = next(each for each in ended if each.name == "tools/call task" and each.kind is trace.SpanKind.SERVER)
    assert call.context is not None
    ours = [each for each in ended if each.context and each.context.trace_id == call.context.trace_id]
    attempts = [each for each in ours if each.name == "attempt digger"]
    seen = [
        (each.attributes["mcp_subagents.attempt"], each.attributes["mcp_subagents.task.status"])
        for each in attempts
        if each.attributes
    ]
    assert seen == [(1, "retrying"), (2, "completed")]
    tool = next(each for each in ours if each.name.startswith("execute_tool dig") or each.name == "running tool")
    path = above(tool, ended)
    assert path[path.index("tools/call task") :][:2] == ["tools/call task", "attempt digger"]
    assert any(each.name.startswith("chat ") for each in ours)


@pytest.mark.parametrize(("asked", "recorded"), [(False, False), (True, True)])
async def test_what_was_said_is_recorded_only_if_asked(spans: InMemorySpanExporter, asked: bool, recorded: bool):
    await delegate(EngineSettings(trace_content=asked))
    assert (SECRET in "".join(each.to_json() for each in spans.get_finished_spans())) is recorded


async def test_without_a_provider_nothing_is_recorded():
    assert not telemetry.is_on()
    assert telemetry.current_trace() == ""
    await delegate()
