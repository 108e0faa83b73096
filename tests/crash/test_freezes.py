"""A worker is frozen, its tasks go to another, and it comes back too late."""

import random
import time

import apsw
import pytest

from tests.crash.conftest import SetUp, Uphold
from tests.crash.scene import Scene, Worker
from tests.crash.test_kills import SEED

pytestmark = pytest.mark.slow


def test_a_frozen_worker_that_comes_back_writes_nothing_and_repeats_nothing(set_up: SetUp, uphold: Uphold):
    chance = random.Random(SEED)
    scene = set_up(max_concurrency=8, dead_after=1.0)
    for round in range(3):
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


def freeze_between_writes(scene: Scene, worker: Worker) -> None:
    """Freeze a worker while it does not have the file locked: nobody could write then, whatever they do."""
    while True:
        scene.freeze(worker)
        db = apsw.Connection(str(scene.folder / "tasks.db"))
        try:
            db.set_busy_timeout(200)
            db.execute("BEGIN IMMEDIATE; ROLLBACK")  # pyright: ignore[reportUnknownMemberType]  # apsw's stubs
            return
        except apsw.BusyError:
            scene.thaw(worker)
            time.sleep(0.003)
        finally:
            db.close()
