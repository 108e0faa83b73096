"""What is configured: the file, the environment, and agent files of other apps."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mcp_subagents.config.environment import usual_places
from mcp_subagents.doctor.circumstances import Circumstances
from mcp_subagents.doctor.findings import Finding, fine, problem, warning

_REMEDIES: Sequence[tuple[str, str]] = (
    (
        r"needs the environment variable (?P<name>\w+)",
        "export {name}=... where you start mcp-subagents, or put {name} under `env` in your app's entry for it.",
    ),
    (r"^(?P<name>MCP_SUBAGENTS_\w+): ", "Give {name} another value, or do without it: unset {name}"),
    (r"^(?P<name>--\w+): ", "Give {name} another value, or leave it out."),
    (r"there is no such file$", "Name a file that is there, with --config or MCP_SUBAGENTS_CONFIG; or neither."),
    (r"FileNotFoundError", "Go to a folder that is there, and look again: mcp-subagents doctor"),
    (r"`allow_python_tools: true`", "Write `allow_python_tools: true` into the file, if you trust that code."),
)
"""What to do about a line that tells of a mistake; the first that fits."""
_OTHERWISE = "Mend it in that file, and look again: mcp-subagents doctor"


def remedy_for(mistake: str) -> str:
    """What to do about a mistake; what would be right is told by the mistake itself."""
    for pattern, remedy in _REMEDIES:
        if found := re.search(pattern, mistake):
            return remedy.format(**found.groupdict())
    return _OTHERWISE


async def configuration(there: Circumstances) -> Iterable[Finding]:
    """Everything that is wrong with the configuration, and what else there is to say of it."""
    found = [problem("config", line, remedy_for(line)) for line in there.mistakes]
    found += [
        warning("config", line, "Name a variable in its place, and export that where you start mcp-subagents.")
        for line in there.remarks
    ]
    if there.config is None:
        found.append(
            warning(
                "config",
                "Subagents, models, tools and the start of the server were not looked at: the configuration says "
                "what they are.",
                "Mend the configuration first, then run this again.",
            )
        )
    elif not there.mistakes:
        found.append(fine("config", _told(there.config.file, [each.get("name", "") for each in there.subagents])))
    return found


def _told(file: Path | None, names: Sequence[str]) -> str:
    who = f"{len(names)} subagent{'' if len(names) == 1 else 's'}: {', '.join(names)}"
    if file is None:
        places = " or ".join(str(place) for place in usual_places())
        return f"No file ({places}); {who}."
    return f"{file}; {who}."


async def agent_files(there: Circumstances) -> Iterable[Finding]:
    """What became of the agent files that were asked for."""
    if there.config is None or not there.config.agent_folders:
        return ()
    found = list(_told_of(there))
    used = sum(file.spec is not None for file in there.config.agent_files)
    if used or not found:
        found.append(fine("agents", f"{used} of {len(there.config.agent_files)} agent files used."))
    return found


def _told_of(there: Circumstances) -> Iterator[Finding]:
    assert there.config is not None, "asked only of one that was read"
    for file in there.config.agent_files:
        for each in file.wrong:
            yield problem("agents", each.told_of(file.path), remedy_for(each.what))
        for each in file.notes:
            yield warning(
                "agents",
                f"{each.told_of(file.path)} (not honoured)",
                "Take it out of the file, or leave it there: nothing else depends on it.",
            )
        if file.left_out:
            yield warning("agents", f"{file.path}: left out: {file.left_out}", "Rename one of the two, or delete it.")
