"""What a file says under `x-mcp-subagents`: any key of a subagent, except what would give it more than it may have."""

from collections.abc import Mapping
from typing import Any, cast

from mcp_subagents.config.agent_files.dialects import EXTRAS
from mcp_subagents.config.agent_files.drafts import Draft
from mcp_subagents.config.agent_files.readers import servers
from mcp_subagents.config.limits import Limits
from mcp_subagents.config.mistakes import unknown_keys
from mcp_subagents.config.places import anchored, beside, confined, within
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.errors import ConfigError

HARMLESS = frozenset({"WebSearch", "WebFetch", "Thinking"})
"""Capabilities that any file may ask for; others may start programs or reach other services."""

_OPERATORS = "only subagents.yaml can say that"


def take_extras(draft: Draft, value: Any) -> None:
    """Add to `draft` what is under our own key; it wins over what the app's keys say."""
    given = draft.mapping(EXTRAS, value)
    for place, what in unknown_keys(cast("Mapping[object, object]", given), SubAgentSpec):
        draft.wrong.append(((EXTRAS, *place), what))
    for key, each in given.items():
        if key in SubAgentSpec.model_fields:
            _TAKES.get(key, _take)(draft, key, each)


def _take(draft: Draft, key: str, value: Any) -> None:
    draft.values[key] = value


def _never(draft: Draft, key: str, _value: Any) -> None:
    draft.notes.append(((EXTRAS, key), _OPERATORS))


def _if_trusted(draft: Draft, key: str, value: Any) -> None:
    if draft.ground.is_trusted:
        _take(draft, key, value)
    else:
        draft.notes.append(((EXTRAS, key), f"a project cannot choose where requests and keys go; {_OPERATORS}"))


def _servers(draft: Draft, key: str, value: Any) -> None:
    servers(draft, (EXTRAS, key), value)


def _capabilities(draft: Draft, key: str, value: Any) -> None:
    if not isinstance(value, list):
        _take(draft, key, value)  # a mistake, told with the rest
        return
    kept: list[Any] = list(draft.values.get(key, ()))
    for each in cast("list[Any]", value):
        name: object = next(iter(cast("dict[object, object]", each)), None) if isinstance(each, dict) else each
        if draft.ground.is_trusted or name in HARMLESS or not isinstance(name, str):
            kept.append(each)
        else:
            draft.notes.append(((EXTRAS, key), f"{name}: {_OPERATORS}"))
    draft.values[key] = kept


def _workspace(draft: Draft, key: str, value: Any) -> None:
    given: Mapping[str, Any] = {"path": value} if isinstance(value, str) else draft.mapping((EXTRAS, key), value)
    path = given.get("path")
    if not isinstance(path, str):
        draft.values[key] = value
        return
    if given.get("read_only") is False:
        draft.notes.append(((EXTRAS, key), f"files are only read; {_OPERATORS}"))
    project = draft.ground.project
    inside = within(path, project)
    if inside is None and not draft.ground.is_trusted:
        draft.notes.append(((EXTRAS, key), f"{path!r} is not in the project; {_OPERATORS}"))
        return
    if not beside(project, path).is_dir():
        draft.wrong.append(((EXTRAS, key), f"there is no folder {path!r}"))
    draft.values[key] = {**given, "path": str(inside or anchored(path, project)), "read_only": True}


def _context_files(draft: Draft, key: str, value: Any) -> None:
    project, kept = draft.ground.project, list[str]()
    for each in draft.names((EXTRAS, key), value):
        inside = within(each, project)
        if inside is None and not draft.ground.is_trusted:
            draft.notes.append(((EXTRAS, key), f"{each!r} is not in the project; {_OPERATORS}"))
            continue
        kept.append(str(inside or confined(each, project)))
        if not beside(project, each).is_file():
            draft.wrong.append(((EXTRAS, key), f"there is no file {each!r}"))
    draft.values[key] = kept


def _limits(draft: Draft, key: str, value: Any) -> None:
    for name, amount in draft.mapping((EXTRAS, key), value).items():
        place = (EXTRAS, key, name)
        try:
            Limits.of({name: amount})
        except ConfigError as wrong:
            draft.wrong.append((place, str(wrong).removeprefix("limits: ").removeprefix(f"{name} ")))
            continue
        if amount is None and not draft.ground.is_trusted:
            draft.notes.append((place, f"a project cannot lift a limit; {_OPERATORS}"))
        elif amount is None:
            draft.values.setdefault(key, {})[name] = None
        else:
            draft.limit(place, name, amount)


_TAKES = {
    "python_tools": _never,
    "base_url": _if_trusted,
    "api_key_env": _if_trusted,
    "mcp_servers": _servers,
    "capabilities": _capabilities,
    "workspace": _workspace,
    "context_files": _context_files,
    "limits": _limits,
}
"""The keys that could give a subagent more than it may have."""
