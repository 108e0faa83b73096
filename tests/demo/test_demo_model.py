"""The demo model at work: anyone can name it, it costs nothing, and it can be asked over HTTP."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from pydantic_ai import Agent
from pydantic_ai import exceptions as pai
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse, TextPart, UserPromptPart

from mcp_subagents import SubAgentConfig, create_server
from mcp_subagents.cli import main
from mcp_subagents.demo.model import DemoModel
from mcp_subagents.model_addresses import account_of
from mcp_subagents.models import Models
from mcp_subagents.store.memory import MemoryStore

SHAPE = {"type": "object", "properties": {"verdict": {"enum": ["merge", "mend"]}}, "required": ["verdict"]}


def subagent(**more: Any) -> SubAgentConfig:
    given: dict[str, Any] = {"name": "demo", "description": "", "instructions": "", "model": "demo", **more}
    return SubAgentConfig(**given)


async def delegate(description: str, **config: Any) -> dict[str, Any]:
    with anyio.fail_after(20):
        async with Client(create_server([subagent(**config)], store=MemoryStore())) as client:
            done = await client.call_tool("task", {"description": description, "subagent_type": "demo"})
            assert done.structured_content is not None
            return done.structured_content


async def test_a_subagent_on_the_demo_model_answers_and_is_known_to_cost_nothing():
    done = await delegate("Say hello.")
    assert (done["status"], done["model"], done["models_used"]) == ("completed", "demo", ["demo"])
    assert "Task: Say hello." in done["result"]
    assert done["usage"]["input_tokens"] > done["usage"]["output_tokens"] > 0
    assert done["usage"]["cost_usd"] == 0


async def test_its_results_have_the_shape_that_is_asked_for():
    done = await delegate("Judge it.", output_schema=SHAPE)
    assert (done["result"], done["models_used"]) == ({"verdict": "merge"}, ["demo"])


async def test_it_takes_several_turns_and_pauses_in_each():
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with anyio.fail_after(5):
        agent = Agent(DemoModel(sleep=sleep))
        agent.tool_plain(name="take_step")(_go_on)
        done = await agent.run("Go slowly.")
    assert (slept, done.usage.requests, done.usage.tool_calls) == ([1.0] * 5, 6, 5)


def _go_on(note: str) -> str:
    return note


async def test_a_subagent_on_the_demo_model_has_the_tool_for_its_steps():
    done = await delegate("Fail, please.")
    assert done["failure"]["failure_type"] == "validation"
    assert done["failure"]["partial_results"] == "I made a start before it went wrong."
    assert done["usage"]["tool_calls"] == 1


async def test_an_unavailable_demo_model_is_tried_again():
    done = await delegate("Be unavailable.", retry_initial_delay=0.0, retry_max_delay=0.0, max_retries=2)
    assert (done["failure"]["failure_type"], done["retry_count"]) == ("transient", 2)


def test_at_a_gateway_it_is_still_the_demo_model_and_an_account_of_its_own():
    config = subagent(base_url="http://127.0.0.1:9/")
    model = Models({}).model_for(config, None)
    assert isinstance(model, DemoModel)
    assert model.base_url == "http://127.0.0.1:9/"
    assert account_of(config, None) == "demo 127.0.0.1:9"


def test_agents_list_knows_the_demo_model(home: Path, capsys: pytest.CaptureFixture[str]):
    (home / "subagents.yaml").write_text("- {name: poet, model: demo}\n", "utf-8")
    assert main(["agents", "list"]) == 0
    assert "poet  (demo," in capsys.readouterr().out


@asynccontextmanager
async def gateway(answer: bytes, status: str = "200 OK") -> AsyncGenerator[tuple[str, list[bytes]]]:
    """Answers every request with these bytes; its address, and what it was sent."""
    heard: list[bytes] = []

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            received = b""
            while b"\r\n\r\n" not in received or not received.endswith(b"]"):
                received += await stream.receive()
            heard.append(received)
            head = f"HTTP/1.1 {status}\r\ncontent-length: {len(answer)}\r\nconnection: close\r\n\r\n"
            await stream.send(head.encode() + answer)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    with anyio.fail_after(5):
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, serve)
            yield f"http://127.0.0.1:{port}/", heard
            group.cancel_scope.cancel()


async def test_with_a_base_url_it_says_what_the_gateway_says():
    reply = ModelMessagesTypeAdapter.dump_json([ModelResponse(parts=[TextPart("Good morning.")])])
    async with gateway(reply) as (url, heard):
        done = await Agent(DemoModel(url)).run("Hello.")
    assert done.output == "Good morning."
    [sent] = heard
    head, _, body = sent.partition(b"\r\n\r\n")
    assert b"x-process: " in head
    [asked] = ModelMessagesTypeAdapter.validate_json(body)
    assert isinstance(asked, ModelRequest)
    assert [part.content for part in asked.parts if isinstance(part, UserPromptPart)] == ["Hello."]


NONSENSE = {
    "no JSON": b"<html>",
    "no message": b"[]",
    "a request": ModelMessagesTypeAdapter.dump_json([ModelRequest(parts=[UserPromptPart("Hi.")])]),
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE)
async def test_a_gateway_that_talks_nonsense_is_not_believed(body: bytes):
    async with gateway(body) as (url, _):
        with pytest.raises(pai.UnexpectedModelBehavior, match="Invalid response from the gateway"):
            await Agent(DemoModel(url)).run("Hello.")


async def test_the_status_of_a_gateway_is_passed_on():
    async with gateway(b"Later.", "503 Service Unavailable") as (url, _):
        with pytest.raises(pai.ModelHTTPError) as caught:
            await Agent(DemoModel(url)).run("Hello.")
    assert caught.value.status_code == 503


async def test_a_gateway_that_is_not_there_is_a_failed_connection():
    async with gateway(b"") as (url, _):
        pass
    with anyio.fail_after(5), pytest.raises(pai.ModelConnectionError):
        await Agent(DemoModel(url)).run("Hello.")
