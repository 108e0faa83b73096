"""How much of what a tool returns a model gets to read."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_ai import RunContext, ToolReturn
from pydantic_ai.messages import is_multi_modal_content
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset
from pydantic_core import PydanticSerializationError, to_json

from mcp_subagents.shortening import shares, shortened

LONGEST = 100_000
"""Characters. More than that in one result would crowd out all else that a model has to keep in mind."""


def bounded(result: Any, longest: int = LONGEST) -> Any:
    """`result` in at most `longest` characters: without the middle of its text, or of its JSON, if need be.

    What is left out is said in its place. Pictures and other files are left as they are.
    """
    if isinstance(result, str):
        return shortened(result, longest)[0]
    if isinstance(result, ToolReturn):
        rich = cast("ToolReturn[Any]", result)
        return replace(rich, return_value=bounded(rich.return_value, longest), content=bounded(rich.content, longest))
    if result is None or is_multi_modal_content(result):
        return result
    parts = cast("list[Any]", result) if isinstance(result, list) else []
    if any(map(is_multi_modal_content, parts)):
        return _each(parts, longest)
    try:
        text = to_json(cast("object", result)).decode()
    except (PydanticSerializationError, ValueError):
        text = ""  # whoever sends it to the model will say so
    return shortened(text, longest)[0] if len(text) > longest else cast("Any", result)


def _each(parts: Sequence[Any], longest: int) -> list[Any]:
    """Texts among files: they share the room."""
    rooms = shares([0 if is_multi_modal_content(each) else _length(each) for each in parts], longest)
    return [bounded(each, room) for each, room in zip(parts, rooms, strict=True)]


def _length(part: Any) -> int:
    try:
        return len(part) if isinstance(part, str) else len(to_json(part))
    except (PydanticSerializationError, ValueError):
        return 0


class BoundedTools(WrapperToolset[Any]):
    """The same tools, with results that are not longer than a model can bear."""

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """What the tool returns, bounded."""
        return bounded(await super().call_tool(name, tool_args, ctx, tool))
