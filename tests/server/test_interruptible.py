"""Answers that go wrong on the way: a client is never left with half of one, nor the log with a crash."""

from typing import Any

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from mcp_subagents.server.network import Interruptible

START: Message = {"type": "http.response.start", "status": 200, "headers": []}


def part(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def answered(*messages: Message, then: Exception | None = None) -> list[Message]:
    """What goes out of an app that sends `messages`, and then ends, or breaks."""
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)
        if then is not None:
            raise then

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("there is nothing to receive")

    await Interruptible(app)({"type": "http"}, receive, send)
    return sent


async def test_a_whole_answer_goes_out_as_it_is():
    whole = [START, part(b"a", more=True), part(b"b")]
    assert await answered(*whole) == whole


@pytest.mark.parametrize("begun", [[START], [START, part(b"a", more=True)]], ids=["headers", "half a body"])
async def test_an_answer_that_its_app_leaves_is_ended(begun: list[Message]):
    assert await answered(*begun) == [*begun, part(b"")]


async def test_only_the_first_of_two_answers_goes_out():
    assert await answered(START, part(b"a"), START, part(b"b")) == [START, part(b"a")]


@pytest.mark.parametrize("closed", [anyio.ClosedResourceError(), anyio.BrokenResourceError()])
async def test_a_session_that_ends_after_the_answer_is_no_crash(closed: Exception):
    assert await answered(START, part(b"a"), then=closed) == [START, part(b"a")]


async def test_a_crash_before_the_answer_stays_one():
    with pytest.raises(anyio.ClosedResourceError):
        await answered(then=anyio.ClosedResourceError())
