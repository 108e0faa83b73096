"""What our own agents are built with, and what that relies on in pydantic-ai."""

import sys
from importlib.util import find_spec, module_from_spec
from types import new_class
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import (
    AbstractCapability,
    Capability,
    CombinedCapability,
    DynamicCapability,
    HandleDeferredToolCalls,
    Hooks,
    Instrumentation,
    PrefixTools,
    Thinking,
    ToolSearch,
)
from pydantic_ai.capabilities._pending_messages import PendingMessageDrainCapability
from pydantic_ai.messages import (
    LoadCapabilityCallPart,
    LoadCapabilityReturnPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolAvailabilityDeltaPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel

from mcp_subagents.agents import Roster
from mcp_subagents.config import SubAgentConfig
from mcp_subagents.equipment.tool_lists import ToolLists
from mcp_subagents.journal import JournalledTools
from mcp_subagents.own_capability import WHERE_ORDER_MATTERS, AllInOne, capability_beside, shadows_nothing


def types_in(capability: AbstractCapability[Any]) -> list[type]:
    leaves: list[AbstractCapability[Any]] = []
    capability.apply(leaves.append)
    return [type(leaf) for leaf in leaves]


def built(**config: Any) -> list[type]:
    """The capabilities of an agent that we build."""
    worker = SubAgentConfig(name="worker", description="", instructions="", model="test", **config)
    agent: Any = Roster([worker]).compiled("worker", None).agent
    return types_in(agent.root_capability)


def test_pydantic_ai_gives_an_agent_two_capabilities_which_ours_is():
    assert types_in(Agent(TestModel()).root_capability) == [ToolSearch, PendingMessageDrainCapability]
    assert types_in(Agent(TestModel(), capabilities=[AllInOne()]).root_capability) == [AllInOne]


@pytest.mark.parametrize(
    ("config", "others"),
    [
        ({}, []),
        ({"capabilities": ["Thinking"], "disallowed_tools": ["x*"]}, [Thinking, ToolLists]),
        ({"agent_kwargs": {"capabilities": [CombinedCapability([Thinking()])]}}, [Thinking]),
    ],
    ids=["none", "its definition's", "its code's"],
)
def test_our_agents_have_one_capability_beside_those_they_are_given(config: dict[str, Any], others: list[type]):
    assert built(**config) == [AllInOne, *others]


class Wrapping(AbstractCapability[Any]):
    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any: ...


class Mending(AbstractCapability[Any]):
    async def on_tool_execute_error(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, error: Any) -> Any: ...


def searching(ctx: RunContext[Any]) -> ToolSearch[Any]: ...


@pytest.mark.parametrize(
    "other",
    [
        Wrapping(),
        Mending(),
        HandleDeferredToolCalls[Any](lambda ctx, requests: None),
        Hooks[Any](),
        Instrumentation(),
        ToolSearch[Any](),
        ToolSearch[Any](id="another"),
        CombinedCapability[Any]([Thinking(), ToolSearch()]),
        PrefixTools[Any](wrapped=ToolSearch(), prefix="a"),
        searching,
        DynamicCapability[Any](searching),
    ],
    ids=lambda other: getattr(other, "__name__", type(other).__name__),
)
def test_beside_capabilities_that_ours_could_get_in_the_way_of_the_journal_stands_alone(other: Any):
    assert type(capability_beside([Thinking(), other])) is JournalledTools


def test_order_matters_at_every_hook_of_the_journal():
    bases = JournalledTools.__mro__[: JournalledTools.__mro__.index(AbstractCapability)]
    hooks = {name for base in bases for name in vars(base) if name in vars(AbstractCapability)}
    assert {name for name in hooks if name[0] != "_"} == set(WHERE_ORDER_MATTERS)


def test_a_subagent_that_configures_its_search_keeps_its_own():
    assert built(capabilities=[{"ToolSearch": {"max_results": 3}}]) == [
        ToolSearch,
        PendingMessageDrainCapability,
        JournalledTools,
    ]


def test_what_traces_a_run_sees_the_calls_that_are_replayed():
    run = CombinedCapability([Agent(TestModel(), capabilities=[AllInOne()]).root_capability, Instrumentation()])
    assert types_in(run) == [Instrumentation, AllInOne]


def locate() -> str: ...


async def test_the_tools_of_a_capability_that_an_old_history_has_loaded_are_told_to_the_model():
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("Go.")]),
        ModelResponse(parts=[LoadCapabilityCallPart(args={"id": "maps"}, tool_call_id="c")]),
        ModelRequest(parts=[LoadCapabilityReturnPart(content={}, tool_call_id="c")]),
    ]
    maps = Capability[Any](id="maps", description="Maps.", tools=[locate], defer_loading=True)
    agent = Agent(TestModel(call_tools=[]), capabilities=[maps, capability_beside([maps])])
    run = await agent.run(message_history=history)
    assert types_in(agent.root_capability) == [AllInOne, Capability]
    assert ToolAvailabilityDeltaPart(tools_added=["locate"]) in [
        part for message in run.all_messages() for part in message.parts
    ]


def test_no_realtime_session_would_warn_of_it():
    for each in (ToolSearch[Any](), PendingMessageDrainCapability(), AllInOne()):
        assert each._realtime_uncalled_hooks() == ()  # pyright: ignore[reportPrivateUsage]  # nothing public tells


class Draining(PendingMessageDrainCapability):
    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any: ...


class Stateful(PendingMessageDrainCapability):
    def __init__(self) -> None: ...


class Preparing(PendingMessageDrainCapability):
    def __post_init__(self) -> None: ...


class Named(PendingMessageDrainCapability):
    id = "drain"


@pytest.mark.parametrize("later", [Draining, Stateful, Preparing, Named])
def test_a_part_that_does_more_in_a_later_version_is_not_hidden(later: type[AbstractCapability[Any]]):
    def both_in(body: dict[str, Any]) -> None:
        body |= {name: value for name, value in vars(AllInOne).items() if name not in {"__dict__", "__weakref__"}}

    assert shadows_nothing(new_class("Same", (JournalledTools, ToolSearch, PendingMessageDrainCapability), {}, both_in))
    assert not shadows_nothing(new_class("Later", (JournalledTools, ToolSearch, later), {}, both_in))


async def test_where_the_private_part_has_moved_pydantic_ai_adds_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pydantic_ai.capabilities._pending_messages", None)
    spec = find_spec("mcp_subagents.own_capability")
    assert spec is not None
    assert spec.loader is not None
    moved: Any = module_from_spec(spec)
    spec.loader.exec_module(moved)

    def note(ctx: RunContext[Any]) -> str:
        ctx.enqueue("By the way.")
        return "noted"

    agent = Agent(TestModel(), tools=[note], capabilities=[moved.capability_beside([])])
    assert types_in(agent.root_capability) == [moved.AllInOne, PendingMessageDrainCapability]
    assert str((await agent.run("Go.")).all_messages()).count("By the way.") == 1
