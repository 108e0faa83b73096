"""`mcp-subagents agents` and `mcp-subagents schema`: what they print, where, and with which exit code."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcp_subagents.cli import main
from mcp_subagents.config.environment import load
from mcp_subagents.config.files import read_text
from mcp_subagents.config.schema import SHIPPED
from mcp_subagents.config.spec import SubAgentSpec

SAMPLES = Path(__file__).with_name("agent_files")
AGENT = "---\nname: {}\ndescription: Helps.\ntools: Read\n---\nHelp.\n"


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = home / "project"
    (project / ".claude/agents").mkdir(parents=True)
    monkeypatch.chdir(project)
    return project


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_list_shows_what_a_server_would_have(project: Path, capsys: pytest.CaptureFixture[str]):
    put(project / "subagents.yaml", "agents: auto\nmodel: test\nsubagents:\n- name: a\n  model: openai:gpt-5\n")
    helper = put(project / ".claude/agents/b.md", AGENT.format("b"))
    assert main(["agents", "list"]) == 0
    assert capsys.readouterr().out == f"a  (openai:gpt-5, subagents.yaml)\nb  (test, {helper})\n    Helps.\n"
    assert main(["agents", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"name": "a", "description": "", "model": "openai:gpt-5", "source": "subagents.yaml"},
        {"name": "b", "description": "Helps.", "model": "test", "source": str(helper)},
    ]


def test_list_marks_what_cannot_work_and_says_why(project: Path, capsys: pytest.CaptureFixture[str]):
    file = (
        "agents: auto\nmcp_servers: {issues: {command: x, args: ['${UNSET_TOKEN}']}, odd: {command: no-such-program}}\n"
    )
    put(project / "subagents.yaml", file + "subagents: [{name: a, mcp_servers: [odd]}]")
    broken = put(project / ".claude/agents/b.md", AGENT.format("b").replace("Read", "mcp__issues__find"))
    assert main(["agents", "list"]) == 0
    why = (
        "tools: the tool server 'issues' needs the environment variable UNSET_TOKEN, which is not set. Set it where "
        "mcp-subagents is started, or give a default: ${UNSET_TOKEN:-...}"
    )
    doubt = "there is no command 'no-such-program' here; until there is one, tasks that need it fail"
    assert tuple(capsys.readouterr()) == (
        f"a  (test, subagents.yaml)\nb  (cannot work, {broken})\n    4: {why}\n",
        f"mcp-subagents: warning: subagents.yaml:2: mcp_servers.odd.command: {doubt}\n",
    )
    assert main(["agents", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == {
        **{"name": "b", "description": "", "model": None, "source": str(broken)},
        "mistakes": [f"{broken}:4: {why}"],
    }
    assert main(["agents", "check"]) == 2
    assert f"warning: subagents.yaml:2: mcp_servers.odd.command: {doubt}" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["list"], ["show", "a"], ["check"], ["import", "a.md"]], ids=" ".join)
def test_a_file_that_a_server_refuses_is_refused_by_all(
    command: list[str], project: Path, capsys: pytest.CaptureFixture[str]
):
    put(project / "subagents.yaml", "subagents:\n- name: a\n  subagents: [reseacher]\n- name: researcher\n")
    # Which nobody has asked for, so that it is no subagent of a server.
    put(project / ".claude/agents/reseacher.md", AGENT.format("reseacher"))
    told = "subagents.yaml:3: subagents[0].subagents[0]: there is no subagent 'reseacher' to delegate to"
    assert main(["agents", *command]) == 2
    assert capsys.readouterr().err == f"mcp-subagents: {told}; did you mean 'researcher'?\n"


def test_check_counts_every_file(project: Path, capsys: pytest.CaptureFixture[str]):
    for name, text in {"a": AGENT.format("a"), "b": AGENT.format("A"), "c": "---\n"}.items():
        put(project / f".claude/agents/{name}.md", text)
    assert main(["agents", "check", "--agents", "auto"]) == 2
    assert capsys.readouterr().out.splitlines()[-1] == "3 agent files: 1 used, 1 with mistakes, 1 left out, 0 notes."


def test_import_can_be_told_whose_a_file_is(project: Path, capsys: pytest.CaptureFixture[str]):
    path = put(project / "auditor.md", "---\nname: a\ndescription: b\nmax_turns: 7\ntimeout_mins: 2\n---\nLook.\n")
    assert main(["agents", "import", str(path)]) == 0
    assert "limits" not in capsys.readouterr().out
    assert main(["agents", "import", str(path), "--dialect", "gemini"]) == 0
    out, err = capsys.readouterr()
    assert yaml.safe_load(out)["subagents"][0]["limits"] == {"requests": 7, "seconds": 120}
    assert "unknown key" not in err


def test_import_says_what_keeps_it_from_working(project: Path, capsys: pytest.CaptureFixture[str]):
    put(project / "subagents.yaml", "mcp_servers: {issues: {command: x, args: ['${UNSET_TOKEN}']}}")
    path = put(project / "a.md", AGENT.format("a").replace("Read", "mcp__issues__find"))
    assert main(["agents", "import", str(path)]) == 0
    assert f"it cannot work yet: {path}:4: tools: the tool server 'issues' needs" in capsys.readouterr().err


def test_list_says_so_if_there_is_nothing(project: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["agents", "list"]) == 0
    assert capsys.readouterr().out.startswith("There is only general-purpose: no file names a subagent.")


def test_check_finds_what_is_not_honoured_and_is_content(project: Path, capsys: pytest.CaptureFixture[str]):
    path = put(project / ".claude/agents/b.md", AGENT.format("b").replace("Read", "Read, Bash"))
    assert main(["agents", "check"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{path}:4: tools: Bash: shell and writing are never granted by an agent file",
        "1 agent file: 1 used, 0 with mistakes, 1 note.",
        "No configuration asks for them yet: `agents: auto` in subagents.yaml does, or --agents auto.",
    ]
    assert main(["agents", "check", "--json", "--agents", "auto"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "mistakes": [],
        "notes": [
            {
                "file": str(path),
                "what": "Bash: shell and writing are never granted by an agent file",
                "place": "tools",
                "line": 4,
            }
        ],
        "warnings": [],
        "left_out": [],
        "subagents": [{"name": "b", "description": "Helps.", "model": "test", "source": str(path)}],
    }


def test_check_fails_for_what_names_something_that_is_not_there(project: Path, capsys: pytest.CaptureFixture[str]):
    put(project / "subagents.yaml", "agents: auto\nmcp_servers: {issues: {command: x, args: ['${UNSET_TOKEN}']}}")
    path = put(project / ".claude/agents/b.md", AGENT.format("b").replace("Read", "mcp__issues__find"))
    assert main(["agents", "check"]) == 2
    assert capsys.readouterr().out.startswith(
        f"{path}:4: tools: the tool server 'issues' needs the environment variable UNSET_TOKEN"
    )
    put(project / "subagents.yaml", "subagents: [{name: a, mcp_servers: [issues]}]")
    assert main(["agents", "check"]) == 2
    assert "'issues'" in capsys.readouterr().err


@pytest.mark.slow
def test_check_starts_tool_servers_only_if_asked_to(project: Path, capsys: pytest.CaptureFixture[str]):
    servers = {
        "bench": {"command": sys.executable, "args": [str(Path(__file__).parent / "equipment/toolbench.py")]},
        "broken": {"command": sys.executable, "args": ["-c", "import sys; sys.exit('out of order')"]},
    }
    subagents = [
        {"name": "good", "mcp_servers": ["bench"], "tools": ["bench__add"]},
        {"name": "misspelt", "mcp_servers": ["bench"], "tools": ["bench__ad"]},
        {"name": "down", "mcp_servers": ["broken"]},
    ]
    put(project / "subagents.yaml", yaml.safe_dump({"mcp_servers": servers, "subagents": subagents}))
    assert main(["agents", "check"]) == 0
    assert "cannot work" not in capsys.readouterr().out
    assert main(["agents", "check", "--tools"]) == 2
    captured = capsys.readouterr()
    misspelt, down, _, _, last = captured.out.splitlines()
    assert misspelt.startswith("subagents.yaml: misspelt: ")
    assert "did you mean 'bench__add'?" in misspelt
    assert down.startswith("subagents.yaml: down: ")
    assert "out of order" in down
    assert last == "3 subagents: 2 cannot work."
    assert captured.err == ""
    assert main(["agents", "check", "--tools", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)["mistakes"]
    assert [(each["file"], each["subagent"]) for each in found] == [
        ("subagents.yaml", "misspelt"),
        ("subagents.yaml", "down"),
    ]


def test_check_fails_for_a_file_that_cannot_be_used(project: Path, capsys: pytest.CaptureFixture[str]):
    path = put(project / ".claude/agents/b.md", "---\nname: b\n---\n")
    put(project / ".claude/agents/c.md", AGENT.format("c"))
    assert main(["agents", "check", "--agents", "auto"]) == 2
    assert capsys.readouterr().out.splitlines()[0] == f"{path}: description: is missing"
    assert main(["agents", "check", "--agents", "auto", "--json"]) == 2
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["mistakes"] == [{"file": str(path), "what": "is missing", "place": "description", "line": None}]
    assert [each["name"] for each in found["subagents"]] == ["c"]


def test_check_fails_for_a_broken_configuration(project: Path, capsys: pytest.CaptureFixture[str]):
    put(project / "subagents.yaml", "modle: a\n")
    told = "subagents.yaml:1: modle: unknown key, did you mean 'model'?"
    assert main(["agents", "check"]) == 2
    assert tuple(capsys.readouterr()) == ("", f"mcp-subagents: {told}\n")
    assert main(["agents", "check", "--json"]) == 2
    assert json.loads(capsys.readouterr().out) == {
        **{"mistakes": [told], "notes": [], "warnings": []},
        **{"left_out": [], "subagents": []},
    }


def test_a_folder_that_is_not_there_is_a_mistake(project: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["agents", "list", "--agents", "nowhere"]) == 2
    assert capsys.readouterr().err == f"mcp-subagents: --agents: there is no folder '{project / 'nowhere'}'\n"


def test_show_finds_a_subagent_however_it_is_spelt(project: Path, capsys: pytest.CaptureFixture[str]):
    put(project / "subagents.yaml", "subagents:\n- name: Code Reviewer\n  model: test\n")
    assert main(["agents", "show", "code-reviewer"]) == 0
    assert capsys.readouterr().out == (
        "# subagents.yaml\nsubagents:\n- name: Code Reviewer\n  description: ''\n  instructions: ''\n  model: test\n"
    )
    assert main(["agents", "show", "CODE_REVIEWER", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "source": "subagents.yaml",
        "subagent": {"name": "Code Reviewer", "description": "", "instructions": "", "model": "test"},
    }
    assert main(["agents", "show", "writer"]) == 2
    assert "No subagent is named 'writer'. Configured: Code Reviewer." in capsys.readouterr().err


def test_show_tells_what_is_not_honoured(project: Path, capsys: pytest.CaptureFixture[str]):
    put(project / ".claude/agents/b.md", AGENT.format("b").replace("Read", "Bash"))
    assert main(["agents", "show", "b", "--agents", "auto"]) == 0
    assert "b.md:4: tools: Bash: shell and writing are never granted by an agent file" in capsys.readouterr().err


FOLDERS = {
    "claude.md": ".claude/agents",
    "copilot.agent.md": ".github/agents",
    "codex.toml": ".codex/agents",
    "gemini.md": ".gemini/agents",
    "opencode.md": ".opencode/agents",
    "cursor.md": ".cursor/agents",
    "generic.md": ".agents/agents",
}


@pytest.mark.parametrize("as_json", [False, True], ids=["YAML", "JSON"])
@pytest.mark.parametrize("sample", FOLDERS)
def test_what_import_prints_is_read_again_as_the_same(
    project: Path, sample: str, as_json: bool, capsys: pytest.CaptureFixture[str]
):
    put(project / "subagents.yaml", "mcp_servers: {github: {command: github-mcp}}\nagents: auto\n")
    put(project / "docs/a.md", "")
    put(project / "README.md", "")
    path = project / FOLDERS[sample] / sample
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(SAMPLES / sample, path)
    served = load(None, {}).subagents[0]
    assert main(["agents", "import", str(path), *(["--json"] if as_json else [])]) == 0
    said, wrong = read_text(capsys.readouterr().out, project / f"other.{'json' if as_json else 'yaml'}")
    assert wrong == []
    [imported] = said.subagents
    # Whom it can delegate to depends on who else is there.
    assert imported.model_copy(update={"subagents": None}) == served.model_copy(update={"subagents": None})


def test_import_refuses_what_cannot_be_used(project: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["agents", "import", "nowhere.md"]) == 2
    assert capsys.readouterr().err == "mcp-subagents: nowhere.md: there is no such file\n"


def test_texts_that_yaml_could_misread_come_back(project: Path):
    from mcp_subagents.cli.agents import as_yaml

    for text in ("yes", "1.5", "null", " a\n b \n\n", "a: b # c", "\ttab\nend", "é\u2028x\ny", "---\n...\n", "'\"\\\n"):
        spec = SubAgentSpec(name="a", instructions=text)
        assert yaml.safe_load(as_yaml([spec]))["subagents"][0]["instructions"] == text


def test_schema_prints_the_schema(capsys: pytest.CaptureFixture[str]):
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == SHIPPED.read_text(encoding="utf-8")
