"""What the documents say is true: their code runs, their tables are complete, their names exist."""

import ast
import json
import os
import re
import runpy
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import mcp_subagents
from mcp_subagents.addresses import AGENTS, RESULT, TASK, TASKS, TRANSCRIPT
from mcp_subagents.cli.arguments import EPILOG
from mcp_subagents.config.limits import EngineSettings, Limits
from mcp_subagents.server.hosts import HOSTS
from mcp_subagents.server.toolbox import FACES
from mcp_subagents.views import FailureView, TaskView, UsageView

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def blocks() -> Iterator[tuple[str, str, str]]:
    """The Python on every page, and what it is said to print."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        found = re.findall(r"```python\n(.*?)```\n(?:[^`#|]*```text\n(.*?)```)?", text, flags=re.DOTALL)
        assert len(found) == text.count("```python"), f"a block on {page} is not seen"
        yield from ((f"{page} {number}", code, output) for number, (code, output) in enumerate(found, start=1))


BLOCKS = list(blocks())


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def server() -> dict[str, Any]:
    return json.loads((ROOT / "server.json").read_text(encoding="utf-8"))


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    """The text under the heading `title`, up to the next one of its level."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, flags=re.DOTALL | re.MULTILINE)
    assert found, f"no section {title!r}"
    return found[1]


def anchors(path: Path) -> list[str]:
    """What can stand behind a `#`, as GitHub makes it of headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def column(text: str, index: int) -> list[str]:
    """The names in backticks in one column of the tables in `text`."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row[index])]


