"""What is stored of a task comes back as it was."""

import json
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_subagents.records import (
    PRIORITY_ORDER,
    Lease,
    Mail,
    TaskRecord,
    dump_assignment,
    dump_state,
    load_record,
)
from mcp_subagents.trees import Awaited, Child, Tree, dump_tree, load_tree
from mcp_subagents.types import (
    CancelKind,
    FailureType,
    Question,
    TaskFailure,
    TaskHandle,
    TaskPriority,
    TaskStatus,
    TaskUsage,
)

NOW = datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=UTC)

text = st.text(max_size=20)
maybe_text = st.none() | text
moments = st.datetimes(timezones=st.just(UTC))
counts = st.integers(0, 2**40)
seconds = st.floats(0, 1e9)
usages = st.builds(
    TaskUsage,
    requests=counts,
    tool_calls=counts,
    input_tokens=counts,
    output_tokens=counts,
    cost_usd=st.none() | st.decimals(0, 1000, places=6),
)
failures = st.builds(
    TaskFailure,
    failure_type=st.sampled_from(FailureType),
    is_retryable=st.booleans(),
    message=text,
    attempted=text,
    partial_results=text,
    alternatives=st.lists(text, max_size=3).map(tuple),
    retries=counts,
    retry_after=st.none() | seconds,
    usage=st.none() | usages,
)
trees = st.builds(
    Tree,
    children=st.lists(st.builds(Child, task_id=text, asks=st.booleans()), max_size=3).map(tuple),
    awaited=st.lists(
        st.builds(
            Awaited,
            task_ids=st.lists(text, max_size=2).map(tuple),
            mode=st.sampled_from(["all", "any"]),
            call_id=text,
        ),
        max_size=2,
    ).map(tuple),
    descendants=counts,
    used=usages,
    seconds=seconds,
    strays=st.lists(text, max_size=2).map(tuple),
    reminded=st.booleans(),
)
HANDLE: dict[str, st.SearchStrategy[Any]] = {
    "task_id": text,
    "subagent_name": text,
    "description": text,
    "status": st.sampled_from(TaskStatus),
    "priority": st.sampled_from(TaskPriority),
    "created_at": moments,
    "started_at": st.none() | moments,
    "completed_at": st.none() | moments,
    "result": maybe_text,
    "error": maybe_text,
    "pending_question": maybe_text,
    "usage": st.none() | usages,
    "retry_count": counts,
    "attempt": counts,
    "failure": st.none() | failures,
    "mode": st.sampled_from(["sync", "async"]),
    "owner": text,
    "parent_id": maybe_text,
    "depth": counts,
    "questions": st.lists(st.builds(Question, question_id=text, text=text, answer=maybe_text), max_size=3).map(tuple),
    "turns": counts,
    "last_activity_at": st.none() | moments,
    "cancel_requested": st.none() | st.sampled_from(CancelKind),
    "model": maybe_text,
    "models_used": st.lists(text, max_size=3).map(tuple),
    "is_structured": st.booleans(),
}
handles = st.builds(TaskHandle, **HANDLE)
RECORD: dict[str, st.SearchStrategy[Any]] = {
    "handle": handles,
    "due_at": moments,
    "definition": maybe_text,
    "provider": text,
    "process": maybe_text,
    "idempotency_key": text,
    "trace": text,
    "home": text,
    "continues": text,
    "limits": st.none() | st.dictionaries(text, seconds | counts, max_size=3),
    "mail": st.lists(st.builds(Mail, mail_id=text, text=text), max_size=3).map(tuple),
    "failures": counts,
    "losses": counts,
    "active_seconds": seconds,
    "unread": st.booleans(),
    "warned": st.lists(text, max_size=3).map(tuple),
    "tree": st.none() | trees,
}
records = st.builds(TaskRecord, **RECORD)


def test_nothing_is_left_out_of_account():
    """A new field belongs in the strategies above."""
    assert {each.name for each in fields(TaskHandle)} == set(HANDLE)
    assert {each.name for each in fields(TaskRecord)} == set(RECORD)


@pytest.mark.slow
@given(records)
def test_a_record_comes_back_as_it_was(record: TaskRecord):
    assert load_record(dump_assignment(record), dump_state(record)) == record


@pytest.mark.slow
@given(records)
def test_what_comes_back_is_made_of_the_right_types(record: TaskRecord):
    loaded = load_record(dump_assignment(record), dump_state(record))

    for each in fields(TaskHandle):
        assert type(getattr(loaded.handle, each.name)) is type(getattr(record.handle, each.name)), each.name
    for each in fields(TaskRecord):
        if each.name != "limits":
            assert type(getattr(loaded, each.name)) is type(getattr(record, each.name)), each.name
    if record.handle.usage is not None and loaded.handle.usage is not None:
        assert isinstance(loaded.handle.usage.cost_usd, Decimal | None)


def plain(description: str = "Do it.") -> TaskRecord:
    handle = TaskHandle(task_id="t1", subagent_name="reviewer", description=description, created_at=NOW)
    return TaskRecord(handle=handle, due_at=NOW)


def test_what_has_its_default_is_not_stored():
    assert json.loads(dump_state(plain())) == {
        "handle": {"task_id": "t1", "subagent_name": "reviewer", "created_at": NOW.isoformat()},
        "due_at": NOW.isoformat(),
    }


def test_what_never_changes_is_stored_apart():
    record = plain("x" * 1000)
    assert "x" not in dump_state(record)
    assert json.loads(dump_assignment(record)) == {"description": "x" * 1000, "definition": None, "limits": None}


def test_a_time_of_another_zone_comes_back_as_the_same_moment_in_utc():
    there = NOW.astimezone(timezone(timedelta(hours=2)))
    record = TaskRecord(handle=plain().handle, due_at=there)
    loaded = load_record(dump_assignment(record), dump_state(record))
    assert loaded.due_at == there
    assert loaded.due_at.tzinfo is UTC


def test_a_lease_names_the_attempt():
    assert plain().lease == Lease(task_id="t1", attempt=0)


def test_priorities_have_an_order():
    assert sorted(TaskPriority, key=PRIORITY_ORDER.__getitem__) == ["low", "normal", "high", "critical"]


def test_what_was_awaited_can_be_read_as_it_was_written_before_calls_were_named():
    stored = {**dump_tree(Tree()), "awaited": [[["a", "b"], "any"]]}
    assert load_tree(stored) == Tree(awaited=(Awaited(task_ids=("a", "b"), mode="any"),))
