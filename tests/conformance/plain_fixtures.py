"""What the conformance suite calls, reads and prompts for; none of it is of ours."""

import base64
import json
from collections.abc import Sequence
from typing import Annotated, Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import Message, UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    SamplingMessage,
    SetLevelRequestParams,
    TextContent,
    TextResourceContents,
)
from pydantic import Field

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one pixel
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="  # no sound at all
IMAGE = ImageContent(type="image", data=PNG, mime_type="image/png")
PAUSE = 0.05

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
ENUMS: dict[str, Any] = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {
        "type": "string",
        "oneOf": [{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"}],
    },
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    "titledMulti": {
        "type": "array",
        "items": {
            "anyOf": [
                {"const": f"value{n}", "title": f"{word} Choice"} for n, word in enumerate(["First", "Second"], 1)
            ]
        },
    },
}
DEFAULTS: dict[str, Any] = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
USER: dict[str, Any] = {
    "username": {"type": "string", "description": "User's response"},
    "email": {"type": "string", "description": "User's email address"},
}


def add_content(server: MCPServer[Any]) -> None:
    """Tools that return content of every kind."""

    @server.tool()
    async def test_simple_text() -> CallToolResult:
        """Some text."""
        return said(text("This is a simple text response for testing."))

    @server.tool()
    async def test_image_content() -> CallToolResult:
        """An image."""
        return said(IMAGE)

    @server.tool()
    async def test_audio_content() -> CallToolResult:
        """A sound."""
        return said(AudioContent(type="audio", data=WAV, mime_type="audio/wav"))

    @server.tool()
    async def test_embedded_resource() -> CallToolResult:
        """A resource."""
        return said(embedded("test://embedded-resource", "This is an embedded resource content."))

    @server.tool()
    async def test_multiple_content_types() -> CallToolResult:
        """A text, an image and a resource."""
        data = json.dumps({"test": "data", "value": 123})
        resource = embedded("test://mixed-content-resource", data, "application/json")
        return said(text("Multiple content types test:"), IMAGE, resource)

    @server.tool()
    async def test_error_handling() -> CallToolResult:
        """An error."""
        words = text("This tool intentionally returns an error for testing")
        return CallToolResult(content=[words], is_error=True)

    @server.tool()
    async def test_header_param(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        """What came in a header."""
        return region

    async def validated(name: str = "") -> str:
        return name

    server.add_tool(validated, name="json_schema_2020_12_tool", description="A schema of every kind.")
    tool = server._tool_manager.get_tool("json_schema_2020_12_tool")  # pyright: ignore[reportPrivateUsage]
    assert tool is not None
    tool.parameters = SCHEMA_2020_12


async def test_tool_with_progress(ctx: Context[Any]) -> str:
    """Tell how it goes."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await anyio.sleep(PAUSE)
    return "Done."


async def test_tool_with_logging(ctx: Context[Any]) -> str:
    """Log three lines."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(ctx, line)
        await anyio.sleep(PAUSE)
    return "Logged."


async def test_logging_tool(ctx: Context[Any]) -> str:
    """Log a line, if the client wants any."""
    await log(ctx, "A line of the log.")
    return "Logged."


async def test_sampling(prompt: str, ctx: Context[Any]) -> str:
    """Ask the client's model."""
    asked = SamplingMessage(role="user", content=text(prompt))
    session: Any = ctx.request_context.session  # its sampling is deprecated, and still part of the older era
    answer = await session.create_message([asked], max_tokens=100, related_request_id=ctx.request_id)
    return f"LLM response: {answer.content.text}"


async def test_elicitation(message: str, ctx: Context[Any]) -> str:
    """Ask the user."""
    return f"User response: {await elicited(ctx, message, USER, required=[*USER])}"


async def test_elicitation_sep1034_defaults(ctx: Context[Any]) -> str:
    """Ask the user, with defaults."""
    return f"Elicitation completed: {await elicited(ctx, 'Who are you?', DEFAULTS)}"


async def test_elicitation_sep1330_enums(ctx: Context[Any]) -> str:
    """Let the user choose."""
    return f"Elicitation completed: {await elicited(ctx, 'Which?', ENUMS)}"


async def test_missing_capability(ctx: Context[Any]) -> str:
    """Needs a client that samples."""
    capabilities = ctx.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool samples.", needed)
    return "It samples."


async def test_trigger_tool_change(ctx: Context[Any]) -> str:
    """Say that the list of tools has changed."""
    await ctx.notify_tools_changed()
    return "Told."


async def test_trigger_prompt_change(ctx: Context[Any]) -> str:
    """Say that the list of prompts has changed."""
    await ctx.notify_prompts_changed()
    return "Told."


CALLING_BACK = [
    test_tool_with_progress,
    test_tool_with_logging,
    test_logging_tool,
    test_sampling,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_missing_capability,
    test_trigger_tool_change,
    test_trigger_prompt_change,
]


def add_callbacks(server: MCPServer[Any]) -> None:
    """Tools that talk to the client while they run."""
    for tool in CALLING_BACK:
        server.add_tool(tool)

    async def set_level(ctx: ServerRequestContext[Any, Any], params: SetLevelRequestParams) -> EmptyResult:
        return EmptyResult()

    low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  # logging is deprecated: we offer none
    low.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)


def add_readings(server: MCPServer[Any]) -> None:
    """Resources and prompts."""

    @server.resource("test://static-text", description="A text.", mime_type="text/plain")
    async def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", description="An image.", mime_type="image/png")
    async def static_binary() -> bytes:
        return base64.b64decode(PNG)

    @server.resource("test://watched-resource", description="To be watched.", mime_type="text/plain")
    async def watched_resource() -> str:
        return "It never changes."

    @server.resource("test://template/{id}/data", description="Data by its id.", mime_type="application/json")
    async def template(id: str) -> str:
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    @server.prompt(description="A simple prompt.")
    def test_simple_prompt() -> str:
        return "This is a simple prompt for testing."

    @server.prompt(description="A prompt with arguments.")
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt(description="A prompt with a resource.")
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:
        resource = embedded(resourceUri, "Embedded resource content for testing.")
        return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]

    @server.prompt(description="A prompt with an image.")
    def test_prompt_with_image() -> list[Message]:
        return [UserMessage(IMAGE), UserMessage("Please analyze the image above.")]


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


def embedded(uri: str, words: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=words))


def said(*content: Any) -> CallToolResult:
    return CallToolResult(content=list(content))


async def log(ctx: Any, line: str) -> None:
    await ctx.info(line)  # deprecated, and still part of the older era


async def elicited(ctx: Context[Any], message: str, properties: dict[str, Any], required: Sequence[str] = ()) -> str:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(required)}
    session = ctx.request_context.session
    answer = await session.elicit_form(message, schema, related_request_id=ctx.request_context.request_id)
    return f"action={answer.action}, content={json.dumps(answer.content)}"
