"""Models behind a gateway, or on your machine: `litellm.yaml` and `ollama.yaml`, run as they are.

Each file is served by the real command, and asked for one task over standard input and output. Only the address in it
is changed: a gateway on loopback stands where the proxy, or Ollama, would be, and shows what it was asked. It needs no
network and no key, only the extra `openai`.

Run it: python examples/gateways.py

Prints:

    litellm.yaml: writer completed: A draft.
      asked for team/cheap at /v1/chat/completions, with the key in LITELLM_KEY: yes
      answered 503, so asked for team/solid at /v1/chat/completions, with the key in LITELLM_KEY: yes
    ollama.yaml: summarizer completed: Three sentences.
      asked for qwen3:8b at /v1/chat/completions, with the key in LITELLM_KEY: no
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from mcp_subagents.testing import Gateway, Reply, Status, Text

HERE = Path(__file__).parent
KEY = "-".join(["a", "scripted", "key"])


async def run(file: str, address: str, subagent: str, *script: Reply) -> None:
    """Serve `file`, with a gateway at its `address`, and have `subagent` do one task."""
    with TemporaryDirectory() as folder:
        async with Gateway(script) as gateway:
            config = Path(folder) / file
            text = (HERE / file).read_text(encoding="utf-8")
            assert address in text
            config.write_text(text.replace(address, gateway.url), encoding="utf-8")
            server = StdioServerParameters(
                command=sys.executable,
                args=["-m", "mcp_subagents", "--config", str(config), "--store", f"sqlite:///{folder}/tasks.db"],
                env={**os.environ, "LITELLM_KEY": KEY},
            )
            async with Client(server) as host:
                called = await host.call_tool("task", {"description": "Do it.", "subagent_type": subagent})
    task: dict[str, Any] = called.structured_content or {}
    print(f"{file}: {subagent} {task['status']}: {task['result']}")
    for number, each in enumerate(gateway.requests):
        why = "answered 503, so asked" if number else "asked"
        given = "yes" if KEY in each.headers.get("authorization", "") else "no"
        print(f"  {why} for {each.body['model']} at {each.path}, with the key in LITELLM_KEY: {given}")


async def main() -> None:
    await run("litellm.yaml", "http://localhost:4000", "writer", Status(503), Text("A draft."))
    await run("ollama.yaml", "http://localhost:11434", "summarizer", Text("Three sentences."))


if __name__ == "__main__":
    anyio.run(main)
