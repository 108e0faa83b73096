"""What a resumed run starts from, and what its caller's functions may do to it."""

import asyncio
import dataclasses
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    CancellationToken,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolset,
    PromptedOutput,
    TextOutput,
    ToolOutput,
)
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.capabilities import Hooks, ProcessHistory
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelHTTPError, ModelRetry, RunCancelled
from pydantic_ai.messages import (
    BinaryImage,
    FilePart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tools import RunContext

from mcp_subagents import Checkpoint, IncompleteAnswer, RetryConfig, checkpoint_of, failure_of, run_with_retry
from mcp_subagents.testing import ScriptedModel

BUSY = ModelHTTPError(503, "scripted")
AT_ONCE = RetryConfig(initial_delay=0.0)
WHATEVER = RetryConfig(initial_delay=0.0, retry_on=lambda exc: True)
OLD_TALK: list[ModelMessage] = [
    message
    for number in range(6)
    for message in (
        ModelRequest(parts=[UserPromptPart(f"question {number}")]),
        ModelResponse(parts=[TextPart(f"answer {number}")]),
    )
]


async def run(agent: Agent[Any, Any], prompt: str | None = "Go.", retry: RetryConfig = AT_ONCE, **kwargs: Any) -> Any:
    kwargs.setdefault("run_kwargs", {})
    with anyio.fail_after(5):
        return await run_with_retry(agent, prompt, retry=retry, **kwargs)


async def resume(agent: Agent[Any, Any], reached: Checkpoint, **kwargs: Any) -> Any:
    """Go on from a checkpoint that was stored and read again."""
    stored = ModelMessagesTypeAdapter.dump_json(list(reached.messages))
    history = ModelMessagesTypeAdapter.validate_json(stored)
    return await run(agent, None, run_kwargs={"message_history": history}, **kwargs)


def reached_by(exc: BaseException) -> Checkpoint:
    checkpoint = checkpoint_of(exc)
    assert checkpoint is not None
    return checkpoint


def returned(messages: Any) -> list[object]:
    return [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def prompts(messages: Any) -> list[object]:
    return [part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart)]


Keep = Callable[[list[ModelMessage]], list[ModelMessage]]


class Payments:
    """A model that pays 1, 2, 3 in this order, going by what it sees, and fails once after the last payment."""

    def __init__(self, keep: Keep) -> None:
        self.paid: list[int] = []
        self.trouble = [BUSY]
        self.agent = Agent(FunctionModel(self.answer), tools=[self.pay], capabilities=[ProcessHistory(keep)])

    def pay(self, number: int) -> str:
        self.paid.append(number)
        return f"paid {number}"

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = max((int(str(text).split()[1]) for text in returned(messages)), default=0)
        if last == 3 and self.trouble:
            raise self.trouble.pop()
        return ModelResponse(parts=[ToolCallPart("pay", {"number": last + 1}) if last < 3 else TextPart("All paid.")])


# Histories that do not only grow


def summarised(messages: list[ModelMessage]) -> list[ModelMessage]:
    return [ModelRequest(parts=[UserPromptPart("summary")]), *messages[-2:]] if len(messages) > 3 else messages


def noted(messages: list[ModelMessage]) -> list[ModelMessage]:
    last = messages[-1]
    assert isinstance(last, ModelRequest)
    return [*messages[-2:-1], dataclasses.replace(last, parts=[*last.parts, UserPromptPart("note")])]


KEEPERS: dict[str, Keep] = {
    "the last two messages": lambda messages: messages[-2:],
    "the last three messages": lambda messages: messages[-3:],
    "a summary and the last exchange": summarised,
    "copies of all messages": lambda messages: [dataclasses.replace(message) for message in messages],
    "the last exchange, with a note": noted,
}


@pytest.mark.parametrize("history", [[], OLD_TALK], ids=["a new conversation", "a long one"])
@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
async def test_a_history_processor_does_not_make_finished_tools_run_again(keep: Keep, history: list[ModelMessage]):
    payments = Payments(keep)
    result = await run(payments.agent, "Pay 1 to 3.", run_kwargs={"message_history": history})
    assert (result.output, payments.paid) == ("All paid.", [1, 2, 3])
    # The request that failed is in the history once.
    assert returned(result.all_messages()).count("paid 3") == 1


@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
async def test_a_checkpoint_of_a_shortened_history_is_told_and_can_be_resumed(keep: Keep):
    told: list[Checkpoint] = []
    payments = Payments(keep)
    with pytest.raises(ModelHTTPError):
        await run(payments.agent, retry=RetryConfig(max_retries=0), on_checkpoint=told.append)
    assert "paid 3" in returned(told[-1].messages)
    result = await resume(payments.agent, told[-1])
    assert (result.output, payments.paid) == ("All paid.", [1, 2, 3])


async def test_a_step_that_changes_nothing_is_not_told_again():
    told: list[Checkpoint] = []
    model = ScriptedModel(ToolCallPart("search", {}), BUSY, BUSY, "42")

    def search() -> str:
        return "found"

    agent = Agent(model, tools=[search], instructions="Be brief.")
    await run(agent, on_checkpoint=told.append)
    assert [len(checkpoint.messages) for checkpoint in told] == [1, 2, 3, 4]


@pytest.mark.parametrize("prompt", [None, "Hurry."], ids=["without a prompt", "with a prompt"])
async def test_a_failure_while_an_untidy_history_is_prepared_loses_nothing(prompt: str | None):
    trouble = [BUSY]
    ran: list[str] = []

    def search() -> str:
        ran.append("search")
        return "found"

    agent = Agent(model := ScriptedModel("42"), tools=[search])

    @agent.system_prompt(dynamic=True)
    def system() -> str:
        if trouble:
            raise trouble.pop()
        return "Be brief."

    brief = SystemPromptPart("Be brief.", dynamic_ref=system.__qualname__)
    history: list[ModelMessage] = [
        # pydantic-ai merges adjacent requests, and answers a call that nobody did.
        ModelRequest(parts=[brief, UserPromptPart("Find it.")]),
        ModelRequest(parts=[UserPromptPart("Please.")]),
        ModelResponse(parts=[ToolCallPart("search", {}, tool_call_id="call-1")]),
        ModelRequest(parts=[UserPromptPart("Never mind.")]),
        ModelResponse(parts=[ToolCallPart("search", {}, tool_call_id="call-2")]),
        ModelRequest(parts=[ToolReturnPart("search", "found before", tool_call_id="call-2")]),
    ]
    await run(agent, prompt, run_kwargs={"message_history": history})
    assert (trouble, ran, returned(model.requests[0])[1:]) == ([], [], ["found before"])
    assert prompts(model.requests[0]) == ["Find it.", "Please.", "Never mind.", *([prompt] if prompt else [])]


async def test_a_failure_before_the_request_was_sent_keeps_its_tool_results():
    trouble = [BUSY]
    ran: list[str] = []
    hooks = Hooks[Any]()

    @hooks.on.before_node_run
    async def fail(ctx: RunContext[Any], *, node: Any) -> Any:
        if Agent.is_model_request_node(node) and returned([node.request]) and trouble:
            raise trouble.pop()
        return node

    assert fail

    def search() -> str:
        ran.append("search")
        return "found"

    agent = Agent(model := ScriptedModel(ToolCallPart("search", {}), "42"), tools=[search], capabilities=[hooks])
    assert (await run(agent)).output == "42"
    assert (ran, returned(model.requests[-1])) == (["search"], ["found"])


async def test_a_turn_that_the_provider_had_suspended_is_still_there_after_a_failure():
    suspended = ModelResponse(parts=[TextPart("Let me think")], state="suspended", finish_reason=None)
    history: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("Go.")]), suspended]
    agent = Agent(ScriptedModel(BUSY))
    with pytest.raises(ModelHTTPError) as failed:
        await run(agent, None, RetryConfig(max_retries=0), run_kwargs={"message_history": history})
    assert reached_by(failed.value).messages[-1].parts == suspended.parts


