"""Workers are killed at random moments, and every promise holds all the same."""

import os
import random
import time

import pytest

from tests.crash.conftest import SetUp, Uphold

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("KILLS", "20"))
SEED = int(os.environ.get("CRASH_SEED", "1"))
TASKS = max(120, 6 * KILLS)
SETTINGS = {"max_concurrency": 8, "max_open_tasks": 10_000}


def test_one_worker_after_the_other_is_killed_and_nothing_is_lost_or_repeated(set_up: SetUp, uphold: Uphold):
    chance = random.Random(SEED)
    scene = set_up(**SETTINGS, dead_after=1.0)
    for life in range(1, KILLS + 1):
        worker = scene.start(submit=range(TASKS * life // KILLS))
        time.sleep(chance.uniform(0.05, 1.2))
        scene.kill(worker)
    last = scene.start(submit=range(TASKS))
    scene.let_finish(TASKS)
    scene.dismiss(last)
    uphold(scene, f"one worker at a time (seed {SEED})")


def test_either_of_two_workers_is_killed_and_nothing_is_lost_or_repeated(set_up: SetUp, uphold: Uphold):
    chance = random.Random(SEED + 1)
    scene = set_up(**SETTINGS, dead_after=1.5)
    kills = max(KILLS // 2, 1)
    workers = [scene.start(), scene.start()]
    for life in range(1, kills + 1):
        time.sleep(chance.uniform(0.05, 0.9))
        scene.kill(workers.pop(chance.randrange(2)))
        workers.append(scene.start(submit=range(TASKS * life // kills)))
    workers.append(scene.start(submit=range(TASKS)))  # whoever was to submit the rest may be the one that was killed
    scene.let_finish(TASKS)
    for worker in workers:
        scene.dismiss(worker)
    uphold(scene, f"two workers at a time (seed {SEED})")
