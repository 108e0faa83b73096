"""What is fired is the same for the same seed, and of every kind."""

import json
import random
from collections import Counter

from tests.fuzz.corpus import NOTIFICATIONS, REQUESTS, TOOLS, message
from tests.fuzz.mutations import mutated
from tests.fuzz.requests import some_request


def test_a_seed_says_it_all():
    def volley(seed: int) -> list[object]:
        rng = random.Random(seed)
        return [[mutated(rng, modern=True), some_request(rng)] for _ in range(200)]

    assert volley(7) == volley(7)
    assert volley(7) != volley(8)


def test_every_method_and_every_tool_has_its_turn():
    rng = random.Random(1)
    messages = [message(rng, modern=False) for _ in range(3000)]
    methods = Counter(each.get("method") for each in messages)
    tools = Counter(each["params"]["name"] for each in messages if each.get("method") == "tools/call")
    assert methods.keys() == {*REQUESTS, *NOTIFICATIONS, None}
    assert tools.keys() == TOOLS.keys()


def test_most_of_it_can_be_read_and_some_cannot():
    rng = random.Random(1)
    lines = [mutated(rng, modern=True) for _ in range(1000)]
    readable = sum(_is_json(line) for line in lines)
    assert 500 < readable < 950


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