async def test_a_request_that_a_hook_had_made_again_is_sent_and_answered():
    hooks = Hooks[Any]()
    objections = [ModelRetry("not like this")]

    @hooks.on.before_model_request
    async def object_once(ctx: RunContext[Any], request_context: Any) -> Any:
        if objections:
            raise objections.pop()
        return request_context

    assert object_once
    model = ScriptedModel(BUSY, "42")
    assert (await run(Agent(model, capabilities=[hooks]))).output == "42"
    first, second = map(prompts, model.requests)
    assert (first, first.count("Go.")) == (second, 1)


async def test_a_model_without_retries_of_its_own_gets_no_setting_for_them():
    class Bare(FunctionModel):
        unsupported_settings = frozenset({"max_retries"})

    seen: list[Any] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info.model_settings)
        return ModelResponse(parts=[TextPart("42")])

    await run(Agent(Bare(answer)))
    await run(Agent(FunctionModel(answer)))
    assert seen == [None, {"max_retries": 0}]


# Histories that end in a response


ANSWERED: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("Go.")]), ModelResponse(parts=[TextPart("42")])]


def plain_agent(model: ScriptedModel) -> Agent[Any, Any]:
    return Agent(model)


def instructed(model: ScriptedModel) -> Agent[Any, Any]:
    return Agent(model, instructions=["Be brief.", lambda: "It is noon."])


