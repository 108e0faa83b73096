"""Every error of ours travels: between processes, into copies."""

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.usage import RunUsage

from mcp_subagents import errors
from mcp_subagents.answers import StreamEndedEarly
from mcp_subagents.errors import SubagentsError
from mcp_subagents.history import Checkpoint, attach_checkpoint, checkpoint_of
from mcp_subagents.records import Mail
from mcp_subagents.types import Question, TaskHandle, TaskStatus

HANDLE = TaskHandle("t1", "reviewer", "Review it.", created_at=datetime(2026, 3, 1, tzinfo=UTC))

WHICH = Question(question_id="q1", text="Which one?")
WHEN = Question(question_id="q2", text="When?")

SAMPLES = [
    SubagentsError("odd"),
    errors.ConfigError("modle: unknown key"),
    errors.StoreError("broken"),
    errors.StoreDamaged("broken"),
    errors.StoreTooNew("too new"),
    errors.StoreUnavailable("locked"),
    errors.ToolServerDown("github", "could not be started"),
    errors.EngineStopped(),
    errors.UnknownSubagent("reviwer", ["reviewer"]),
    errors.UnknownTask("t1"),
    errors.NoTaskLike("t"),
    errors.SeveralTasksLike("t", ["t1", "t2"], more=False),
    errors.NoSuchQuestion("t1", "running", "q1", []),
    errors.NotWaiting(HANDLE, "q1"),
    errors.TaskEnded(HANDLE),
    errors.NotEnded(HANDLE),
    errors.FollowedUp("t0", HANDLE),
    errors.KeyTaken(HANDLE, "once"),
    errors.TooManyTasks(3),
    errors.WrongArguments(["`task_id` is missing"]),
    errors.DepthExceeded(2),
    errors.DescendantsExceeded(20),
    errors.DailyCostReached(5.0),
    errors.ChildrenOpen(["t1", "t2"]),
    errors.IncompleteAnswer("length", "Once upon a"),
    errors.UnfitAnswer("$.age: it is too low", "{}"),
    errors.IllegalTransition("t1", TaskStatus.RUNNING, TaskStatus.PENDING, [], only_from=TaskStatus.PENDING),
    errors.StopRequested("t1"),
    errors.MailWaiting([Mail(mail_id="m1", text="Hurry.")]),
    errors.LeaseLost("t1", 2),
    StreamEndedEarly("gpt-4o-mini"),
]


def pickled(error: object) -> object:
    return pickle.loads(pickle.dumps(error))


def kinds(base: type[SubagentsError]) -> set[type[SubagentsError]]:
    return {base}.union(*(kinds(each) for each in base.__subclasses__() if each.__module__ == errors.__name__))


def test_there_is_a_sample_of_every_error():
    assert {type(each) for each in SAMPLES if isinstance(each, SubagentsError)} == kinds(SubagentsError)


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("copied", [pickled, copy.deepcopy, copy.copy], ids=["pickled", "copied deep", "copied flat"])
def test_an_error_is_the_same_after_a_journey(error: SubagentsError | ModelAPIError, copied: Callable[[Any], Any]):
    again = copied(error)
    assert (type(again), str(again), again.args, vars(again)) == (type(error), str(error), error.args, vars(error))


def test_a_copied_error_still_carries_its_checkpoint():
    error = errors.IncompleteAnswer("empty", "")
    attach_checkpoint(error, Checkpoint(messages=(), usage=RunUsage(requests=2)))
    assert checkpoint_of(copy.deepcopy(error)) == checkpoint_of(error)


@pytest.mark.parametrize(
    ("asked", "question_id", "told"),
    [
        ((), "", "Task 't1' asks nothing: it is running."),
        ((WHICH, WHEN), "", "Task 't1' has several questions open."),
        ((WHICH, WHEN), "q9", "Task 't1' has no open question 'q9'."),
    ],
    ids=["nothing is asked", "several are asked", "another one is asked"],
)
def test_an_answer_to_no_question_hears_what_is_asked(asked: tuple[Question, ...], question_id: str, told: str):
    running = HANDLE.started()
    error = errors.NotWaiting(running.asked(*asked) if asked else running, question_id)
    choices = " Name one of these as question_id: 'q1': Which one?; 'q2': When?" if asked else ""
    assert str(error) == told + choices
