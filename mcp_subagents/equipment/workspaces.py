"""A folder with the tools to look into it and, if the definition says so, to change it."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from pydantic_ai import FunctionToolset, Tool, ToolFailed

from mcp_subagents.config.places import Inside
from mcp_subagents.equipment.file_reading import FileReader
from mcp_subagents.equipment.file_writing import FileWriter
from mcp_subagents.equipment.folders import Folder, Refused


def file_tools(folder: Inside, *, read_only: bool) -> FunctionToolset[Any]:
    """The tools for a workspace."""
    reader, writer = FileReader(Folder(folder)), FileWriter(Folder(folder))
    looking = [reader.list_files, reader.read_file, reader.search_files]
    tools = [_tool(each, read_only=True) for each in looking]
    if not read_only:
        # Written twice, a file is as if written once; an edit done twice may not be.
        tools += [_tool(writer.write_file, idempotent=True), _tool(writer.edit_file)]
    return FunctionToolset[Any](tools, id="workspace")


def told_of(folder: Inside, *, read_only: bool) -> str:
    may = "look into but not change" if read_only else "look into and change"
    return f"You have a workspace, the folder {folder.path.name!r}, that you can {may}. Paths are relative to it."


def _tool(function: Callable[..., str], **metadata: bool) -> Tool[Any]:
    @wraps(function)
    def told(*args: Any, **kwargs: Any) -> str:
        try:
            return function(*args, **kwargs)
        except Refused as exc:
            raise ToolFailed(str(exc)) from exc

    return Tool[Any](told, takes_ctx=False, metadata=metadata)
