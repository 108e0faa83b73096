"""Delegation over MCP: tools, resources and notices on top of one engine."""

import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.request_state import RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus

from mcp_subagents.config.environment import patience_in
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.config.live import LiveRoster
from mcp_subagents.config.roster import by_name, without_model
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.config.stores import SQLITE, located
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.delegation import GENERAL_PURPOSE
from mcp_subagents.equipment.soundness import require_sound
from mcp_subagents.server.calls import DeliverySettings
from mcp_subagents.server.cancels import Cancels
from mcp_subagents.server.desk import Desk
from mcp_subagents.server.foreground import TaskForeground, WaitForeground
from mcp_subagents.server.guidance import add_prompts, get_server_instructions
from mcp_subagents.server.mime import ResultTypes
from mcp_subagents.server.mistakes import tell_mistakes
from mcp_subagents.server.native import NativeTasks
from mcp_subagents.server.notices import Notices
from mcp_subagents.server.reloading import Reloading
from mcp_subagents.server.resources import add_resources
from mcp_subagents.server.room import EngineRoom
from mcp_subagents.server.toolbox import tools_of
from mcp_subagents.server.tools import Tools
from mcp_subagents.store import Store

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from mcp_subagents.engine import Engine

__all__ = ["DeliverySettings", "create_server"]

_LONGEST_FORM = 24 * 3600.0
"""Seconds that a user may take to fill in a form."""


def create_server(
    subagents: Iterable[SubAgentConfig | SubAgentSpec] | LiveRoster = (),
    *,
    default_model: "str | Model | None" = None,
    store: Store | str | Path | None = None,
    settings: EngineSettings | None = None,
    delivery: DeliverySettings | None = None,
    mcp_servers: Mapping[str, Mapping[str, Any]] | None = None,
    allow_python_tools: bool = False,
    folder: Path | None = None,
) -> "MCPServer[Any]":
    """A server through which any MCP app can delegate work to `subagents`.

    It can be run (`server.run()`), mounted as an ASGI app, or used in memory; all its connections share one engine.
    Without subagents it has one, `general-purpose`, on `default_model`. Tasks are kept in `store`: an open store, or
    the path of a SQLite file; without it, a file in the user's data directory.

    Subagents can name the MCP servers in `mcp_servers`, the hosts' own format, as their tools. `allow_python_tools`
    lets their definitions name Python code to run. Relative paths in them are relative to `folder`, or else to where
    the process is now.

    Raises:
        ConfigError: a definition or a setting is wrong.
    """
    configs = subagents if isinstance(subagents, LiveRoster) else _by_name(subagents)
    folder = (folder or Path.cwd()).absolute()
    if not isinstance(configs, LiveRoster):  # which has been judged, file by file
        require_sound(configs.values(), mcp_servers=mcp_servers, allow_python_tools=allow_python_tools, base=folder)

    @asynccontextmanager
    async def open_engine(opened: Store) -> "AsyncGenerator[Engine]":
        from mcp_subagents.agents import Roster  # not before it is needed: it loads pydantic-ai
        from mcp_subagents.engine import run_engine
        from mcp_subagents.equipment.kits import Equipment

        equipment = Equipment(mcp_servers=mcp_servers, allow_python_tools=allow_python_tools, base=folder)
        roster = Roster(configs, default_model=default_model, equipment=equipment)
        telling = nullcontext() if reloading is None else reloading.telling()
        async with run_engine(opened, roster, settings) as engine, notices.told_of(engine), telling:
            yield engine

    kept = store if not isinstance(store, str) else _path(store)
    room = EngineRoom(lambda: _opened(kept), open_engine)
    desk = Desk(room, delivery or DeliverySettings(sync_patience=patience_in(os.environ)))
    cancels = Cancels(room)
    tools = Tools(configs, cancels)
    settings = settings or EngineSettings()
    foreground = {"task": TaskForeground(desk, tools), "wait_tasks": WaitForeground(desk)}
    native = NativeTasks(desk, foreground, retention=settings.retention)
    bus = InMemorySubscriptionBus()
    notices = Notices(room, native, bus)
    reloading = Reloading(configs, bus) if isinstance(configs, LiveRoster) else None
    shown = tools_of(desk, tools, configs)

    def instructions() -> str:
        lack_model = default_model is None and bool(without_model(configs.values()))
        return get_server_instructions(list(configs.values()), lack_model=lack_model)

    @asynccontextmanager
    async def lifespan(_: "MCPServer[Any]") -> AsyncGenerator[None]:
        async with room.use():
            yield

    server = MCPServer(
        "mcp-subagents",
        title="Subagents",
        version=version("mcp-subagents"),
        instructions=instructions(),
        tools=shown,
        extensions=[native],
        subscriptions=bus,
        middleware=[cancels, tell_mistakes, *([reloading] if reloading else []), ResultTypes(room)],
        request_state_security=RequestStateSecurity.ephemeral(ttl=_LONGEST_FORM),
        lifespan=lifespan,
        log_level="WARNING",
    )
    notices.install(server)
    if reloading is not None:
        reloading.install(server, shown, lambda: tools_of(desk, tools, configs), instructions)
    add_resources(server, room, configs)
    add_prompts(server, configs)
    return server


def _by_name(subagents: Iterable[SubAgentConfig | SubAgentSpec]) -> Mapping[str, SubAgentConfig]:
    given = [each.to_config() if isinstance(each, SubAgentSpec) else each for each in subagents]
    return by_name(given or [GENERAL_PURPOSE])


def _opened(store: Store | Path | None) -> AbstractAsyncContextManager[Store]:
    if isinstance(store, Path | None):
        from mcp_subagents.store.sqlite import open_sqlite
        from mcp_subagents.store.sqlite_file import default_path

        return open_sqlite(store or default_path())
    return nullcontext(store)


def _path(store: str) -> Path:
    return Path(located(store).removeprefix(SQLITE))
