"""One task for somebody who waits for it: an engine that works on it, and on nothing else in the store."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcp_subagents.agents import Roster
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.delegation import Submission
from mcp_subagents.dispatch.trees import TreeDispatcher
from mcp_subagents.dispatching import only_what_is_adopted
from mcp_subagents.engine import Engine, run_engine
from mcp_subagents.store import Store
from mcp_subagents.types import TaskHandle, utc_now


class Errands:
    """Tasks that this process takes on, and runs itself or leaves to others. Opened by `run_errands`."""

    def __init__(self, engine: Engine, dispatcher: TreeDispatcher) -> None:
        self.engine = engine
        self._dispatcher = dispatcher

    async def run(self, wanted: Submission) -> TaskHandle:
        """Take on a task and work on it here, unless another process is faster. Raises: as `Engine.submit`."""
        task = await self.engine.submit(wanted)
        self._dispatcher.adopt(task.task_id)
        return task

    async def leave(self, wanted: Submission) -> TaskHandle:
        """Take on a task for another process to run. Raises: as `Engine.submit`."""
        return await self.engine.submit(wanted)


@asynccontextmanager
async def run_errands(store: Store, roster: Roster, settings: EngineSettings | None = None) -> AsyncGenerator[Errands]:
    """Take tasks on for as long as the block lasts. What has not ended then is any other engine's to go on with."""
    settings = settings or EngineSettings()
    dispatcher = only_what_is_adopted(store, roster, settings, utc_now)

    def dispatch(*_: object) -> TreeDispatcher:
        return dispatcher

    async with run_engine(store, roster, settings, dispatch=dispatch) as engine:
        yield Errands(engine, dispatcher)
