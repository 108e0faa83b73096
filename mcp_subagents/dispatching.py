"""Which dispatcher an engine works with."""

from collections.abc import Callable
from datetime import datetime

from mcp_subagents.agents import Roster
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.dispatch import Dispatcher
from mcp_subagents.dispatch.local import LocalDispatcher
from mcp_subagents.store import Store

Now = Callable[[], datetime]
MakeDispatcher = Callable[[Store, Roster, EngineSettings, Now], Dispatcher]


def in_this_process(store: Store, roster: Roster, settings: EngineSettings, now: Now) -> Dispatcher:
    """The dispatcher that runs tasks right here."""
    return LocalDispatcher(
        store,
        max_concurrency=settings.max_concurrency,
        per_subagent={name: most for name, config in roster.configs.items() if (most := config.get("max_concurrency"))},
        resident=roster.resident,
        now=now,
    )