def instructed_by_a_toolset(model: ScriptedModel) -> Agent[Any, Any]:
    return Agent(model, toolsets=[FunctionToolset(instructions="Use me.")])


def with_system_prompts(model: ScriptedModel) -> Agent[Any, Any]:
    agent = Agent(model, system_prompt="Be brief.", instructions="Be kind.")
    agent.system_prompt(dynamic=True)(lambda: "It is noon.")
    return agent


def validated(model: ScriptedModel) -> Agent[Any, Any]:
    agent = Agent(model, instructions="Be brief.")
    agent.output_validator(lambda output: output)
    return agent


AGENTS = [plain_agent, instructed, instructed_by_a_toolset, with_system_prompts, validated]


@pytest.mark.parametrize("build", AGENTS, ids=lambda build: build.__name__.replace("_", " "))
async def test_a_run_that_has_its_answer_gives_it_again_without_asking_the_model(build: Any):
    model = ScriptedModel("42")
    agent = build(model)
    told: list[Checkpoint] = []
    await run(agent, on_checkpoint=told.append)
    result = await resume(agent, told[-1])
    assert (result.output, len(model.requests), result.usage.requests) == ("42", 1, 0)
    assert len(result.all_messages()) == 2


@pytest.mark.parametrize("build", AGENTS, ids=lambda build: build.__name__.replace("_", " "))
async def test_a_new_prompt_or_a_request_after_an_answer_is_sent(build: Any):
    for prompt, history in (("Sure?", ANSWERED), (None, [*ANSWERED, ModelRequest(parts=[UserPromptPart("Sure?")])])):
        model = ScriptedModel("Sure.")
        result = await run(build(model), prompt, run_kwargs={"message_history": history})
        assert (result.output, prompts(model.requests[0])) == ("Sure.", ["Go.", "Sure?"])


async def test_a_recorded_answer_of_a_structured_kind_is_made_again():
    model = ScriptedModel()
    agent = Agent(model, output_type=PromptedOutput(list[int]), instructions="Be brief.")
    history = [ANSWERED[0], ModelResponse(parts=[TextPart('{"response": [1, 2]}')])]
    assert (await run(agent, None, run_kwargs={"message_history": history})).output == [1, 2]


async def test_a_recorded_answer_that_the_validator_refuses_is_asked_for_again_with_the_instructions():
    agent = Agent(model := ScriptedModel("43"), instructions="Be brief.")

    @agent.output_validator
    def check(output: str) -> str:
        if output == "42":
            raise ModelRetry("not that one")
        return output

    assert check
    assert (await run(agent, None, run_kwargs={"message_history": ANSWERED})).output == "43"
    [request] = model.requests
    assert isinstance(request[-1], ModelRequest)
    assert request[-1].instructions == "Be brief."


@pytest.mark.parametrize("instructions", [None, "Be brief."], ids=["without instructions", "with instructions"])
async def test_a_recorded_piece_of_an_answer_is_refused(instructions: str | None):
    cut = ModelResponse(parts=[TextPart("4")], finish_reason="length")
    agent = Agent(ScriptedModel(), instructions=instructions)
    with pytest.raises(IncompleteAnswer):
        await run(agent, None, run_kwargs={"message_history": [ANSWERED[0], cut]})


