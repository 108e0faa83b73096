"""What is stored with a task: its subagent, and all whom that may reach by delegating."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from mcp_subagents.config import SubAgentConfig
from mcp_subagents.config.definitions import Definition


def config(name: str, *to: str, **more: Any) -> SubAgentConfig:
    given: Any = {"name": name, "description": f"Is {name}.", "instructions": "", **more}
    return SubAgentConfig(**given, subagents=list(to)) if to else SubAgentConfig(**given)


KNOWN = {
    each.get("name", ""): each
    for each in (config("top", "middle", "leaf"), config("middle", "top"), config("leaf"), config("stranger"))
}


@pytest.mark.parametrize(
    ("name", "reached"),
    [("top", ["top", "middle", "leaf"]), ("middle", ["middle", "top", "leaf"]), ("leaf", ["leaf"])],
    ids=["all below", "round in a circle", "nobody"],
)
def test_a_definition_has_all_whom_its_subagent_may_reach_and_nobody_else(name: str, reached: list[str]):
    definition = Definition.of(name, KNOWN)
    assert definition.config is KNOWN[name]
    assert set(definition.subagents) == set(reached)


@pytest.mark.parametrize("name", KNOWN)
def test_a_definition_that_was_stored_is_the_same_again(name: str):
    definition = Definition.of(name, KNOWN)
    assert Definition.loaded(definition.dumped()) == definition


def test_each_one_is_closed_in_its_turn():
    definition = Definition.of("middle", KNOWN, lambda each: {**each, "model": "test"})
    assert [each.get("model") for each in definition.subagents.values()] == ["test"] * 3


def test_one_that_delegates_to_nobody_is_stored_as_it_always_was():
    assert json.loads(Definition.of("leaf", KNOWN).dumped()) == {
        "name": "leaf",
        "description": "Is leaf.",
        "instructions": "",
        "extra": {},
    }


def test_a_definition_of_the_time_before_delegates_were_stored_is_read():
    old = Definition.loaded('{"name":"top","description":"Is top.","instructions":"","subagents":["leaf"]}')
    assert old == Definition("top", {"top": config("top", "leaf")})


def test_what_is_no_definition_is_refused():
    with pytest.raises(ValidationError, match="unknown key 'colour'"):
        Definition.loaded('{"name":"top","colour":"red"}')
