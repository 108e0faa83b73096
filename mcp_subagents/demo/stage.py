"""Where the story happens: a folder with a configuration and a store, a gateway, and servers one after the other."""

import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mcp_subagents.config.providers import DEMO
from mcp_subagents.demo.connection import Connection, connected
from mcp_subagents.demo.narration import Narrator
from mcp_subagents.demo.promises import BrokenPromise
from mcp_subagents.demo.script import FILES, SUBAGENTS
from mcp_subagents.demo.witness import Witness

SERVE = (sys.executable, "-m", "mcp_subagents", "serve")
"""How a server is started, but for where its things are."""


@dataclass(kw_only=True)
class Stage:
    """What the scenes share."""

    folder: Path
    witness: Witness
    narrator: Narrator
    env: Mapping[str, str]
    serve: Sequence[str] = SERVE
    tasks: dict[str, str] = field(default_factory=dict[str, str])
    """The ids of the tasks, by their descriptions."""
    _connection: Connection | None = None

    @property
    def server(self) -> Connection:
        """The server that is running."""
        assert self._connection is not None, "scenes are played while a server runs"
        return self._connection

    @asynccontextmanager
    async def open_server(self) -> AsyncGenerator[Connection]:
        """A server on the one store of the story, for as long as the block lasts."""
        command = [*self.serve, "--config", str(self.folder / "subagents.yaml")]
        command += ["--store", f"sqlite:///{self.folder / 'tasks.db'}"]
        # What the user has configured is none of this story's business.
        env = {name: value for name, value in self.env.items() if not name.startswith("MCP_SUBAGENTS_")}
        async with connected(command, env, self.log) as self._connection:
            yield self._connection

    @property
    def log(self) -> Path:
        """What the servers say on standard error."""
        return self.folder / "server.log"

    def furnish(self) -> None:
        """Write the workspace and the configuration."""
        workspace = self.folder / "notes"
        workspace.mkdir()
        for name, text in FILES.items():
            (workspace / name).write_text(text, encoding="utf-8")
        subagents = [
            {
                "name": name,
                "description": description,
                "model": DEMO,
                "base_url": self.witness.url,
                "retry_initial_delay": 0.3,
                "retry_jitter": False,
                "workspace": str(workspace),
            }
            for name, description in SUBAGENTS.items()
        ]
        text = yaml.safe_dump({"subagents": subagents})
        (self.folder / "subagents.yaml").write_text(text, encoding="utf-8")

    async def delegate(self, subagent: str, description: str) -> str:
        """The id of a task in the background."""
        task = await self.server.call("task", description=description, subagent_type=subagent, mode="async")
        await self.narrator.say("host", f"task {self.narrator.marks.arrow} {subagent}: {description}")
        self.tasks[description] = task["task_id"]
        return task["task_id"]

    async def waited(self, *task_ids: str) -> list[dict[str, Any]]:
        """The tasks, when all of them have ended or one of them asks."""
        while True:
            view = await self.server.call("wait_tasks", task_ids=list(task_ids), timeout=20)
            if not view["timed_out"]:
                return view["tasks"]

    async def ended(self, *task_ids: str, status: str = "completed") -> list[dict[str, Any]]:
        """The tasks, when all of them have ended like that. Raises: `BrokenPromise`."""
        tasks = await self.waited(*task_ids)
        for task in tasks:
            if task["status"] != status:
                why = task["failure"]["message"] if task["failure"] else "no failure"
                raise BrokenPromise(f"{task['description']!r} is {status} in the end", f"{task['status']}, {why}")
        return tasks