@pytest.mark.parametrize(
    "last",
    [ModelResponse(parts=[]), ModelResponse(parts=[ThinkingPart("Hm.")])],
    ids=["nothing", "only thoughts"],
)
async def test_a_recorded_response_that_says_nothing_is_no_answer(last: ModelResponse):
    model = ScriptedModel("42")
    result = await run(
        Agent(model, instructions="Be brief."), None, run_kwargs={"message_history": [ANSWERED[0], last]}
    )
    # The model is asked again, and not scolded for an answer that it never gave.
    assert (result.output, list(map(prompts, model.requests))) == ("42", [["Go."]])


async def test_a_recorded_picture_is_an_answer():
    picture = BinaryImage(b"x", media_type="image/png")
    agent = Agent(ScriptedModel(), output_type=BinaryImage, instructions="Draw.", defer_model_check=True)
    history = [ANSWERED[0], ModelResponse(parts=[FilePart(picture)])]
    assert (await run(agent, None, run_kwargs={"message_history": history})).output == picture


async def test_a_new_prompt_after_calls_that_nobody_answered_is_sent_with_the_calls_marked_as_interrupted():
    ran: list[str] = []

    def search() -> str:
        ran.append("search")
        return "found"

    history: list[ModelMessage] = [ANSWERED[0], ModelResponse(parts=[ToolCallPart("search", {}, "call-1")])]
    model = ScriptedModel("42")
    result = await run(Agent(model, tools=[search]), "Never mind.", run_kwargs={"message_history": history})
    assert (result.output, ran) == ("42", [])
    assert prompts(model.requests[0]) == ["Go.", "Never mind."]
    assert returned(model.requests[0]) == ["The tool call was interrupted before a result was produced."]
    assert len(history) == 2


# Deferred results and the prompt that comes with them


async def test_an_answer_is_not_lost_when_the_tools_cannot_be_started():
    trouble = [BUSY]
    hooks = Hooks[Any]()

    @hooks.on.before_node_run
    async def fail(ctx: RunContext[Any], *, node: Any) -> Any:
        if Agent.is_call_tools_node(node) and node.tool_call_results and trouble:
            raise trouble.pop()
        return node

    assert fail

    def ask() -> str:
        raise CallDeferred

    def search() -> str:
        return "found"

    calls = [ToolCallPart("ask", {}, tool_call_id="q1"), ToolCallPart("search", {}, tool_call_id="s1")]
    model = ScriptedModel(calls, "Then Postgres.")
    agent = Agent(model, tools=[ask, search], output_type=[str, DeferredToolRequests], capabilities=[hooks])
    asked = await run(agent)
    results = asked.output.build_results(calls={"q1": "Postgres"})
    kwargs = {"message_history": asked.all_messages(), "deferred_tool_results": results}
    result = await run(agent, "And hurry.", WHATEVER, run_kwargs=kwargs)
    assert result.output == "Then Postgres."
    assert sorted(map(str, returned(model.requests[-1]))) == ["Postgres", "found"]
    assert prompts(model.requests[-1]) == ["Go.", "And hurry."]


class Launch:
    """An agent whose only tool needs an approval, and then misfires."""

    def __init__(self) -> None:
        self.count = 0
        self.model = ScriptedModel(ToolCallPart("launch", {}, tool_call_id="a1"), "It misfired.")
        self.agent = Agent(
            self.model, deps_type=type(None), tools=[self.launch], output_type=[str, DeferredToolRequests]
        )

    def launch(self, ctx: RunContext[None]) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        self.count += 1
        raise RuntimeError("misfire")

    async def approved(self, prompt: str | None, retry: RetryConfig = AT_ONCE) -> Any:
        asked = await run(self.agent)
        results = DeferredToolResults(approvals={"a1": True})
        kwargs = {"message_history": asked.all_messages(), "deferred_tool_results": results}
        return await run(self.agent, prompt, retry, run_kwargs=kwargs)


async def test_a_prompt_that_came_with_an_approval_survives_the_approved_tool():
    launch = Launch()
    with pytest.raises(RuntimeError, match="misfire") as failed:
        await launch.approved("Be careful.")
    result = await resume(launch.agent, reached_by(failed.value))
    assert (result.output, launch.count) == ("It misfired.", 1)
    assert prompts(launch.model.requests[-1]) == ["Go.", "Be careful."]
    assert "interrupted" in str(returned(launch.model.requests[-1]))


async def test_an_approval_counts_once_although_the_approved_tool_is_retried():
    launch = Launch()
    result = await launch.approved(None, WHATEVER)
    assert (result.output, launch.count) == ("It misfired.", 1)


