"""Which dispatcher an engine works with."""

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from mcp_subagents.agents import Roster
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.dispatch import Dispatcher
from mcp_subagents.dispatch.local import LocalDispatcher
from mcp_subagents.dispatch.trees import TreeDispatcher
from mcp_subagents.store import Store

Now = Callable[[], datetime]
MakeDispatcher = Callable[[Store, Roster, EngineSettings, Now], Dispatcher]
_Kind = TypeVar("_Kind", bound=LocalDispatcher)


def in_this_process(store: Store, roster: Roster, settings: EngineSettings, now: Now) -> Dispatcher:
    """The dispatcher that runs tasks right here."""
    return _made(LocalDispatcher, store, roster, settings, now)


def only_what_is_adopted(store: Store, roster: Roster, settings: EngineSettings, now: Now) -> TreeDispatcher:
    """The dispatcher that runs, right here, the tasks it is told to."""
    return _made(TreeDispatcher, store, roster, settings, now)


def _made(kind: type[_Kind], store: Store, roster: Roster, settings: EngineSettings, now: Now) -> _Kind:
    return kind(
        store,
        max_concurrency=settings.max_concurrency,
        per_subagent={name: most for name, config in roster.configs.items() if (most := config.get("max_concurrency"))},
        resident=roster.resident,
        now=now,
    )
