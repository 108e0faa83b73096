"""Files that change while a server runs: what is read again, what is kept, and what is told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from project_files import AGENT, write

from mcp_subagents.config.environment import ServerConfig, examine
from mcp_subagents.config.limits import EngineSettings, Limits
from mcp_subagents.config.live import LiveRoster, Loaded
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.delegation import GENERAL_PURPOSE
from mcp_subagents.equipment.loading import Loader, renewed
from mcp_subagents.equipment.sound_files import judge

ISSUES = "mcp_servers: {issues: {command: sh, env: {TOKEN: '${ISSUES_TOKEN}'}}}\n"


def loader() -> Loader:
    return Loader(read=lambda: examine(None, {}), env={}, otherwise=GENERAL_PURPOSE)


def delegates(loaded: Loaded) -> dict[str, list[str]]:
    return {name: list(config.get("subagents") or ()) for name, config in loaded.subagents.items()}


def lines(loaded: Loaded) -> list[str]:
    return [line for _, line in loaded.told]


def test_one_agent_file_that_cannot_work_does_not_keep_those_who_delegate_to_it_from_working(project: Path):
    write(project / "subagents.yaml", ISSUES + "agents: auto\nsubagents: [{name: own, subagents: [b, a]}]")
    write(project / ".claude/agents/a.md", AGENT.format("a", "Read, Agent(b)"))
    broken = write(project / ".claude/agents/b.md", AGENT.format("b", "mcp__issues__find"))
    loaded = loader().load()
    assert delegates(loaded) == {"own": ["a"], "a": []}
    assert loaded.config.remarks == (
        f"subagents.yaml:3: subagents[0].subagents[0]: 'b' cannot be delegated to, for its file is left out: {broken}",
    )
    [file] = [file for file in loaded.config.agent_files if file.spec is not None]
    assert [each.what for each in file.notes] == ["there is no subagent 'b' to delegate to"]


def test_a_file_that_breaks_keeps_its_subagent_and_those_who_delegate_to_it(project: Path):
    write(project / "subagents.yaml", "agents: auto")
    write(project / ".claude/agents/a.md", AGENT.format("a", "Read, Agent(b)"))
    path = write(project / ".claude/agents/b.md", AGENT.format("b", "Read"))
    first = loader().load()
    write(path, "---\nname: [\n---\n")
    again = loader().again(first)
    assert delegates(again) == {"a": ["b"], "b": []}
    assert [line.split(": ")[0] for line in lines(again)] == [f"{path}:3"]
    assert loader().again(again) is again


def test_a_broken_file_gives_way_to_another_that_is_called_like_it(project: Path):
    write(project / "subagents.yaml", "agents: auto")
    path = write(project / ".claude/agents/b.md", AGENT.format("Code_Reviewer", "Read"))
    first = loader().load()
    write(path, "---\nname: [\n---\n")
    write(project / "subagents.yaml", "agents: auto\nsubagents: [{name: Code Reviewer}]")
    assert list(loader().again(first).subagents) == ["Code Reviewer"]


def test_a_change_that_was_refused_is_tried_again_when_what_it_names_appears(project: Path):
    write(project / "subagents.yaml", "subagents: [{name: a}]")
    first = loader().load()
    write(project / "subagents.yaml", "subagents: [{name: b, context_files: [house.md], workspace: src}]")
    refused = loader().again(first)
    assert list(refused.subagents) == ["a"]
    assert [line.split(": ")[1:3] for line in lines(refused)] == [
        ["subagents.yaml:1", "subagents[0].context_files[0]"],
        ["subagents.yaml:1", "subagents[0].workspace"],
    ]
    write(project / "house.md", "Be tidy.")
    still = loader().again(refused)
    assert list(still.subagents) == ["a"]
    assert len(still.told) == 1
    (project / "src").mkdir()
    used = loader().again(still)
    assert list(used.subagents) == ["b"]
    write(project / "src/new.txt", "Files come and go in a workspace.")
    write(project / "house.md", "Texts are read with each task.")
    assert loader().again(used) is used


def test_a_model_limits_and_tool_servers_that_change_hold_for_new_tasks(project: Path):
    write(project / "subagents.yaml", "model: test\nsubagents: [{name: a}, {name: b, limits: {requests: 7}}]")
    first = loader().load()
    assert first.subagents["a"].keys() == {"name", "description", "instructions"}
    text = """model: openai:gpt-5
