"""The server that the conformance suite is run against: ours, with the fixtures that the suite asks for."""

import sys
from pathlib import Path

import anyio
from asking_fixtures import add_asking
from plain_fixtures import add_callbacks, add_content, add_readings
from task_fixtures import add_jobs, subagents

from mcp_subagents import create_server
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.server.network import serve_network
from mcp_subagents.stopping import leave, until_stopped


async def main(store: Path) -> None:
    server = create_server(subagents(), store=store, settings=EngineSettings(max_concurrency=64))
    for add in (add_content, add_callbacks, add_readings, add_asking, add_jobs):
        add(server)
    async with until_stopped():
        await serve_network(server, host="127.0.0.1", port=0, sse=False)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
    leave(0)
