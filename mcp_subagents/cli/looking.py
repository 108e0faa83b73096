"""The store that commands for people look into: found as a server finds it, and never made."""

import argparse
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from mcp_subagents.config.environment import ServerConfig, load
from mcp_subagents.config.stores import SQLITE
from mcp_subagents.errors import StoreError
from mcp_subagents.store.sqlite import SqliteStore, open_sqlite
from mcp_subagents.store.sqlite_file import default_path

_STORE = "MCP_SUBAGENTS_STORE"


def configured(arguments: argparse.Namespace, env: Mapping[str, str]) -> ServerConfig:
    """The configuration that says where the tasks are. One that says so itself needs no file. Raises: `ConfigError`."""
    if arguments.config is None and (arguments.store is not None or env.get(_STORE)):
        return load(None, {_STORE: env.get(_STORE, "")}, store=arguments.store, places=())
    return load(arguments.config, env, store=arguments.store)


def path_of(config: ServerConfig) -> Path:
    """The file that holds the tasks."""
    return Path(config.store.removeprefix(SQLITE)) if config.store else default_path()


@asynccontextmanager
async def open_existing(path: Path) -> AsyncGenerator[SqliteStore]:
    """The store at `path`, for as long as the block lasts. Raises: `StoreError`, also if there is none."""
    if not await anyio.Path(path).exists():
        raise StoreError(
            f"There are no tasks yet: there is no store at {path}. It is made with the first task, from an app or by "
            '`mcp-subagents run "..."`; if yours is elsewhere, name it with --store.'
        )
    async with open_sqlite(path) as store:
        yield store