async def test_a_tool_that_raised_is_not_run_again_by_a_resume():
    ran: list[str] = []

    def launch() -> str:
        ran.append("launch")
        raise RuntimeError("misfire")

    agent = Agent(ScriptedModel(ToolCallPart("launch", {}), "It misfired."), tools=[launch])
    with pytest.raises(RuntimeError, match="misfire") as failed:
        await run(agent)
    assert (await resume(agent, reached_by(failed.value))).output == "It misfired."
    assert ran == ["launch"]


# Structured outputs


class City(BaseModel):
    name: str


async def test_a_run_that_ended_with_a_structured_output_is_resumed_without_asking_the_model():
    told: list[Checkpoint] = []
    model = ScriptedModel(ToolCallPart("final_result", {"name": "Bonn"}))
    agent = Agent(model, output_type=City)
    await run(agent, on_checkpoint=told.append)
    assert isinstance(told[-1].messages[-1], ModelResponse)
    assert (await resume(agent, told[-1])).output == City(name="Bonn")
    assert len(model.requests) == 1


async def test_the_results_of_tools_next_to_a_structured_output_are_kept():
    ran: list[str] = []

    def note() -> str:
        ran.append("note")
        return "noted"

    told: list[Checkpoint] = []
    final = ToolCallPart("final_result", {"name": "Bonn"})
    agent = Agent(ScriptedModel([ToolCallPart("note", {}), final], final), output_type=ToolOutput(City), tools=[note])
    await run(agent, on_checkpoint=told.append)
    await resume(agent, told[-1])
    assert ran == ["note"]


# Answers that are not whole


def words(text: str) -> list[str]:
    return text.split()


@pytest.mark.parametrize(
    ("output_type", "text", "reason", "why", "whole"),
    [
        (str, "half of an", "length", "length", "the whole"),
        (TextOutput(words), "half of an", "length", "length", "the whole"),
        (TextOutput(words), "half of an", "content_filter", "content_filter", "the whole"),
        (TextOutput(words), " \n", "stop", "empty", "the whole"),
        (PromptedOutput(list[int]), '{"response": [1]}', "length", "length", '{"response": [1, 2]}'),
    ],
    ids=["a text", "a function of a text", "a filtered text", "a function of nothing", "JSON that happens to parse"],
)
async def test_an_answer_that_broke_off_is_incomplete_whatever_is_made_of_it(
    output_type: Any, text: str, reason: Any, why: str, whole: str
):
    told: list[Checkpoint] = []
    cut = ModelResponse(parts=[TextPart(text)], finish_reason=reason)
    model = ScriptedModel(cut, whole)
    agent: Agent[None, Any] = Agent(model, output_type=output_type, instructions="Be brief.")
    with pytest.raises(IncompleteAnswer) as failed:
        await run(agent, on_checkpoint=told.append)
    assert (failed.value.why, failed.value.text) == (why, text)
    assert failure_of(failed.value).partial_results == text.strip()
    for checkpoint in (reached_by(failed.value), told[-1]):
        # A resume asks again, instead of finding the same piece.
        assert [type(message) for message in checkpoint.messages] == [ModelRequest]
    await resume(agent, reached_by(failed.value))
    assert prompts(model.requests[-1]) == ["Go."]


async def test_the_callers_predicate_can_have_an_incomplete_answer_asked_for_again():
    cut = ModelResponse(parts=[TextPart("half")], finish_reason="length")
    model = ScriptedModel(cut, cut, "whole")
    assert (await run(Agent(model), retry=WHATEVER)).output == "whole"
    history: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("Go.")]), cut]
    again = await run(Agent(ScriptedModel("whole")), None, WHATEVER, run_kwargs={"message_history": history})
    assert again.output == "whole"


async def test_an_output_function_may_return_nothing():
    def quiet(text: str) -> str:
        return ""

    called = ScriptedModel(ToolCallPart("final_result", {"text": "hello"}))
    assert (await run(Agent(called, output_type=quiet))).output == ""
    assert (await run(Agent(ScriptedModel("hello"), output_type=TextOutput(quiet)))).output == ""


