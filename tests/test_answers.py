"""Which responses are whole, and which are pieces."""

from typing import Any

import pytest
from pydantic_ai import Agent, AgentRunResult
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from mcp_subagents import IncompleteAnswer, RetryConfig, checkpoint_of, failure_of, run_with_retry
from mcp_subagents.answers import StreamEndedEarly, refuse_cut_stream, what_is_wrong
from mcp_subagents.testing import ScriptedModel

USED = RequestUsage(input_tokens=1, output_tokens=1)


@pytest.mark.parametrize(
    ("response", "is_piece"),
    [
        ({}, False),
        ({"provider_details": {"timestamp": 1}}, False),
        ({"provider_name": "acme"}, False),
        ({"provider_name": "acme", "finish_reason": "stop"}, False),
        ({"provider_name": "openai", "provider_details": {"timestamp": 1}, "finish_reason": "stop"}, True),
        ({"provider_name": "openai", "provider_details": {"timestamp": 1}, "usage": USED}, False),
        ({"provider_name": "openai", "provider_details": {"finish_reason": "stop"}}, False),
        ({"provider_name": "openai", "provider_details": {}, "finish_reason": "content_filter"}, False),
        ({"provider_name": "anthropic", "usage": USED}, True),
        ({"provider_name": "anthropic", "provider_details": {}, "usage": USED}, True),
        ({"provider_name": "anthropic", "finish_reason": "stop"}, False),
        ({"provider_name": "anthropic", "provider_details": {"finish_reason": "new"}}, False),
    ],
    ids=[
        "of nobody we know",
        "of nobody we know, with details",
        "of a model that reports nothing",
        "of a model that reports no usage",
        "of OpenAI, without its end",
        "of OpenAI, without a reason but with the usage",
        "of OpenAI, without usage but with a reason",
        "of OpenAI, refused",
        "of Anthropic, without a reason",
        "of Anthropic, without a reason in its details",
        "of Anthropic, with a reason",
        "of Anthropic, with a reason that is new",
    ],
)
def test_a_response_that_never_said_how_it_ended_is_a_piece(response: dict[str, Any], is_piece: bool):
    made = ModelResponse(parts=[TextPart("The quick")], model_name="m", **response)
    if is_piece:
        with pytest.raises(StreamEndedEarly) as refused:
            refuse_cut_stream(made)
        assert (refused.value.model_name, refused.value.phase) == ("m", "read")
    else:
        refuse_cut_stream(made)


def test_a_piece_of_a_model_without_a_name_is_told_by_its_provider():
    piece = ModelResponse(parts=[TextPart("The quick")], provider_name="anthropic")
    with pytest.raises(StreamEndedEarly) as refused:
        refuse_cut_stream(piece)
    assert refused.value.model_name == "anthropic"


@pytest.mark.parametrize(
    ("calls", "reason", "is_refused"),
    [
        ([ToolCallPart("launch", '{"count": 1}')], "length", True),
        ([ToolCallPart("launch", {"count": 1})], "length", True),
        ([ToolCallPart("launch", "")], "length", True),
        ([ToolCallPart("launch")], "content_filter", True),
        ([ToolCallPart("launch"), ToolCallPart("launch", '{"cou')], "length", True),
        ([ToolCallPart("launch", '{"cou')], "length", False),
        ([ToolCallPart("launch", "12")], "length", False),
        ([], "length", False),
        ([ToolCallPart("launch")], "tool_call", False),
        ([ToolCallPart("launch")], None, False),
    ],
    ids=[
        *("arguments that parse", "arguments that a client has parsed", "empty arguments", "no arguments, filtered"),
        *("a whole call before half a call", "half a call, which the model hears of", "no object", "no call"),
        *("whole", "without a word"),
    ],
)
def test_calls_of_a_response_that_broke_off_are_refused_if_they_could_be_run(
    calls: list[ToolCallPart], reason: Any, is_refused: bool
):
    response = ModelResponse(parts=[TextPart("I will"), *calls], finish_reason=reason)
    if is_refused:
        with pytest.raises(IncompleteAnswer) as refused:
            refuse_cut_stream(response)
        assert (refused.value.why, refused.value.text) == (reason, "I will")
    else:
        refuse_cut_stream(response)


