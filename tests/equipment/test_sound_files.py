"""A configuration file must be sound; an agent file that is not is left out, and a change that is not is not used."""

from pathlib import Path

import pytest
from project_files import AGENT, write

from mcp_subagents.config.environment import ServerConfig, examine, load
from mcp_subagents.config.live import LiveRoster
from mcp_subagents.equipment.loading import Loader
from mcp_subagents.equipment.sound_files import sound
from mcp_subagents.errors import ConfigError
from mcp_subagents.server import GENERAL_PURPOSE

FILE = "agents: auto\nmcp_servers: {issues: {command: issues, env: {TOKEN: '${ISSUES_TOKEN}'}}}\n"


def names(config: ServerConfig) -> list[str]:
    return [spec.name for spec in config.subagents]


def live() -> LiveRoster:
    loader = Loader(read=lambda: examine(None, {}), env={}, otherwise=GENERAL_PURPOSE)
    return LiveRoster(loader.load(), loader.again)


def test_a_configuration_file_that_names_what_is_not_there_is_refused(project: Path):
    write(project / "subagents.yaml", "subagents: [{name: a, mcp_servers: [issues], workspace: nowhere}]")
    with pytest.raises(ConfigError) as refused:
        sound(load(None, {}), {})
    assert "'issues'" in str(refused.value)
    assert str(project / "nowhere") in str(refused.value)


def test_an_agent_file_that_names_what_is_not_there_is_left_out_and_told(project: Path):
    write(project / "subagents.yaml", FILE + "subagents: [{name: own}]")
    bad = write(project / ".claude/agents/bad.md", AGENT.format("bad", "mcp__issues__find"))
    write(project / ".claude/agents/good.md", AGENT.format("good", "Read"))
    config = sound(load(None, {}), {})
    assert names(config) == ["own", "good"]
    [told] = [line for file in config.agent_files if file.wrong for line in file.told()]
    assert told.startswith(f"{bad}:4: tools: the tool server 'issues' needs the environment variable ISSUES_TOKEN")
    assert names(sound(load(None, {}), {"ISSUES_TOKEN": "hush-hush"})) == ["own", "bad", "good"]


def test_a_tool_server_of_an_agent_file_starts_in_the_project(home: Path, project: Path):
    header = "name: a\ndescription: Helps.\nmcpServers: {own: {command: run}}"
    write(home / ".claude/agents/a.md", f"---\n{header}\n---\nHelp.\n")
    settings = write(home / "mcp-subagents/subagents.yaml", "agents: auto")
    config = sound(load(None, {}), {})
    assert config.folder == settings.parent
    assert config.subagents[0].mcp_servers == [{"own": {"command": "run", "cwd": str(project)}}]


async def test_a_change_that_names_what_is_not_there_is_not_used(project: Path, caplog: pytest.LogCaptureFixture):
    write(project / "subagents.yaml", "subagents: [{name: a}]")
    roster = live()
    write(project / "subagents.yaml", "subagents: [{name: b, context_files: [missing.md]}]")
    await roster.refresh(at_once=True)
    assert list(roster) == ["a"]
    [line] = [record.message for record in caplog.records]
    assert line.startswith("the configuration has changed and is not used: ")
    assert "missing.md" in line


async def test_a_broken_agent_file_keeps_its_subagent_whatever_else_changes(project: Path):
    write(project / "subagents.yaml", "agents: auto")
    path = write(project / ".claude/agents/a.md", AGENT.format("a", "Read"))
    roster = live()
    write(path, "---\nname: [\n---\n")
    await roster.refresh(at_once=True)
    for other in ("b", "c"):
        write(project / f".claude/agents/{other}.md", AGENT.format(other, "Read"))
        await roster.refresh(at_once=True)
    assert sorted(roster) == ["a", "b", "c"]
    path.unlink()
    await roster.refresh(at_once=True)
    assert sorted(roster) == ["b", "c"]


def test_what_is_sound_stays_as_it_is(project: Path):
    write(project / "subagents.yaml", "agents: auto\nsubagents: [{name: own}]")
    write(project / ".claude/agents/good.md", AGENT.format("good", "Read"))
    config = load(None, {})
    assert sound(config, {}) == config
