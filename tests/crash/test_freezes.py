"""A worker is frozen, its tasks go to another, and it comes back too late; or the file itself is stuck."""

import random
import time
from contextlib import suppress

import apsw
import pytest

from tests.crash.conftest import SetUp, Uphold
from tests.crash.scene import Scene, Worker
from tests.crash.test_kills import KILLS, SEED

pytestmark = pytest.mark.slow


def test_a_frozen_worker_that_comes_back_writes_nothing_and_repeats_nothing(set_up: SetUp, uphold: Uphold):
    chance = random.Random(SEED)
    scene = set_up(max_concurrency=8, dead_after=1.5)
    for round in range(max(1, KILLS // 15)):
        first, second, third = (40 * round + some for some in (20, 30, 40))
        frozen = scene.start(submit=range(first))
        scene.wait_for(frozen)
        time.sleep(chance.uniform(0.1, 0.4))
        freeze_between_writes(scene, frozen)
        other = scene.start(submit=range(second))
        scene.let_finish(second)
        scene.thaw(frozen)
        # It is good for new work: what another accepted, and was killed over, is left to it alone.
        scene.dismiss(other)
        brief = scene.start(submit=range(third))
        scene.let_accept(third)
        scene.kill(brief)
        scene.let_finish(third)
        scene.dismiss(frozen)
    uphold(scene, f"frozen workers (seed {SEED})")


def test_a_worker_goes_on_after_the_file_was_locked_for_longer_than_it_waits(set_up: SetUp, uphold: Uphold):
    scene = set_up(max_concurrency=8)
    worker = scene.start(submit=range(24), linger=0.1, patience=0.3)
    scene.wait_until(lambda: len(scene.ran()) > 10)
    with scene.lock():  # as a worker has it that is frozen in the middle of a write
        time.sleep(2)
    scene.cut_short.add(worker.name)
    scene.let_finish(24)
    scene.dismiss(worker)
    uphold(scene, "a file that was locked")


def freeze_between_writes(scene: Scene, worker: Worker) -> None:
    """Freeze a worker while it does not have the file locked: nobody could write then, whatever they do."""
    while True:
        scene.freeze(worker)
        with suppress(apsw.BusyError), scene.lock():
            return
        scene.thaw(worker)
        time.sleep(0.003)
