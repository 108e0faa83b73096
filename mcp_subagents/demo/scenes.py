"""The scenes of the story. Each looks at what has really happened, and returns a proof or raises `BrokenPromise`."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mcp_subagents.demo.ledger import Asked
from mcp_subagents.demo.promises import Proof, require
from mcp_subagents.demo.script import (
    ANNOUNCE,
    AUDIT,
    COMPARE,
    COMPLAINTS,
    FIXES,
    PLAN,
    REPORT,
    WISHES,
    finding_in,
)
from mcp_subagents.demo.stage import Stage


@dataclass(frozen=True, slots=True)
class Kill:
    """Which process was killed, and when."""

    pid: int
    at: float


Scene = Callable[[Stage], Awaitable[Proof]]


async def three_at_once(stage: Stage) -> Proof:
    """Three tasks run side by side."""
    narrator, witness = stage.narrator, stage.witness
    await narrator.scene("Three tasks at once")
    files = {COMPLAINTS: "complaints.md", WISHES: "wishes.md", FIXES: "fixes.md"}
    gates = [witness.hold(task, 1) for task in files]
    ids = [await stage.delegate("researcher", task) for task in files]
    for gate in gates:
        await gate.arrived.wait()
    at_once = witness.in_flight
    require("three tasks ask their model at the same time", at_once, 3)
    await narrator.say("gateway", "All three are here at once. Each reads a file, then answers:")
    for gate in gates:
        gate.opened.set()
    for task, file in zip(await stage.ended(*ids), files.values(), strict=True):
        require("a result has what the subagent has read", task["result"], f"{finding_in(file)}.")
        await narrator.say("subagent", task["result"])
    return Proof("parallel", f"{at_once} requests were at the gateway at the same moment")


async def a_question(stage: Stage) -> Proof:
    """A subagent asks, and goes on with the answer."""
    narrator = stage.narrator
    await narrator.scene("A question, and its answer")
    task_id = await stage.delegate("writer", ANNOUNCE)
    [task] = await stage.waited(task_id)
    require("a task that asks waits for its answer", task["status"], "waiting_for_answer")
    [question] = task["questions"]
    await narrator.say("subagent", f"asks: {question['question']}")
    answer = "Users, who are in a hurry."
    await stage.server.call("answer_subagent", task_id=task_id, answer=answer)
    await narrator.say("host", f"answer_subagent: {answer}")
    [task] = await stage.ended(task_id)
    require("the answer reaches the subagent", task["result"], f'Release 2 is out. (Written for: "{answer}")')
    await narrator.say("subagent", task["result"])
    return Proof("questions", "the task waited for its answer, and the answer is in its result")


async def steering(stage: Stage) -> Proof:
    """A message changes the course of a task that is at work."""
    narrator, witness = stage.narrator, stage.witness
    await narrator.scene("A word to a task at work")
    gate = witness.hold(REPORT, 1)
    task_id = await stage.delegate("researcher", REPORT)
    await gate.arrived.wait()
    message = "Complaints are enough."
    await stage.server.call("send_message_to_subagent", task_id=task_id, message=message)
    await narrator.say("host", f"send_message_to_subagent: {message}")
    gate.opened.set()
    [task] = await stage.ended(task_id)
    told = [asked.told for asked in witness.about(REPORT)]
    require("a message is in the next request to the model, once", told, [(), (message,)])
    require("the subagent has heard the message", message in task["result"], True)
    await narrator.say("subagent", task["result"])
    return Proof("steering", "the message was in the next request, and spared two turns")


async def a_failing_gateway(stage: Stage) -> Proof:
    """The gateway fails twice, and the task goes on from where it was."""
    narrator, witness = stage.narrator, stage.witness
    await narrator.scene("A gateway that fails twice")
    witness.refuse(COMPARE, 2, 503, 503)
    task_id = await stage.delegate("researcher", COMPARE)
    for failure in (1, 2):
        wanted = 1 + failure
        await witness.until(
            lambda wanted=wanted: sum(each.outcome != "open" for each in witness.about(COMPARE)) >= wanted
        )
        await narrator.say("gateway", f"turn 2: 503 Service Unavailable ({failure} of 2)")
    [task] = await stage.ended(task_id)
    asked = [(each.turn, each.outcome) for each in witness.about(COMPARE)]
    expected = [(1, "answered"), (2, "refused"), (2, "refused"), (2, "answered"), (3, "answered")]
    require("a retry asks again only for the turn that failed", asked, expected)
    require("both failures were retried", task["retry_count"], 2)
    require("no tool ran twice", task["usage"]["tool_calls"], 2)
    await narrator.say("subagent", task["result"])
    return Proof("retries", "2 failures, 2 retries; the turn before them was asked for once")


async def begin_a_plan(stage: Stage) -> Kill:
    """A task is in its third turn when its server is killed."""
    narrator, witness = stage.narrator, stage.witness
    await narrator.scene("kill -9, in the middle of a task")
    gate = witness.hold(PLAN, 3)
    await stage.delegate("researcher", PLAN)
    await gate.arrived.wait()
    pid = stage.server.pid
    await narrator.say("server", f"Process {pid} is in turn 3. Turns 1 and 2 are in the SQLite file.")
    kill = Kill(pid, time.monotonic())
    await stage.server.kill()
    await gate.left.wait()
    await witness.until(lambda: witness.about(PLAN)[-1].outcome == "cut off")
    await narrator.say("kill -9", f"Process {pid} is gone. Its request for turn 3 broke off.")
    return kill


async def finish_the_plan(stage: Stage, kill: Kill) -> Proof:
    """Another server goes on with that task."""
    narrator, pid = stage.narrator, stage.server.pid
    await narrator.say("server", f"Process {pid} opens the file. After 3 s of silence it takes over.")
    [task] = await stage.ended(stage.tasks[PLAN])
    seconds = time.monotonic() - kill.at
    before = [
        Asked(task=PLAN, turn=1, process=kill.pid, outcome="answered"),
        Asked(task=PLAN, turn=2, process=kill.pid, outcome="answered"),
        Asked(task=PLAN, turn=3, process=kill.pid, outcome="cut off"),
    ]
    after = [Asked(task=PLAN, turn=turn, process=pid, outcome="answered") for turn in (3, 4)]
    require("the next server goes on with the turn that was cut off", stage.witness.about(PLAN), [*before, *after])
    require("it was the second attempt at the task", task["attempt"], 2)
    require("every file was read once", task["usage"]["tool_calls"], 3)
    told = f"{seconds:.1f} s after the kill it is done. Only turns 3 and 4 were asked for:"
    await narrator.say("server", told)
    await narrator.say("subagent", task["result"])
    evidence = f"process {kill.pid} did turns 1 and 2, {pid} the rest; only the request in flight was asked again"
    return Proof("crashes", evidence)


async def a_soft_cancel(stage: Stage) -> Proof:
    """A task is stopped, and what it has found stays."""
    narrator, witness = stage.narrator, stage.witness
    await narrator.scene("Enough: a soft cancel")
    gate = witness.hold(AUDIT, 2)
    task_id = await stage.delegate("researcher", AUDIT)
    await gate.arrived.wait()
    await stage.server.call("soft_cancel_task", task_id=task_id)
    await narrator.say("host", "soft_cancel_task, in turn 2: it may end, turn 3 does not begin.")
    gate.opened.set()
    [task] = await stage.ended(task_id, status="cancelled")
    require("the turn under way is finished, and no other is begun", len(witness.about(AUDIT)), 2)
    kept = task["failure"]["partial_results"]
    require("what was found is kept", kept, "I read the complaints.\n\nI read the wishes.")
    await narrator.say("server", f"status {task['status']}, kept: {' '.join(kept.split())}")
    return Proof("cancelling", "it stopped at the end of its turn, and kept what it had found")
