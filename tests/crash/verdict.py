"""What the traces prove: compares what the witness and the tools saw with what the store remembers."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from mcp_subagents.journal import INTERRUPTED
from mcp_subagents.records import Entry, EntryKind, TaskRecord
from mcp_subagents.types import TaskStatus
from tests.crash.story import ASK, CALLS, EFFECT, TURNS, calls_of, name_of, outcome_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One request, as the witness saw it."""

    at: float
    task: int
    turn: int
    worker: str
    status: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One run of a tool, as the tool itself wrote it down."""

    call: str
    tool: str
    worker: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """All traces of one scene."""

    accepted: Mapping[int, str]
    """The id of each task that was accepted, by its number."""
    asked: Sequence[Asked]
    ran: Sequence[Ran]
    records: Mapping[str, TaskRecord]
    journals: Mapping[str, Sequence[Entry]]
    cut_short: frozenset[str]
    """The workers that were killed, frozen or stopped."""
    frozen: frozenset[str]
    slots: int


@dataclass(kw_only=True)
class Verdict:
    """What must not be, by kind. All of it is empty when the promises were kept."""

    lost: list[str] = field(default_factory=list[str])
    """Accepted tasks without the right result."""
    doubled: list[str] = field(default_factory=list[str])
    """Tasks that nobody was told of: a submission that was stored twice."""
    asked_again: list[str] = field(default_factory=list[str])
    """Requests for a turn that was recorded already."""
    unexplained: list[str] = field(default_factory=list[str])
    """Answers that were not recorded, though nobody cut their worker short."""
    effects_twice: list[str] = field(default_factory=list[str])
    untold: list[str] = field(default_factory=list[str])
    """Tool calls whose outcome in the model's eyes is not what happened."""
    questions: list[str] = field(default_factory=list[str])
    """Questions that were not answered exactly once."""
    late: list[str] = field(default_factory=list[str])
    """Records of an attempt that had lost its task already."""

    def wrong(self) -> dict[str, list[str]]:
        return {each.name: found for each in fields(self) if (found := getattr(self, each.name))}


def judge(evidence: Evidence) -> Verdict:
    verdict = Verdict()
    known = set(evidence.accepted.values())
    verdict.doubled += [task_id for task_id in evidence.records if task_id not in known]
    runs = Counter(ran.call for ran in evidence.ran)
    for number, task_id in evidence.accepted.items():
        record, journal = evidence.records.get(task_id), evidence.journals.get(task_id, ())
        if record is None or record.handle.status is not TaskStatus.COMPLETED:
            verdict.lost.append(f"{name_of(number)}: {record and (record.handle.status, record.handle.error)}")
            continue
        _judge_result(verdict, number, json.loads(record.handle.result or "{}"), runs)
        _judge_requests(verdict, number, evidence, journal)
        _judge_questions(verdict, number, journal)
        if (attempts := [entry.attempt for entry in journal]) != sorted(attempts):
            verdict.late.append(f"{name_of(number)}: {attempts}")
    return verdict


def _judge_result(verdict: Verdict, number: int, result: Mapping[str, Any], runs: Counter[str]) -> None:
    told: Mapping[str, str] = result.get("told", {})
    calls = calls_of(number)
    if result.get("task") != name_of(number) or set(told) != set(calls):
        verdict.lost.append(f"{name_of(number)}: {result}")
    for call, tool in calls.items():
        if tool == EFFECT and runs[call] > 1:
            verdict.effects_twice.append(f"{call}: ran {runs[call]} times")
        went_well = told.get(call) == outcome_of(tool, call) and (runs[call] > 0 or tool == ASK)
        interrupted = tool == EFFECT and INTERRUPTED in told.get(call, "")
        if not (went_well or interrupted):
            verdict.untold.append(f"{call}: ran {runs[call]} times, the model was told {told.get(call)!r}")


def _judge_requests(verdict: Verdict, number: int, evidence: Evidence, journal: Sequence[Entry]) -> None:
    recorded = [entry.at.timestamp() for entry in journal if entry.kind is EntryKind.TURN]
    if len(recorded) != TURNS:
        verdict.asked_again.append(f"{name_of(number)}: {len(recorded)} turns are recorded, not {TURNS}")
    for turn, recorded_at in enumerate(recorded):
        what = f"{name_of(number)}.{turn}"
        requests = [asked for asked in evidence.asked if (asked.task, asked.turn) == (number, turn)]
        late = Counter(asked.worker for asked in requests if asked.at > recorded_at)
        # A request that was on its way when its worker was frozen leaves when that worker is thawed: one, no more.
        verdict.asked_again += [
            f"{what} by {worker}" for worker, count in late.items() if count > 1 or worker not in evidence.frozen
        ]
        in_time = [asked.worker for asked in requests if asked.at <= recorded_at and asked.status == 200]
        verdict.unexplained += [f"{what} by {worker}" for worker in in_time[:-1] if worker not in evidence.cut_short]


def _judge_questions(verdict: Verdict, number: int, journal: Sequence[Entry]) -> None:
    events = [json.loads(entry.body) for entry in journal if entry.kind is EntryKind.EVENT]
    answers = Counter(event["payload"]["question_id"] for event in events if event["type"] == "answer")
    expected = Counter(call for call, tool in calls_of(number).items() if tool == ASK)
    if answers != expected:
        verdict.questions.append(f"{name_of(number)}: answers to {dict(answers)}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What the cuts have cost: work in flight that was done again, or was not known to be done."""

    requests: int
    """Answered requests beyond one a turn."""
    lookups: int
    """Runs of a tool that may run again, beyond one a call."""
    interrupted: int
    """Calls that the model was told may or may not have taken effect."""


def price_of(evidence: Evidence) -> Price:
    answered = Counter((asked.task, asked.turn) for asked in evidence.asked if asked.status == 200)
    runs = Counter(ran.call for ran in evidence.ran)
    results = [record.handle.result or "" for record in evidence.records.values()]
    return Price(
        requests=sum(count - 1 for count in answered.values()),
        lookups=sum(count - 1 for count in runs.values()),
        interrupted=sum(result.count(INTERRUPTED) for result in results),
    )


def most_that_cuts_explain(evidence: Evidence) -> Price:
    """Each cut can catch every slot in one model request, or in the tool calls of one turn."""
    caught = len(evidence.cut_short) * evidence.slots
    return Price(requests=caught, lookups=caught * CALLS, interrupted=caught * CALLS)