@pytest.mark.parametrize(
    ("parts", "reason", "why"),
    [
        ([TextPart("42")], "stop", None),
        ([TextPart("4")], "length", "length"),
        ([TextPart("4")], "content_filter", "content_filter"),
        ([TextPart(" \n")], "stop", "empty"),
        ([TextPart(""), FilePart(BinaryContent(b"x", media_type="image/png"))], "stop", None),
        ([ToolCallPart("final_result", {})], "length", "length"),
        ([ToolCallPart("final_result", {})], "content_filter", "content_filter"),
        ([TextPart(""), ToolCallPart("final_result", {})], "stop", None),
        ([], "stop", None),
    ],
    ids=[
        *("a text", "cut", "filtered", "blank", "a picture", "a cut call", "a filtered call", "a call"),
        "nothing, which an output may be",
    ],
)
def test_a_response_says_what_keeps_it_from_being_an_answer(parts: Any, reason: Any, why: str | None):
    assert what_is_wrong(ModelResponse(parts=parts, finish_reason=reason)) == why


class Homemade(Model):
    """A model of somebody's own, which reports as little as it may."""

    @property
    def model_name(self) -> str:
        return "homemade"

    @property
    def system(self) -> str:
        return "acme"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        return ModelResponse(parts=[TextPart("42")], model_name="homemade", provider_name="acme", finish_reason="stop")


async def test_a_model_that_reports_no_usage_can_answer():
    agent = Agent(Homemade())
    result = await run_with_retry(agent, "Go.", run_kwargs={}, retry=RetryConfig(max_retries=0))
    assert result.output == "42"


@pytest.mark.parametrize("args", [None, {}, '{"count": 1}'], ids=["no arguments", "empty arguments", "some arguments"])
async def test_a_tool_is_not_run_from_a_response_that_ended_at_the_output_limit(args: Any):
    ran: list[int] = []

    def launch(count: int = 1) -> str:
        ran.append(count)
        return "launched"

    cut = ModelResponse(parts=[TextPart("Let me see."), ToolCallPart("launch", args)], finish_reason="length")
    model = ScriptedModel(cut)
    with pytest.raises(IncompleteAnswer) as failed:
        await run_with_retry(Agent(model, tools=[launch]), "Go.", run_kwargs={}, retry=RetryConfig())
    assert (ran, len(model.requests)) == ([], 1)
    failure = failure_of(failed.value)
    assert (failure.failure_type, failure.partial_results) == ("limit", "Let me see.")
    # A resume asks for all of it again.
    reached = checkpoint_of(failed.value)
    assert reached is not None
    assert [type(message) for message in reached.messages] == [ModelRequest]


async def test_a_model_may_correct_a_call_that_was_cut_off():
    ran: list[int] = []

    def launch(count: int) -> str:
        ran.append(count)
        return "launched"

    cut = ModelResponse(parts=[ToolCallPart("launch", '{"cou')], finish_reason="length")
    model = ScriptedModel(cut, ToolCallPart("launch", {"count": 3}), "Done.")
    result = await run_with_retry(Agent(model, tools=[launch]), "Go.", run_kwargs={}, retry=RetryConfig())
    assert (result.output, ran) == ("Done.", [3])


class Cached(AbstractCapability[Any]):
    """Knows the answer without asking anybody."""

    async def wrap_run(self, ctx: Any, *, handler: Any) -> AgentRunResult[Any]:
        return AgentRunResult("cached")


async def test_a_result_that_no_model_gave_is_taken_as_it_is():
    model = ScriptedModel()
    agent = Agent(model, capabilities=[Cached()])
    result = await run_with_retry(agent, "Go.", run_kwargs={}, retry=RetryConfig())
    assert (result.output, model.requests) == ("cached", [])


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_response_that_came_with_the_history_is_not_judged_again(provider: str):
    ran: list[str] = []

    def search() -> str:
        ran.append("search")
        return "found"

    calling = ModelResponse(
        parts=[ToolCallPart("search", {})], provider_name=provider, model_name="m", provider_details={"timestamp": 1}
    )
    history = [ModelRequest(parts=[UserPromptPart("Find it.")]), calling]
    result = await run_with_retry(
        Agent(ScriptedModel("42"), tools=[search]),
        None,
        run_kwargs={"message_history": history},
        retry=RetryConfig(max_retries=0),
    )
    assert (result.output, ran) == ("42", ["search"])
