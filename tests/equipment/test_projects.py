"""An agent file of a project reaches nothing outside the project: not when it is read, and not later."""

from pathlib import Path
from typing import Any

import pytest

from mcp_subagents.agents import Roster
from mcp_subagents.config.environment import load
from mcp_subagents.config.places import Inside
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.equipment.context_files import context_of
from mcp_subagents.equipment.file_reading import FileReader
from mcp_subagents.equipment.folders import CAN_WALK, Folder, Refused
from mcp_subagents.equipment.kits import Equipment
from mcp_subagents.equipment.sound_files import sound
from mcp_subagents.equipment.soundness import workspace_of
from mcp_subagents.errors import ConfigError

OWN = "the user's own key"


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in the home of a user, whose app starts servers in the home; both have a folder `data`."""
    project = home / "project"
    for folder in (home, project):
        (folder / "data").mkdir(parents=True)
    (home / "data" / "key").write_text(OWN, encoding="utf-8")
    (project / "data" / "key").write_text("the project's", encoding="utf-8")
    (project / "subagents.yaml").write_text("agents: auto\n", encoding="utf-8")
    monkeypatch.chdir(home)
    return project


def stored(project: Path, extras: str) -> SubAgentConfig:
    """The subagent of a project's file, as it comes back with a task."""
    agent = project / ".claude" / "agents" / "a.md"
    agent.parent.mkdir(parents=True)
    agent.write_text(f"---\nname: a\ndescription: x\nx-mcp-subagents: {extras}\n---\nHelp.\n", encoding="utf-8")
    config = sound(load(str(project / "subagents.yaml"), {}), {})
    [spec] = config.subagents
    roster = Roster([spec.to_config()], default_model="test", equipment=Equipment(base=config.folder))
    return roster.compiled("a", roster.definition("a")).config


def texts(config: SubAgentConfig) -> str:
    return context_of(config.get("context_files", []))


def moved_away(project: Path) -> None:
    """What a `git pull` may bring: the folder has become a link to the user's."""
    (project / "data").rename(project / "was")
    (project / "data").symlink_to(project.parent / "data")


def test_a_path_that_looks_confined_already_is_one_of_the_project(project: Path):
    config = stored(project, "{context_files: ['data/./key']}")
    assert "the project's" in texts(config)


@pytest.mark.parametrize("name", ["data/key", "{project}/data/key"], ids=["relative", "absolute"])
def test_a_context_file_is_looked_for_inside_the_project_every_time(project: Path, name: str):
    config = stored(project, f"{{context_files: ['{name.format(project=project)}']}}")
    assert "the project's" in texts(config)
    moved_away(project)
    assert OWN not in texts(config)
    assert "cannot be read: That path leads outside the folder" in texts(config)


@pytest.mark.parametrize("name", ["data", "./data/.", "{project}/data"], ids=["relative", "untidy", "absolute"])
@pytest.mark.parametrize("can_walk", [CAN_WALK, False], ids=["walked", "resolved"])
def test_a_workspace_is_looked_for_inside_the_project_every_time(project: Path, name: str, can_walk: bool):
    found = workspace_of(stored(project, f"{{workspace: '{name.format(project=project)}'}}"))
    assert found is not None
    reader = FileReader(Folder(found[0], can_walk=can_walk))
    assert reader.read_file("key") == "the project's"
    with pytest.raises(Refused, match="outside the folder"):
        reader.read_file("../subagents.yaml")
    moved_away(project)
    for path in ("key", ".", str(project.parent / "data" / "key"), str(project / "data" / "key")):
        with pytest.raises(Refused, match="outside the folder"):
            reader.read_file(path)


@pytest.mark.skipif(not CAN_WALK, reason="this platform cannot walk")
def test_a_workspace_that_becomes_a_link_after_it_was_opened_is_still_the_projects(project: Path):
    with Folder(Inside(project, "data")).spot("key") as spot:
        moved_away(project)
        (project / "was" / "key").unlink()
        with pytest.raises(Refused, match="There is no 'key'"):
            spot.read()


def test_a_workspace_that_leads_out_of_its_project_is_a_mistake_and_says_where(project: Path):
    place: Any = {"path": f"{project}/./data", "read_only": True}
    roster = Roster([SubAgentConfig(name="a", description="", instructions="", model="test", workspace=place)])
    moved_away(project)
    with pytest.raises(ConfigError) as caught:
        roster.compiled("a", roster.definition("a"))
    assert str(caught.value) == (
        f"The workspace of the subagent 'a' cannot be used, 'data' in {project}: "
        "That path leads outside the folder, by a link."
    )


def test_a_definition_of_before_that_is_confined_to_nothing_is_not_opened(project: Path):
    assert context_of(["data/./key"]) == (
        "[The context file 'key' cannot be read: The folder 'data' could be anywhere: its path is not absolute.]"
    )


def test_what_a_configuration_file_names_is_relative_to_it_however_it_is_written(project: Path):
    text = "subagents: [{name: a, model: test, context_files: ['data/./key'], workspace: data/./.}]\n"
    (project / "subagents.yaml").write_text(text, encoding="utf-8")
    [spec] = sound(load(str(project / "subagents.yaml"), {}), {}).subagents
    assert "the project's" in texts(spec.to_config())
    assert spec.workspace == str(project / "data")
