"""How soon a host hears from us: the first response on stdio, beside that of a bare `MCPServer`.

    python benchmarks/first_response.py

Processes are started in turns, so that whatever else the machine does is shared; the quickest of each kind counts.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "15"))

BARE = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("bare", log_level="WARNING")


@server.tool()
async def echo(text: str) -> str:
    return text


server.run()
"""

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
FIRST: Mapping[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
    "server/discover": {"_meta": ENVELOPE},
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder, "bare.py")
        bare.write_text(BARE, encoding="utf-8")
        commands = {
            "bare MCPServer": [str(bare)],
            "mcp-subagents": ["-m", "mcp_subagents", "--store", f"sqlite:///{folder}/tasks.db"],
        }
        for method, params in FIRST.items():
            taken: dict[str, list[float]] = {name: [] for name in commands}
            for _ in range(ROUNDS + 1):
                for name, command in commands.items():
                    taken[name].append(seconds_to_answer(command, method, params, folder))
            report(method, {name: each[1:] for name, each in taken.items()})


def seconds_to_answer(command: Sequence[str], method: str, params: dict[str, Any], folder: str) -> float:
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=os.environ | {"HOME": folder},
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(request)
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        taken = time.perf_counter() - start
        process.kill()
    assert "result" in answer, answer
    return taken


def report(method: str, taken: Mapping[str, Sequence[float]]) -> None:
    print(f"first response to {method}, {ROUNDS} starts each")
    least = {name: min(each) for name, each in taken.items()}
    for name, each in taken.items():
        print(f"  {name:15} {least[name] * 1000:5.0f} ms at best, {median(each) * 1000:5.0f} ms in the middle")
    print(f"  {least['mcp-subagents'] / least['bare MCPServer']:.2f} x bare at best (at most 1.15)")


if __name__ == "__main__":
    main()
