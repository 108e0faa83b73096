"""`decide_execution_mode`: the decision tables and examples of seed 004, and the same rules as a property."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.modes import decide_execution_mode
from mcp_subagents.types import ExecutionMode, TaskCharacteristics

Task = TaskCharacteristics
Mode = Literal["sync", "async"]

WORKER = SubAgentConfig(name="worker")
SYNC_WORKER = SubAgentConfig(name="quick-helper", preferred_mode="sync")
ASYNC_WORKER = SubAgentConfig(name="runner", preferred_mode="async")
AUTO_WORKER = SubAgentConfig(name="worker", preferred_mode="auto")
RESEARCHER = SubAgentConfig(
    name="deep-researcher", preferred_mode="async", typical_complexity="complex", typically_needs_context=False
)
ANALYST = SubAgentConfig(
    name="analyst", preferred_mode="auto", typical_complexity="complex", typically_needs_context=False
)


def hinted(config: SubAgentConfig) -> Task:
    """A task of which the caller says nothing, so that the subagent's hints stand in."""
    return Task(config.get("typical_complexity", "moderate"), config.get("typically_needs_context", False))


@pytest.mark.parametrize(
    ("task", "config", "force_mode", "mode"),
    [
        # the ordered decisions
        pytest.param(Task("simple"), SYNC_WORKER, "async", "async", id="1: a forced async beats all else"),
        pytest.param(Task("complex"), ASYNC_WORKER, "sync", "sync", id="1: a forced sync beats all else"),
        pytest.param(Task("complex"), SYNC_WORKER, "auto", "sync", id="1: a forced auto forces nothing"),
        pytest.param(Task("complex"), SYNC_WORKER, None, "sync", id="2: a preference for sync beats the task"),
        pytest.param(Task("simple", True), ASYNC_WORKER, None, "async", id="2: one for async beats the task"),
        pytest.param(Task("simple"), AUTO_WORKER, None, "sync", id="2: a preference for auto prefers nothing"),
        pytest.param(Task("complex", True), WORKER, None, "sync", id="3: the user is needed"),
        pytest.param(Task("complex", False, True, True, True), WORKER, None, "sync", id="4: urgent, with questions"),
        pytest.param(Task("complex", False, False, True, True), WORKER, None, "async", id="4: questions, no hurry"),
        pytest.param(Task("complex", False, True, True, False), WORKER, None, "async", id="4: urgent, no questions"),
        pytest.param(Task("complex"), WORKER, None, "async", id="5: complex and independent"),
        pytest.param(Task("simple"), WORKER, None, "sync", id="6: simple"),
        pytest.param(Task("moderate"), WORKER, None, "async", id="7: moderate and independent"),
        pytest.param(Task("moderate", can_run_independently=False), WORKER, None, "sync", id="8: all the rest"),
        # the table of scenarios: complexity, user context, time sensitive, independent, clarification
        pytest.param(Task("simple", False, True, True, False), WORKER, None, "sync", id="quick lookup"),
        pytest.param(Task("complex", False, False, True, False), WORKER, None, "async", id="deep research"),
        pytest.param(Task("moderate", True, False, False, True), WORKER, None, "sync", id="interactive editing"),
        pytest.param(Task("moderate", False, False, True, False), WORKER, None, "async", id="background analysis"),
        pytest.param(Task("moderate", False, True, True, True), WORKER, None, "sync", id="urgent clarification"),
        pytest.param(Task("complex", False, False, False, True), WORKER, None, "sync", id="complex but dependent"),
        # the numbered examples, each called with mode="auto"
        pytest.param(Task(estimated_complexity="simple"), WORKER, "auto", "sync", id="example 1: a capital"),
        pytest.param(Task(estimated_complexity="complex"), WORKER, "auto", "async", id="example 2: a report"),
        pytest.param(Task(requires_user_context=True), WORKER, "auto", "sync", id="example 3: a paragraph"),
        pytest.param(
            Task("moderate", is_time_sensitive=True, may_need_clarification=True),
            *(WORKER, "auto", "sync"),
            id="example 4: a bug in production",
        ),
        pytest.param(Task(estimated_complexity="moderate"), WORKER, "auto", "async", id="example 5: test cases"),
        # the hints of a subagent
        pytest.param(hinted(RESEARCHER), RESEARCHER, "auto", "async", id="deep-researcher: prefers async"),
        pytest.param(hinted(SYNC_WORKER), SYNC_WORKER, "auto", "sync", id="quick-helper: always sync"),
        pytest.param(hinted(ANALYST), ANALYST, "auto", "async", id="analyst: usually complex"),
        pytest.param(Task("simple"), ANALYST, "auto", "sync", id="analyst: what the caller says counts"),
        pytest.param(hinted(WORKER), WORKER, "auto", "async", id="a subagent without hints"),
    ],
)
def test_the_mode_is_the_one_in_the_seeds_tables(
    task: Task, config: SubAgentConfig, force_mode: ExecutionMode | None, mode: Mode
):
    assert decide_execution_mode(task, config, force_mode) == mode


def reference(task: Task, config: SubAgentConfig, force_mode: ExecutionMode | None) -> str:
    """The seed's ordered list: the first row whose condition holds decides."""
    independent = task.can_run_independently
    rows = [
        (force_mode in ("sync", "async"), force_mode),
        (config.get("preferred_mode", "auto") != "auto", config.get("preferred_mode")),
        (task.requires_user_context, "sync"),
        (task.may_need_clarification and task.is_time_sensitive, "sync"),
        (task.estimated_complexity == "complex" and independent, "async"),
        (task.estimated_complexity == "simple", "sync"),
        (task.estimated_complexity == "moderate" and independent, "async"),
        (True, "sync"),
    ]
    return next(str(mode) for holds, mode in rows if holds)


MODES = st.sampled_from(["sync", "async", "auto"])
COMPLEXITIES = st.sampled_from(["simple", "moderate", "complex"])


@given(
    task=st.builds(Task, COMPLEXITIES, st.booleans(), st.booleans(), st.booleans(), st.booleans()),
    config=st.fixed_dictionaries(
        {"name": st.just("worker")},
        optional={
            "preferred_mode": MODES,
            "typical_complexity": COMPLEXITIES,
            "typically_needs_context": st.booleans(),
        },
    ),
    force_mode=st.none() | MODES,
)
def test_the_first_rule_that_holds_decides(task: Task, config: SubAgentConfig, force_mode: ExecutionMode | None):
    assert decide_execution_mode(task, config, force_mode) == reference(task, config, force_mode)
