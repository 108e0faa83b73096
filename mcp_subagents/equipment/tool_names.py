"""What the tools of a tool server are called: a rule."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping

LONGEST_NAME = 64
"""What the strictest provider takes."""


def tool_name(server: str, tool: str) -> str:
    """`server__tool`, in characters and of a length that every provider takes."""
    name = _plain(server, tool)
    return name if len(name) <= LONGEST_NAME else _marked(name, name)


def tool_names(server: str, tools: Iterable[str]) -> Mapping[str, str]:
    """Each tool's own name by the name that a subagent knows it by: no two get the same.

    Of tools whose names differ only in characters that providers do not take, one that has none of them keeps its name,
    and the others get a mark, which is the same in every process and whatever the server lists them by.
    """
    own = list(dict.fromkeys(tools))
    wanted = Counter(tool_name(server, each) for each in own)
    named: dict[str, str] = {}
    for each in own:
        name, whole = tool_name(server, each), f"{server}__{each}"
        named[name if wanted[name] == 1 or name == whole else _marked(name, whole)] = each
    return named


def _plain(server: str, tool: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}__{tool}")


def _marked(name: str, whole: str) -> str:
    return f"{name[: LONGEST_NAME - 9]}_{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
