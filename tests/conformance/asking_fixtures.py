"""Tools and a prompt that ask by what they return; the state they come back with is sealed by the SDK."""

from collections.abc import Mapping
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
)
from plain_fixtures import said, text

Told = CallToolResult | InputRequiredResult


async def test_input_required_result_elicitation(ctx: Context[Any]) -> Told:
    """Ask for a name."""
    name = filled(ctx, "user_name", "name")
    return greeting(name) if name else asks(user_name=form("What is your name?", name="string"))


async def test_input_required_result_sampling(ctx: Context[Any]) -> Told:
    """Ask the client's model."""
    match given(ctx).get("capital_question"):
        case CreateMessageResult(content=content):
            return said(text(f"The model says: {getattr(content, 'text', '')}"))
        case _:
            return asks(capital_question=sample("What is the capital of France?"))


async def test_input_required_result_list_roots(ctx: Context[Any]) -> Told:
    """Ask for the client's roots."""
    match given(ctx).get("client_roots"):
        case ListRootsResult(roots=roots):
            return said(text(f"Roots: {', '.join(str(root.uri) for root in roots)}"))
        case _:
            return asks(client_roots=ListRootsRequest())


async def test_input_required_result_request_state(ctx: Context[Any]) -> Told:
    """Ask, and know one's state again."""
    if ctx.request_state == "asked":
        return said(text("state-ok"))
    return asks("asked", confirm=form("Please confirm", ok="boolean"))


async def test_input_required_result_tampered_state(ctx: Context[Any]) -> Told:
    """Ask, and know a state again that is not one's own."""
    if ctx.request_state == "asked":
        return said(text("state-ok"))
    return asks("asked", confirm=form("Please confirm", ok="boolean"))


async def test_input_required_result_multiple_inputs(ctx: Context[Any]) -> Told:
    """Ask for three things at once."""
    if {"user_name", "greeting", "client_roots"} <= given(ctx).keys():
        return said(text("All three have come."))
    return asks(
        "asked",
        user_name=form("What is your name?", name="string"),
        greeting=sample("Generate a greeting"),
        client_roots=ListRootsRequest(),
    )


async def test_input_required_result_multi_round(ctx: Context[Any]) -> Told:
    """Ask twice."""
    match ctx.request_state:
        case "step 1" if name := filled(ctx, "step1", "name"):
            colour = form("Step 2: What is your favorite color?", color="string")
            return asks(f"step 2 of {name}", step2=colour)
        case str() as state if state.startswith("step 2") and filled(ctx, "step2", "color"):
            return said(text(f"Done with {state}."))
        case _:
            return asks("step 1", step1=form("Step 1: What is your name?", name="string"))


async def test_input_required_result_capabilities(ctx: Context[Any]) -> Told:
    """Ask only for what the client can give."""
    capabilities = ctx.client_capabilities
    can_ask = capabilities is not None and capabilities.elicitation is not None
    if can_ask:
        return asks(user_name=form("What is your name?", name="string"))
    return asks(greeting=sample("Generate a greeting"))


async def test_streaming_elicitation(ctx: Context[Any]) -> Told:
    """Ask in the answer, not beside it."""
    await ctx.report_progress(1, 2)
    return asks(user_name=form("What is your name?", name="string"))


ASKING = [
    test_input_required_result_elicitation,
    test_input_required_result_sampling,
    test_input_required_result_list_roots,
    test_input_required_result_request_state,
    test_input_required_result_tampered_state,
    test_input_required_result_multiple_inputs,
    test_input_required_result_multi_round,
    test_input_required_result_capabilities,
    test_streaming_elicitation,
]


def add_asking(server: MCPServer[Any]) -> None:
    for tool in ASKING:
        server.add_tool(tool)

    @server.prompt(description="A prompt that asks.")
    async def test_input_required_result_prompt(ctx: Context[Any]) -> list[UserMessage] | InputRequiredResult:
        context = filled(ctx, "user_context", "context")
        if context:
            return [UserMessage(f"Use this context: {context}")]
        return asks(user_context=form("What context should the prompt use?", context="string"))


def form(message: str, **fields: str) -> ElicitRequest:
    properties = {name: {"type": kind} for name, kind in fields.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(fields)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(prompt: str) -> CreateMessageRequest:
    asked = SamplingMessage(role="user", content=text(prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[asked], max_tokens=100))


def asks(state: str | None = None, /, **requests: Any) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


def given(ctx: Context[Any]) -> Mapping[str, object]:
    return ctx.input_responses or {}


def filled(ctx: Context[Any], key: str, field: str) -> str | None:
    """What the user has filled in there."""
    answer = given(ctx).get(key)
    if not isinstance(answer, ElicitResult) or answer.action != "accept":
        return None
    return str((answer.content or {}).get(field, "")) or None


def greeting(name: str) -> CallToolResult:
    return said(text(f"Hello, {name}!"))
