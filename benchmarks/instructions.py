"""What the engine costs in instructions: the same at every run, whatever else the machine is doing.

python benchmarks/instructions.py

It takes valgrind and some minutes. Only instructions of the program count, not those of the kernel.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
from engine_overhead import open_engine, run_bare, run_on, searcher, subagent

ROUNDS = (1, 4)
"""What the longer run takes more than the shorter one is the work itself, without what comes before it."""
TASKS = 24


async def work(which: str, rounds: int) -> None:
    """Run so many rounds of tasks, with or without an engine."""
    agent = searcher()
    with tempfile.TemporaryDirectory() as folder:
        async with open_engine(Path(folder), subagent("ours")) as engine:
            for _ in range(rounds):
                await (run_bare(agent, TASKS) if which == "bare" else run_on(engine, "ours", TASKS))


def counted(which: str, rounds: int) -> int:
    """The instructions of such a run in a process of its own."""
    options = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command = ["valgrind", *options, sys.executable, __file__, which, str(rounds)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    found = re.search(r"I\s+refs:\s+([\d,]+)", ran.stderr)
    assert found is not None, ran.stderr
    return int(found[1].replace(",", ""))


def per_task(which: str) -> float:
    few, many = (counted(which, rounds) for rounds in ROUNDS)
    return (many - few) / ((ROUNDS[1] - ROUNDS[0]) * TASKS)


def main() -> None:
    if sys.argv[1:]:
        anyio.run(work, sys.argv[1], int(sys.argv[2]))
        return
    bare, ours = per_task("bare"), per_task("ours")
    sys.stdout.write(f"instructions of a 3-turn task, bare agent.run    {bare / 1e6:.1f} million\n")
    sys.stdout.write(f"instructions of a 3-turn task, engine on SQLite  {ours / 1e6:.1f} million\n")
    sys.stdout.write(f"ratio                                            {ours / bare:.2f}\n")


if __name__ == "__main__":
    main()