async def test_an_output_that_broke_off_and_was_corrected_is_whole():
    pieces = [ModelResponse(parts=[TextPart('{"resp')], finish_reason="length"), '{"response": [1, 2]}']
    told: list[Checkpoint] = []
    result = await run(Agent(ScriptedModel(*pieces), output_type=PromptedOutput(list[int])), on_checkpoint=told.append)
    assert result.output == [1, 2]
    assert told[-1].messages == tuple(result.all_messages())


async def test_partial_results_hold_the_incomplete_answer_once():
    cut = ModelResponse(parts=[TextPart("half of an")], finish_reason="length")
    exc = IncompleteAnswer("length", "half of an\n")
    first = ModelResponse(parts=[TextPart("First.")])
    assert failure_of(exc, messages=[first, cut]).partial_results == "First.\n\nhalf of an"
    assert failure_of(exc, messages=[first]).partial_results == "First.\n\nhalf of an"


# The caller's functions


def broken(*args: Any) -> Any:
    raise ConnectionError("mine")


async def broken_too(*args: Any) -> Any:
    raise ConnectionError("mine")


@pytest.mark.parametrize("retry", [AT_ONCE, WHATEVER], ids=["by our rules", "by a predicate that says yes"])
@pytest.mark.parametrize(
    "callbacks",
    [
        {"cancel_check": broken},
        {"inject_messages": broken_too},
        {"on_checkpoint": broken},
        {"on_checkpoint": broken_too},
    ],
    ids=["cancel_check", "inject_messages", "on_checkpoint", "on_checkpoint, a coroutine"],
)
async def test_an_error_of_the_callers_function_is_never_retried(callbacks: dict[str, Any], retry: RetryConfig):
    model = ScriptedModel("42")
    with pytest.raises(ConnectionError, match="mine") as failed:
        await run(Agent(model), retry=retry, **callbacks)
    assert (model.requests, reached_by(failed.value).retries) == ([], 0)
    failure = failure_of(failed.value)
    assert (failure.failure_type, failure.is_retryable) == ("transient", True)


async def test_texts_that_are_none_are_the_callers_error_too():
    async def inject() -> list[Any]:
        return [None]

    with pytest.raises(ValueError, match="UserPromptPart") as failed:
        await run(Agent(ScriptedModel("42")), retry=WHATEVER, inject_messages=inject)
    assert reached_by(failed.value).retries == 0


async def test_a_checkpoint_counts_as_told_only_when_it_was_taken():
    taken: list[int] = []
    hiccup = [OSError("disk")]
    model = ScriptedModel(ToolCallPart("search", {}), "42")

    def search() -> str:
        return "found"

    def save(checkpoint: Checkpoint) -> None:
        if returned(checkpoint.messages) and hiccup:
            raise hiccup.pop()
        taken.append(len(checkpoint.messages))

    agent = Agent(model, tools=[search])
    with pytest.raises(OSError, match="disk") as failed:
        await run(agent, on_checkpoint=save)
    # Nothing is lost: the tool's result is in the checkpoint of the error.
    assert returned(reached_by(failed.value).messages) == ["found"]
    assert (await resume(agent, reached_by(failed.value), on_checkpoint=save)).output == "42"
    assert taken == [1, 2, 3, 4]


@pytest.mark.parametrize("where", ["an instruction", "an output validator"])
async def test_a_broken_connection_that_is_not_the_models_costs_no_further_request(where: str):
    calls: list[str] = []

    def fail(*args: Any) -> Any:
        calls.append(where)
        raise ConnectionError("a socket of ours")

    agent = Agent(ScriptedModel("42"))
    if where == "an instruction":
        agent.instructions(fail)
    else:
        agent.output_validator(fail)
    with pytest.raises(ConnectionError):
        await run(agent)
    assert calls == [where]


