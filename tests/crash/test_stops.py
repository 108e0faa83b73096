"""A worker is told to leave, or is lost: how soon it is gone, and how soon somebody else goes on."""

import random
import signal
import time

import pytest

from mcp_subagents.store import Query, Store
from mcp_subagents.types import TaskStatus, utc_now
from tests.crash.conftest import SetUp, Uphold
from tests.crash.test_kills import SEED

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_a_worker_that_is_told_to_leave_gives_its_tasks_back(set_up: SetUp, uphold: Uphold, how: signal.Signals):
    chance = random.Random(SEED)
    scene = set_up(max_concurrency=8)
    for linger in (0.3, 0.005, 0.005, 0.005):  # once in the middle of the tools, then wherever it happens to be
        worker = scene.start(submit=range(60), linger=linger)
        scene.wait_for(worker)
        time.sleep(chance.uniform(0.3, 0.6))

        assert scene.stop(worker, how) <= 5
        left = scene.with_store(_open_tasks)
        given_back = [record for record in left if record.handle.attempt and record.handle.status is TaskStatus.PENDING]
        assert given_back
        assert all(record.due_at <= utc_now() for record in given_back)
        assert [record.task_id for record in left if record.handle.status is TaskStatus.RUNNING] == []

    following = scene.start(submit=range(60))
    scene.let_finish(60)
    scene.dismiss(following)
    uphold(scene, f"workers that leave on {how.name} (seed {SEED})")


def test_a_worker_leaves_within_5_seconds_though_the_file_is_locked(set_up: SetUp, uphold: Uphold):
    scene = set_up(max_concurrency=8)
    worker = scene.start(submit=range(24), linger=0.1)
    scene.wait_until(lambda: len(scene.ran()) > 10)
    with scene.lock():
        assert scene.stop(worker) <= 5
    left = scene.with_store(_open_tasks)
    assert [record.task_id for record in left if record.handle.status is TaskStatus.RUNNING] != []

    following = scene.start(submit=range(24))
    scene.let_finish(24)
    scene.dismiss(following)
    uphold(scene, "a worker that leaves a locked file")


async def _open_tasks(store: Store):
    return await store.select(Query(statuses=frozenset(each for each in TaskStatus if not each.is_terminal)))


@pytest.mark.parametrize("frozen", [False, True], ids=["killed", "frozen"])
def test_the_tasks_of_a_lost_worker_are_taken_over_within_5_seconds(set_up: SetUp, frozen: bool):
    scene = set_up(max_concurrency=8, hang=True)
    lost = scene.start(submit=range(1, 4))
    scene.wait_until(lambda: len(scene.asked()) == 3)
    other = scene.start()
    scene.wait_for(other)

    lost_at = scene.freeze(lost) if frozen else scene.kill(lost)
    scene.wait_until(lambda: len(scene.asked()) >= 6)

    taken_over = scene.asked()[3:6]
    assert {asked.task for asked in taken_over} == {1, 2, 3}
    assert {asked.worker for asked in taken_over} == {other.name}
    assert max(asked.at for asked in taken_over) - lost_at <= 5
    scene.let_finish(3)
    scene.dismiss(other)
    if frozen:
        scene.thaw(lost)
        scene.dismiss(lost)


def test_the_next_worker_goes_on_within_5_seconds_of_a_kill(set_up: SetUp):
    scene = set_up(max_concurrency=8, hang=True)
    lost = scene.start(submit=range(1, 4))
    scene.wait_until(lambda: len(scene.asked()) == 3)
    lost_at = scene.kill(lost)

    following = scene.start()
    scene.wait_until(lambda: len(scene.asked()) >= 6)

    assert max(asked.at for asked in scene.asked()[3:6]) - lost_at <= 5
    scene.let_finish(3)
    scene.dismiss(following)
