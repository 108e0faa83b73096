"""How long a task has been running, and when that is too long."""

import math

import anyio
import anyio.lowlevel
import pytest

from mcp_subagents.running_time import RunningTime, TimeLimit, TimeUsedUp


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_is_counted_is_what_has_passed_since_it_was_counted_last():
    clock = Clock()
    running = RunningTime(10.0, clock)
    clock.now = 2.0
    assert (running.count(), running.so_far) == (2.0, 12.0)
    clock.now = 5.0
    assert (running.count(), running.so_far) == (3.0, 15.0)


def test_time_at_hand_is_no_running_time():
    clock = Clock()
    running = RunningTime(0.0, clock)
    clock.now = 1.0
    with running.standing_still():
        clock.now = 100.0
    clock.now = 102.0
    assert running.count() == 3.0


async def test_a_limit_is_put_off_by_the_time_at_hand_and_not_reached_in_it():
    clock = Clock()
    running = RunningTime(0.0, clock)
    with running.limit([TimeLimit(most=60.0, left=50.0)]):
        before = anyio.current_effective_deadline()
        assert before - anyio.current_time() == pytest.approx(50.0, abs=5.0)
        with running.standing_still():
            assert anyio.current_effective_deadline() == math.inf
            clock.now = 100.0
        assert anyio.current_effective_deadline() == before + 100.0


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ([TimeLimit(most=60.0, left=0.0)], "The task used up its 60 seconds of running time."),
        (
            [TimeLimit(most=0.5, left=0.1), TimeLimit(most=9.0, left=-1.0, level=1), TimeLimit(most=9.0, left=0.2)],
            "The 9 seconds of running time of the task that delegated this one are used up.",
        ),
        (
            [TimeLimit(most=3600.0, left=math.inf), TimeLimit(most=2.5, left=0.01, level=2)],
            "The 2.5 seconds of running time of a task further up are used up.",
        ),
        (
            [TimeLimit(most=2.5, left=0.01, level=3)],
            "The 2.5 seconds of running time of a task further up are used up.",
        ),
    ],
    ids=["its own", "its parent's, of several", "one further up", "one far up"],
)
async def test_the_first_limit_that_is_reached_is_named(limits: list[TimeLimit], said: str):
    with anyio.fail_after(5), pytest.raises(TimeUsedUp) as used_up, RunningTime(0.0).limit(limits):
        await anyio.sleep_forever()
    assert str(used_up.value) == said


@pytest.mark.parametrize("limits", [[], [TimeLimit(most=math.inf, left=math.inf)]], ids=["none", "one that is none"])
async def test_without_a_limit_nothing_ends_the_run(limits: list[TimeLimit]):
    with RunningTime(0.0).limit(limits):
        assert anyio.current_effective_deadline() == math.inf


async def test_what_ends_in_time_is_left_alone():
    with RunningTime(0.0).limit([TimeLimit(most=60.0, left=50.0)]):
        await anyio.lowlevel.checkpoint()
    with pytest.raises(ValueError, match="broken"), RunningTime(0.0).limit([TimeLimit(most=60.0, left=50.0)]):
        raise ValueError("broken")