def text_files() -> Iterator[tuple[str, str]]:
    """Every file that is, or may come to be, under version control: by relative path, with its text."""
    generated = {"__pycache__", "dist", "build"}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if f == ".ci" or not (f.startswith(".") or f in generated or "egg-info" in f)]
        for name in names:
            if name == ".git" or name.startswith(".coverage"):
                continue
            path = Path(folder, name)
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize(("code", "output"), [each[1:] for each in BLOCKS], ids=[each[0] for each in BLOCKS])
def test_python_on_a_page_prints_what_the_page_shows(
    code: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "block.py"
    program.write_text(code, encoding="utf-8")

    runpy.run_path(str(program), run_name="__main__")

    assert capsys.readouterr().out == output


def test_pages_show_python_with_its_output() -> None:
    assert {each.partition(" ")[0] for each, _, output in BLOCKS if output} >= {"README.md", "docs/python.md"}


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_its_docstring_promises(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    _, _, promised = docstring.partition("Prints:\n\n")
    assert promised

    done = subprocess.run(
        [sys.executable, "-W", "error", path], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.strip() == textwrap.dedent(promised).strip()


def test_the_table_of_public_names_is_complete() -> None:
    named = column(section(page("python"), "The public names"), -1)

    assert sorted(named) == sorted(mcp_subagents.__all__)


def test_every_public_name_can_be_loaded() -> None:
    missing = [name for name in mcp_subagents.__all__ if not hasattr(mcp_subagents, name)]

    assert missing == []


def test_the_map_names_every_module_and_no_other() -> None:
    package = ROOT / "mcp_subagents"
    modules = [
        p.relative_to(package).as_posix() for p in package.rglob("*.py") if p.read_text(encoding="utf-8").strip()
    ]

    assert sorted(column(section(CONTRIBUTING, "The map"), 0)) == sorted(modules)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_mentions_only_make_targets_that_exist(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE))
    text = (ROOT / page).read_text(encoding="utf-8")

    assert set(re.findall(r"(?:`|^)make ([a-z]+)", text, flags=re.MULTILINE)) <= targets


@pytest.mark.parametrize("page", PAGES)
def test_a_page_links_only_to_files_that_exist(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", path.read_text(encoding="utf-8"))
    local = [(path.parent / link if link else path, anchor) for link, anchor in links if "://" not in link]

    assert [str(target) for target, _ in local if not target.exists()] == []
    assert [anchor for target, anchor in local if anchor and anchor not in anchors(target)] == []


def test_every_page_is_reached_from_the_readme() -> None:
    assert [each for each in PAGES if each != "README.md" and f"({each})" not in README] == []


def test_server_json_describes_this_package() -> None:
    entry, version = server(), project()["version"]
    [package] = entry["packages"]

    assert entry["$schema"].endswith("/2025-12-11/server.schema.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 1 <= len(entry["description"]) <= 100
    assert (entry["version"], package["version"]) == (version, version)
    assert package["registryType"] == "pypi"
    assert package["identifier"] == project()["name"]
    assert package["transport"] == {"type": "stdio"}


def test_server_json_asks_for_no_variable_that_must_be_set() -> None:
    [package] = server()["packages"]
    variables = {variable["name"]: variable for variable in package["environmentVariables"]}

    ours = sorted(name for name in variables if name.startswith("MCP_SUBAGENTS_"))
    assert ours == ["MCP_SUBAGENTS_CONFIG", "MCP_SUBAGENTS_MODEL", "MCP_SUBAGENTS_STORE"]
    assert all(variable["description"] for variable in variables.values())
    assert not any(variable.get("isRequired") for variable in variables.values())


def test_the_readme_claims_the_name_in_server_json() -> None:
    # The registry reads this marker in the published description, to see that both have one owner.
    marker = f"mcp-name: {server()['name']}"

    assert re.search(rf"{re.escape(marker)}(?![\w./-])", README)


# Written so that neither pattern matches its own source. `me` and `you` are nobody: their homes are samples.
CONFIGURED = r"index[-_]url[\"']?(?:\s*[=:]|\s+http)"
REGISTRY = rf"(?i)pypi\.(?:org|io)|pythonhosted\.|npmjs\.|anaconda\.|/simple(?=[/\"'\s])|{CONFIGURED}"
HOME = r"(?:home|Users)/(?!(?:me|yours?|you)\b)\w|root/\w"
MACHINE_PATH = rf"(?<![\w.~/])/(?:{HOME}|(?:work|tmp|private)/\w)|\b[A-Z]:\\\w"


@pytest.mark.parametrize("pattern", [REGISTRY, MACHINE_PATH], ids=["package registry", "path of a machine"])
def test_no_file_names_a(pattern: str) -> None:
    found = [
        f"{path}:{number}: {match[0]}"
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), start=1)
        for match in re.finditer(pattern, line)
    ]

    assert found == []


def test_no_file_names_the_path_of_this_checkout() -> None:
    assert [path for path, text in text_files() if str(ROOT) in text] == []


def test_every_limit_and_setting_is_told_with_its_default():
    text = section(page("python"), "Limits and settings")
    told = {
        name: row.strip("|").split("|")[1].strip().replace(",", "")
        for row in text.splitlines()
        if row.startswith("|")
        for name in re.findall(r"`([^`]+)`", row.strip("|").split("|")[0])
    }
    told.pop("EngineSettings")
    settings, limits = EngineSettings(), Limits()
    real = {each.name: getattr(settings, each.name) for each in fields(EngineSettings)}
    real |= {each.name: getattr(limits, each.name) for each in fields(Limits)}
    words = {name: "none" if value is None else str(value) for name, value in real.items()}
    assert told == {**words, "limits": "the table above"}


def test_the_tables_of_tools_are_complete() -> None:
    for text in (section(README, "What your app gets"), section(page("mcp"), "Tools")):
        assert re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE) == list(FACES)


def test_the_table_of_resources_is_complete() -> None:
    named = re.findall(r"^\| `([^`]+)` \|", section(page("mcp"), "Resources"), re.MULTILINE)
    assert named == [AGENTS, TASKS, TASK, RESULT, TRANSCRIPT]


def test_the_arguments_of_tools_are_told_with_their_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section(page("mcp"), "Tools"), re.MULTILINE)
    told = {tool: re.findall(r"`(\w+)(?:=([^`]*))?`", arguments) for tool, arguments in rows}
    listed: list[Any] = json.loads((ROOT / "tests/behaviour/tools.json").read_text(encoding="utf-8"))
    assert told == {
        tool["name"]: [
            (name, json.dumps(each["default"]) if "default" in each and each["default"] is not None else "")
            for name, each in tool["inputSchema"]["properties"].items()
        ]
        for tool in listed
    }


def test_the_fields_of_a_task_are_all_told() -> None:
    text = section(page("mcp"), "A task")
    rows = [line.strip("|").split("|")[0] for line in text.splitlines() if line.startswith("| `")]
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == list(TaskView.model_fields)
    told = set(re.findall(r"`(\w+)`", text))
    assert set(FailureView.model_fields) <= told
    assert {name for name, field in UsageView.model_fields.items() if not field.exclude} <= told


def test_the_table_of_hosts_says_what_the_code_does() -> None:
    text = section(README, "How long a call waits")
    told = dict(re.findall(r"^\| `([^`]+)` \| (\d+) s", text, re.MULTILINE))
    assert told == {name: f"{host.patience:.0f}" for name, host in HOSTS.items()}
    remote = {name: f"{host.patience_remote:.0f}" for name, host in HOSTS.items() if host.patience_remote is not None}
    assert dict(re.findall(r"^\| `([^`]+)` \| .*over the network (\d+) s", text, re.MULTILINE)) == remote


def test_every_variable_of_ours_is_in_the_readme_and_in_help() -> None:
    read = set(
        re.findall(
            r"MCP_SUBAGENTS_\w+",
            "".join(path.read_text("utf-8") for path in (ROOT / "mcp_subagents/config").glob("*.py")),
        )
    )
    for told in (section(README, "Settings"), EPILOG):
        assert read <= set(re.findall(r"MCP_SUBAGENTS_\w+", told))
