"""What docs/configuration.md and docs/agent-files.md say is true."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from mcp_subagents.cli import main
from mcp_subagents.config.agent_files.folders import IN_HOME, IN_PROJECT
from mcp_subagents.config.files import FileConfig, read_text
from mcp_subagents.config.schema import SHIPPED
from mcp_subagents.config.spec import SubAgentSpec

DOCS = Path(__file__).resolve().parent.parent / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
AGENT_FILES = (DOCS / "agent-files.md").read_text(encoding="utf-8")
README = (DOCS.parent / "README.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def keys(page: str) -> list[list[str]]:
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    return [re.findall(r"`([^`]+)`", row[0]) for row in rows]


SAMPLES = [*blocks(CONFIGURATION, "yaml")[:2], blocks(README, "yaml")[0]]


@pytest.mark.parametrize("text", SAMPLES, ids=["whole", "list", "README"])
def test_a_sample_is_a_configuration_for_the_server_and_for_editors(text: str, tmp_path: Path):
    said, wrong = read_text(text, tmp_path / "subagents.yaml")
    assert wrong == []
    assert said.subagents
    validator: Any = Draft202012Validator(json.loads(SHIPPED.read_text(encoding="utf-8")))
    assert list(validator.iter_errors(yaml.safe_load(text))) == []


def test_the_mistakes_are_told_as_shown(home: Path, capsys: pytest.CaptureFixture[str]):
    (home / "subagents.yaml").write_text(blocks(CONFIGURATION, "yaml")[2], encoding="utf-8")
    assert main([]) == 2
    [shown] = blocks(CONFIGURATION, "text")
    assert tuple(capsys.readouterr()) == ("", shown)


def test_every_key_of_the_file_has_a_row():
    assert {key for row in keys(CONFIGURATION) for key in row if "mcp-subagents" not in key} == {
        *FileConfig.model_fields
    }


def test_agents_check_prints_what_is_shown(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    project = home / "project"
    path = project / ".claude/agents/reviewer.md"
    path.parent.mkdir(parents=True)
    path.write_text(blocks(AGENT_FILES, "markdown")[0], encoding="utf-8")
    monkeypatch.chdir(project)
    assert main(["agents", "check", "--agents", "auto"]) == 0
    [shown] = blocks(AGENT_FILES, "text")
    assert capsys.readouterr().out.replace(f"{project}/", "") == shown


def test_the_folders_are_those_that_are_read_in_that_order():
    rows = [line.strip("|").split("|") for line in AGENT_FILES.splitlines() if line.startswith("|")][2:9]
    told = [[re.findall(r"`([^`]+)`", cell)[0] for cell in row[1:3]] for row in rows]
    assert told == [list(each) for each in zip(IN_PROJECT, IN_HOME, strict=True)]


def test_what_is_honoured_goes_to_keys_that_exist():
    table = AGENT_FILES.partition("## What is honoured")[2]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")][2:]
    named = {each for row in rows for each in re.findall(r"`(\w+)`", row[1].partition(";")[0])}
    assert named - {"WebFetch", "WebSearch", "requests", "seconds"} <= {*SubAgentSpec.model_fields}


@pytest.mark.parametrize("page", ["configuration.md", "agent-files.md"])
def test_a_page_links_only_to_files_that_exist_and_is_linked(page: str):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (DOCS / page).read_text(encoding="utf-8"))
    assert [link for link in links if not (DOCS / link).exists()] == []
    assert f"docs/{page}" in README
