"""Files whose text joins a subagent's instructions."""

import os
from collections.abc import Sequence

from mcp_subagents.config.places import Inside, file_at
from mcp_subagents.equipment.folders import Folder, Refused
from mcp_subagents.errors import ConfigError
from mcp_subagents.texts import encodable

MOST_OF_ONE = 30 * 1024
MOST_IN_ALL = 100 * 1024
"""Bytes."""


def context_of(paths: Sequence[str]) -> str:
    """The texts of these files as they are now, each with its name; what is missing or cut is said."""
    left, parts = MOST_IN_ALL, list[str]()
    for path in paths:
        name = file_at(path).below
        try:
            data, size = _read(path, min(MOST_OF_ONE, left))
        except Refused as exc:
            parts.append(f"[The context file {name!r} cannot be read: {exc}]")
            continue
        left -= len(data)
        text = encodable(data.decode("utf-8", "ignore"))
        cut = f"\n[Cut: {len(data)} of {size} bytes.]" if len(data) < size else ""
        parts.append(f'<context_file name="{name}">\n{text}{cut}\n</context_file>')
    return "\n\n".join(parts)


def require_context(subagent: str, paths: Sequence[str]) -> None:
    """Every file is there and can be read. Raises: `ConfigError`."""
    for path in paths:
        try:
            _read(path, 1)
        except Refused as exc:
            place = file_at(path)
            raise ConfigError(f"A context file of the subagent {subagent!r}, in {place.folder}: {exc}") from exc


def _read(path: str, most: int) -> tuple[bytes, int]:
    """The beginning of a file, and its size."""
    place = file_at(path)
    with Folder(Inside(place.folder)).spot(place.below) as spot, os.fdopen(spot.read(), "rb") as file:
        data, size = file.read(most), os.fstat(file.fileno()).st_size
        if b"\0" in data:
            raise Refused(f"{place.below!r} is a binary file.")
        return data, max(size, len(data))
