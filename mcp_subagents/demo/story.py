"""The story from its first line to its last: the scenes in order, what they cost, and what was proved."""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from genai_prices import Usage, calc_price

from mcp_subagents.config.providers import PROVIDERS
from mcp_subagents.demo.ledger import count, paid_twice
from mcp_subagents.demo.narration import Narrator
from mcp_subagents.demo.promises import BrokenPromise, Proof, require
from mcp_subagents.demo.scenes import (
    Scene,
    a_failing_gateway,
    a_question,
    a_soft_cancel,
    begin_a_plan,
    finish_the_plan,
    steering,
    three_at_once,
)
from mcp_subagents.demo.stage import SERVE, Stage
from mcp_subagents.demo.witness import open_witness

LONGEST = 120.0
"""Seconds after which something is wrong."""

_OPENING = (
    "The model in here is a script: no key, no network, nothing to pay. All else is real: a server process that "
    "is spoken to over stdio, its SQLite file, and a gateway on this machine that counts what the model is asked."
)
_ENDING = (
    "The answers were scripted; the server, the file, the failures, the kill and the counts were real. "
    "The model is there for you, too: MCP_SUBAGENTS_MODEL=demo."
)
_NEXT = (
    ("install", "adds it to your MCP apps"),
    ("doctor", "says what is missing, such as a key"),
)


async def tell(narrator: Narrator, env: Mapping[str, str], *, serve: Sequence[str] = SERVE) -> bool:
    """Tell the story, with servers started by `serve`. Whether every promise in it was kept."""
    with tempfile.TemporaryDirectory(prefix="mcp-subagents-demo-", ignore_cleanup_errors=True) as folder:
        log = Path(folder, "server.log")
        broken: list[BrokenPromise] = []
        try:
            with anyio.fail_after(LONGEST):
                await _play(narrator, env, Path(folder), serve)
        except* BrokenPromise as group:
            broken += _flat(group)
        except* TimeoutError:
            broken.append(BrokenPromise("all this takes less than a minute", f"it took more than {LONGEST:.0f} s"))
        for each in broken:
            await narrator.broken(each.promised, each.found)
        if broken:
            await _confess(narrator, log)
        return not broken


async def _play(narrator: Narrator, env: Mapping[str, str], folder: Path, serve: Sequence[str]) -> None:
    await narrator.title("mcp-subagents demo")
    await narrator.text(_OPENING)
    async with open_witness() as witness:
        stage = Stage(folder=folder, witness=witness, narrator=narrator, env=env, serve=serve)
        stage.furnish()
        proofs: list[Proof] = []
        first: Sequence[Scene] = (three_at_once, a_question, steering, a_failing_gateway)
        async with stage.open_server():
            for scene in first:
                proofs.append(await scene(stage))
            kill = await begin_a_plan(stage)
        async with stage.open_server():
            proofs.append(await finish_the_plan(stage, kill))
            proofs.append(await a_soft_cancel(stage))
            proofs.append(await _costs(stage))
    await narrator.heading("What you saw")
    await narrator.proofs(proofs)
    await narrator.heading("What is next")
    await narrator.commands([(f"{_command(env)} {action}", purpose) for action, purpose in _NEXT])
    await narrator.heading("Was this real?")
    await narrator.text(_ENDING)


def _command(env: Mapping[str, str]) -> str:
    """What a person has to type here to call us."""
    name = "mcp-subagents"
    if shutil.which(name, path=env.get("PATH")):
        return name
    script = Path(sys.executable).with_name(name)
    return os.path.relpath(script) if script.exists() else f"{sys.executable} -m mcp_subagents"


async def _costs(stage: Stage) -> Proof:
    """What all tasks together have used, by their own account and by that of the gateway."""
    narrator, ledger = stage.narrator, stage.witness.ledger
    await narrator.heading("What it cost")
    tasks = [await stage.server.call("check_task", task_id=task_id) for task_id in stage.tasks.values()]
    rows = [
        [
            task["description"],
            task["status"],
            str(task["usage"]["requests"]),
            str(task["retry_count"]),
            str(_tokens(task)),
            f"${task['usage']['cost_usd']:.2f}",
        ]
        for task in tasks
    ]
    answered, refused, cut_off = (count(ledger, outcome) for outcome in ("answered", "refused", "cut off"))
    used = sum(task["usage"]["requests"] for task in tasks)
    require("tasks count the same answered requests as the gateway", used, answered)
    refusals = {"of": len(ledger) - answered, "refused": refused, "cut off": cut_off}
    require("all else was refused, or cut off by the kill", refusals, {"of": 3, "refused": 2, "cut off": 1})
    require("no finished turn is paid twice", paid_twice(ledger), [])
    await narrator.table(["task", "status", "requests", "retries", "tokens", "cost"], rows)
    await narrator.note(_price(tasks))
    return Proof(
        "costs",
        f"the gateway counted {len(ledger)} requests: {answered} answered, {refused} refused, {cut_off} cut off by "
        "the kill. No finished turn was paid twice",
    )


def _tokens(task: Mapping[str, Any]) -> int:
    return task["usage"]["input_tokens"] + task["usage"]["output_tokens"]


def _price(tasks: Sequence[Mapping[str, Any]]) -> str:
    """What these tokens would cost elsewhere, if that is known."""
    provider, _, model = PROVIDERS[0].model.partition(":")
    used = Usage(
        input_tokens=sum(task["usage"]["input_tokens"] for task in tasks),
        output_tokens=sum(task["usage"]["output_tokens"] for task in tasks),
    )
    try:
        price = calc_price(used, model, provider_id=provider).total_price
    except LookupError:
        return "A script is free."
    return f"A script is free. With {provider}:{model}: about ${price:.4f}."


async def _confess(narrator: Narrator, log: Path) -> None:
    """Say what to do about a broken promise."""
    if said := _last_lines(log):
        await narrator.heading("The server said")
        for line in said:
            await narrator.note(line)
    await narrator.heading("The demo has failed. That is a mistake of ours: please report it, with the lines above.")


def _last_lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:] if log.exists() else []


def _flat(group: BaseExceptionGroup[BrokenPromise]) -> list[BrokenPromise]:
    found: list[BrokenPromise] = []
    for each in group.exceptions:
        found += _flat(each) if isinstance(each, BaseExceptionGroup) else [each]
    return found