async def test_the_agents_own_handler_receives_the_events():
    seen: list[str] = []

    async def listen(ctx: object, events: AsyncIterable[object]) -> None:
        seen.extend([type(event).__name__ async for event in events])

    class Observed(WrapperAgent[None, str]):
        @property
        def event_stream_handler(self) -> Any:
            return listen

    def search() -> str:
        return "found"

    async def speak(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        if returned(messages):
            yield "42"
        else:
            yield {0: DeltaToolCall("search", "{}")}

    agent = Observed(Agent(FunctionModel(stream_function=speak), tools=[search]))
    assert (await run(agent)).output == "42"  # pyright: ignore[reportArgumentType]  # any kind of agent will do
    assert seen.count("FunctionToolResultEvent") == 1
    other: list[object] = []

    async def instead(ctx: object, events: AsyncIterable[object]) -> None:
        other.extend([event async for event in events])

    seen.clear()
    await run(agent, event_stream_handler=instead)  # pyright: ignore[reportArgumentType]
    assert (seen, len(other) > 0) == ([], True)


# Backoff


async def test_a_backoff_that_nothing_can_end_is_one_sleep_in_the_same_task():
    tasks: list[object] = []

    async def sleep(delay: float) -> None:
        tasks.append(asyncio.current_task())
        tasks.append(len(asyncio.all_tasks()))

    await run(Agent(ScriptedModel(BUSY, "42")), sleep=sleep)
    await run(Agent(ScriptedModel(BUSY, "42")), sleep=sleep, cancel_check=lambda: False)
    alone, watched = tasks[1], tasks[3]
    assert tasks[0] is asyncio.current_task()
    assert (alone, watched) == (len(asyncio.all_tasks()), len(asyncio.all_tasks()) + 1)


async def nap(delay: float) -> None:
    await anyio.sleep_forever()


def checks_until(number: int, then: BaseException) -> Callable[[], bool]:
    looks = 0

    def check() -> bool:
        nonlocal looks
        looks += 1
        if looks > number:
            raise then
        return False

    return check


async def raises_exit(delay: float) -> None:
    raise GeneratorExit("sleep")


def never() -> bool:
    return False


@pytest.mark.parametrize(
    ("callbacks", "kind"),
    [
        ({"sleep": broken_too}, ConnectionError),
        ({"sleep": broken_too, "cancel_check": never}, ConnectionError),
        ({"sleep": raises_exit}, GeneratorExit),
        ({"sleep": raises_exit, "cancel_check": never}, GeneratorExit),
        ({"on_retry": broken}, ConnectionError),
        ({"on_retry": broken_too}, ConnectionError),
        ({"sleep": nap, "cancel_check": checks_until(2, LookupError("no flag"))}, LookupError),
    ],
    ids=[
        *("sleep", "sleep, watched", "sleep, not an Exception", "sleep, not an Exception, watched"),
        *("on_retry", "on_retry, a coroutine", "cancel_check"),
    ],
)
async def test_an_error_between_attempts_leaves_as_it_is_and_shows_what_it_followed(
    callbacks: dict[str, Any], kind: type[BaseException]
):
    with pytest.raises(kind) as failed:
        await run(Agent(ScriptedModel(BUSY)), **callbacks)
    assert failed.value.__context__ is BUSY
    assert reached_by(failed.value).retries == 0
    assert prompts(reached_by(failed.value).messages) == ["Go."]


async def test_a_cancel_in_a_backoff_leaves_a_retry_that_never_began_uncounted():
    asked = False

    async def sleep(delay: float) -> None:
        nonlocal asked
        asked = True
        await anyio.sleep_forever()

    with pytest.raises(asyncio.CancelledError, match="asked to stop") as stopped:
        await run(Agent(ScriptedModel(BUSY)), sleep=sleep, cancel_check=lambda: asked)
    assert reached_by(stopped.value).retries == 0


async def test_a_cancelled_token_leaves_a_retry_that_never_began_uncounted():
    token = CancellationToken()

    async def sleep(delay: float) -> None:
        token.cancel()
        await anyio.sleep_forever()

    model = ScriptedModel(BUSY, BUSY)
    with pytest.raises(RunCancelled) as stopped:
        await run(Agent(model), sleep=sleep, run_kwargs={"cancellation_token": token})
    assert (reached_by(stopped.value).retries, len(model.requests)) == (0, 1)


async def test_an_exception_that_takes_no_attributes_carries_its_checkpoint():
    class Closed(Exception):
        def __setattr__(self, name: str, value: object) -> None:
            if not name.startswith("__"):
                raise AttributeError(name)
            super().__setattr__(name, value)

    with pytest.raises(Closed) as failed:
        await run(Agent(ScriptedModel(Closed("shut"))))
    assert prompts(reached_by(failed.value).messages) == ["Go."]


async def test_a_run_stopped_before_it_began_has_an_empty_checkpoint():
    with pytest.raises(asyncio.CancelledError) as stopped:
        await run(Agent(ScriptedModel("42")), cancel_check=lambda: True)
    assert reached_by(stopped.value).messages == ()
