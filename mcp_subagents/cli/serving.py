"""`mcp-subagents serve`: from arguments to a server that runs until it is told to stop."""

import argparse
import logging
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from mcp_subagents.cli.arguments import DEFAULT_HOST, DEFAULT_PORT, LISTENERS
from mcp_subagents.cli.exporting import exporting
from mcp_subagents.config.admission import Admission
from mcp_subagents.config.environment import ServerConfig, examine
from mcp_subagents.config.live import LiveRoster
from mcp_subagents.config.providers import why_no_model
from mcp_subagents.delegation import GENERAL_PURPOSE
from mcp_subagents.equipment.loading import Loader
from mcp_subagents.errors import ConfigError
from mcp_subagents.redact import redact
from mcp_subagents.stopping import IN_TIME, leave, until_stopped

if TYPE_CHECKING:
    from mcp_subagents.config.agent_files import AgentFile

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listening:
    """How the server is reached."""

    transport: str
    host: str
    port: int
    admission: Admission


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that is needed to serve."""

    server: Any
    listening: "Listening"
    roster: LiveRoster
    exports_traces: bool


def prepare(arguments: argparse.Namespace, env: Mapping[str, str]) -> Prepared:
    """The server that `arguments` and `env` describe, and a log for it.

    Raises:
        ConfigError: the configuration is broken.
    """
    _log_to_stderr(arguments.log_level)
    read = partial(examine, arguments.config, env, store=arguments.store, agents=arguments.agents)
    loader = Loader(read=read, env=env, otherwise=GENERAL_PURPOSE)
    loaded = loader.load()
    config = loaded.config
    listening = _listening(arguments, config)
    # After the configuration, whose mistakes are told the sooner.
    from mcp_subagents.server import DeliverySettings, create_server

    roster = LiveRoster(loaded, loader.again)
    server = create_server(
        roster,
        default_model=config.model,
        store=config.store,
        settings=config.settings,
        delivery=DeliverySettings(sync_patience=config.sync_patience),
        mcp_servers=config.mcp_servers,
        allow_python_tools=config.allow_python_tools,
        folder=config.folder,
    )
    tell_of(config.agent_files)
    for line in config.remarks:
        logger.warning("%s", line)
    if config.lacks_model:
        logger.warning("%s", why_no_model(env))
    return Prepared(server, listening, roster, config.exports_traces)


def _listening(arguments: argparse.Namespace, config: ServerConfig) -> "Listening":
    """Where to serve. Raises: `ConfigError` for an address that nobody would listen on."""
    transport = arguments.transport or config.transport or "stdio"
    if transport == "stdio" and (arguments.host is not None or arguments.port is not None):
        raise ConfigError(LISTENERS)
    host = next(each for each in (arguments.host, config.host, DEFAULT_HOST) if each is not None)
    port = next(each for each in (arguments.port, config.port, DEFAULT_PORT) if each is not None)
    return Listening(transport, host, port, config.admission)


def tell_of(files: "Sequence[AgentFile]") -> None:
    """Log what became of agent files: what cannot be used loudly, what is not honoured for those who look."""
    for file in files:
        for line in file.told():
            logger.log(logging.WARNING if file.wrong else logging.INFO, "%s", line)


def run(prepared: Prepared) -> None:
    """Serve until told to stop, then leave the process.

    Raises:
        SubagentsError: it cannot be served there, or the store cannot be used; maybe in an exception group.
    """
    with exporting(prepared.exports_traces):
        anyio.run(_serve, prepared.server, prepared.listening, prepared.roster)
    leave(0)


async def _serve(server: Any, where: Listening, roster: LiveRoster) -> None:
    async with until_stopped(within=IN_TIME) as told, reloading(roster):
        if where.transport == "stdio":
            from mcp_subagents.server.stdio import serve_stdio

            await serve_stdio(server, at_end=told)
        else:
            from mcp_subagents.server.network import serve_network

            sse = where.transport == "sse"
            await serve_network(server, host=where.host, port=where.port, sse=sse, admission=where.admission)


@asynccontextmanager
async def reloading(roster: LiveRoster) -> AsyncGenerator[None]:
    """Follow the files at once when SIGHUP says so, for as long as the block lasts."""
    if not hasattr(signal, "SIGHUP"):
        yield
        return
    async with anyio.create_task_group() as group:

        async def heed() -> None:
            with anyio.open_signal_receiver(signal.SIGHUP) as signals:
                async for _ in signals:
                    await roster.refresh(at_once=True)

        group.start_soon(heed, name="SIGHUP")
        yield
        group.cancel_scope.cancel()


def _log_to_stderr(level: str) -> None:
    """Log in our own words, before the SDK's server sets up a log of its own, in colours and over many lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("mcp-subagents: %(levelname)s: %(message)s [%(name)s]"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level == "warning":
        # It warns of every client whose stream is gone before its last answer, as always when we stop.
        logging.getLogger("mcp.shared.jsonrpc_dispatcher").setLevel(logging.ERROR)


class _OneLine(logging.Formatter):
    """One line for a message, whatever is in it, and no secrets; a traceback of ours keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return redact(super().formatMessage(record)).replace("\n", "\\n")

    def formatException(self, ei: Any) -> str:
        return redact(super().formatException(ei))