limits: {requests: 5, cost_usd: null}
mcp_servers: {files: {command: sh}}
subagents: [{name: a, mcp_servers: [files]}, {name: b, limits: {requests: 7}, model: test}]
"""
    write(project / "subagents.yaml", text)
    again = loader().again(first)
    assert again.subagents == {
        "a": {
            **{"name": "a", "description": "", "instructions": "", "model": "openai:gpt-5"},
            "limits": {"requests": 5, "cost_usd": None},
            "mcp_servers": [{"files": {"command": "sh", "cwd": str(project)}}],
        },
        "b": {
            **{"name": "b", "description": "", "instructions": "", "model": "test"},
            "limits": {"requests": 7, "cost_usd": None},
        },
    }
    assert again.told == ()
    write(project / "subagents.yaml", "subagents: [{name: a}]")
    assert loader().again(again).subagents["a"].get("limits") is None


def config(**given: Any) -> ServerConfig:
    return ServerConfig(file=Path("/base/subagents.yaml"), **given)


def settings(**limits: float | None) -> EngineSettings:
    return EngineSettings(limits=Limits.of(limits))


RENEWED: dict[str, tuple[ServerConfig, ServerConfig, dict[str, Any], dict[str, Any]]] = {
    "nothing has changed": (config(model="test"), config(model="test"), {}, {}),
    "another model": (config(model="test"), config(model="openai:x"), {}, {"model": "openai:x"}),
    "another model, and it has its own": (config(), config(model="openai:x"), {"model": "a:b"}, {}),
    "a limit that is back to what it is by default": (
        config(settings=settings(requests=5)),
        config(settings=settings()),
        {"limits": {"seconds": 3}},
        {"limits": {"requests": 100, "seconds": 3}},
    ),
    "a tool server that is as it was": (
        config(mcp_servers={"a": {"command": "x"}}),
        config(mcp_servers={"a": {"command": "x"}}),
        {"mcp_servers": ["a"]},
        {},
    ),
    "a tool server that has changed": (
        config(mcp_servers={"a": {"command": "x"}}),
        config(mcp_servers={"a": {"command": "y"}}),
        {"mcp_servers": ["a", {"own": {"command": "z"}}]},
        {"mcp_servers": [{"a": {"command": "y", "cwd": "/base"}}, {"own": {"command": "z"}}]},
    ),
}


@pytest.mark.parametrize("case", RENEWED)
def test_a_subagent_takes_along_what_has_changed_since_the_start(case: str):
    started, now, given, changes = RENEWED[case]
    subagent = SubAgentConfig(name="a", description="", instructions="", **given)
    assert renewed(subagent, now, started) == {**subagent, **changes}


def test_what_needs_a_start_is_told_once(project: Path):
    write(project / "subagents.yaml", "max_concurrency: 2\nsubagents: [{name: a}]")
    first = loader().load()
    changed = "max_concurrency: 3\ndaily_cost_usd: 9\nallow_python_tools: true\n"
    write(project / "subagents.yaml", changed + "subagents: [{name: a, max_concurrency: 1}]")
    again = loader().again(first)
    assert lines(again) == [
        "max_concurrency, daily_cost_usd, allow_python_tools, max_concurrency of a: "
        "have changed and hold only from the next start of this server"
    ]
    write(project / "subagents.yaml", changed + "subagents: [{name: b, max_concurrency: 1}, {name: a}]")
    write(project / "subagents.yaml", changed + "subagents: [{name: a, max_concurrency: 1, description: Two.}]")
    assert lines(loader().again(again)) == []


def test_a_refusal_for_want_of_a_start_says_so(project: Path):
    write(project / "subagents.yaml", "subagents: [{name: a}]")
    first = loader().load()
    write(project / "subagents.yaml", "allow_python_tools: true\nsubagents: [{name: a, python_tools: ['os:getcwd']}]")
    refused, later = lines(loader().again(first))
    assert "the operator has to allow that" in refused
    assert later == "allow_python_tools: has changed and holds only from the next start of this server"


async def test_who_is_cancelled_while_files_are_read_does_not_take_the_change_along(project: Path):
    write(project / "subagents.yaml", "subagents: [{name: a}]")
    scope = anyio.CancelScope()
    reads = loader()

    def again(had: Loaded) -> Loaded:
        loaded = reads.again(had)
        anyio.from_thread.run_sync(scope.cancel)  # the host hangs up meanwhile
        return loaded

    roster, told = LiveRoster(reads.load(), again), list[list[str]]()
    roster.on_change.append(lambda: told.append(list(roster)))
    write(project / "subagents.yaml", "subagents: [{name: b}]")
    with anyio.fail_after(5):
        with scope:
            await roster.refresh(at_once=True)
        await roster.refresh(at_once=True)
    assert (list(roster), told) == (["b"], [["b"]])


async def test_nobody_sees_half_a_change(project: Path):
    """What is read in a thread is swapped by the event loop, so that a look is never at two versions at once."""
    write(project / "subagents.yaml", "subagents: [{name: a}]")
    reads, looked = loader(), list[list[str]]()

    def again(had: Loaded) -> Loaded:
        loaded = reads.again(had)
        looked.append(list(roster))  # from the thread, after all was read
        return loaded

    roster = LiveRoster(reads.load(), again)
    write(project / "subagents.yaml", "subagents: [{name: b}]")
    with anyio.fail_after(5):
        await roster.refresh(at_once=True)
    assert (looked, list(roster)) == ([["a"]], ["b"])


def test_what_was_kept_is_judged_no_more_and_the_others_are(project: Path):
    write(project / "subagents.yaml", ISSUES + "agents: auto")
    path = write(project / ".claude/agents/b.md", AGENT.format("b", "mcp__issues__find"))
    before = SubAgentSpec(name="b", description="As it was.")
    kept = judge(examine(None, {}), {}, had={path: before})
    assert kept.subagents == (before,)
    assert replace(kept, subagents=()).agent_files[0].wrong != ()
