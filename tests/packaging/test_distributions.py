"""The wheel and the sdist: what is in them, and that they work where nothing else is."""

import hashlib
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from distributions import ROOT, TOOLS, Environment, build, elsewhere, listed, run

pytestmark = pytest.mark.slow

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = PROJECT["version"]
NOT_SHIPPED = {".ci/run", ".gitignore"}


def under_version_control() -> set[str]:
    """The files of this checkout that are, or will be, in its next commit."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout: there is no list of files to compare with")
    return {name for name in done.stdout.splitlines() if (ROOT / name).exists()}


def in_wheel(dist: Path) -> dict[str, bytes]:
    [path] = dist.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def test_the_wheel_holds_the_package_and_nothing_else(dist: Path):
    package = {name for name in under_version_control() if name.startswith("mcp_subagents/")}
    info = f"mcp_subagents-{VERSION}.dist-info"
    about = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    names = set(in_wheel(dist))
    assert names == package | {f"{info}/{name}" for name in about}
    assert {
        "mcp_subagents/py.typed",
        "mcp_subagents/config/subagents.schema.json",
        "mcp_subagents/store/migrations/0001_tasks.sql",
    } <= names


def test_the_sdist_holds_all_that_make_needs(dist: Path):
    [path] = dist.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    # hatchling adds the first by itself, and says in the second what it has built.
    assert names - {".gitignore"} == under_version_control() - NOT_SHIPPED | {"PKG-INFO"}


def test_the_wheel_of_the_sdist_is_the_wheel_of_the_checkout(dist: Path, tmp_path: Path):
    [of_sdist] = dist.glob("*.whl")
    [of_checkout] = build(tmp_path, "--wheel").glob("*.whl")
    assert of_sdist.name == of_checkout.name == f"mcp_subagents-{VERSION}-py3-none-any.whl"
    assert hashlib.sha256(of_sdist.read_bytes()).hexdigest() == hashlib.sha256(of_checkout.read_bytes()).hexdigest()


def test_the_installed_command_says_its_version(clean: Environment, tmp_path: Path):
    said = run(clean.program("mcp-subagents"), "--version", cwd=tmp_path, env=elsewhere(tmp_path))
    assert said == f"mcp-subagents {VERSION}\n"


def test_what_is_installed_is_the_wheel_and_only_its_core_dependencies(clean: Environment, tmp_path: Path):
    others = ["openai", "anthropic", "pytest"]
    show = (
        "import mcp_subagents, sys; from importlib.util import find_spec;"
        "print(mcp_subagents.__file__, *map(find_spec, sys.argv[1:]))"
    )
    said = run(clean.program("python"), "-c", show, *others, cwd=tmp_path, env=elsewhere(tmp_path))
    file, *found = said.split()
    assert Path(file).is_relative_to(clean.folder)
    assert found == ["None"] * len(others)


@pytest.mark.parametrize("command", [["mcp-subagents"], ["python", "-m", "mcp_subagents"]], ids=["command", "module"])
async def test_the_installed_server_answers_a_host(clean: Environment, tmp_path: Path, command: list[str]):
    program, *arguments = command
    answer = await listed(clean.program(program), *arguments, home=tmp_path)
    assert {tool.name for tool in answer.tools} == TOOLS


def test_the_installed_command_has_its_schema(clean: Environment, tmp_path: Path):
    said = run(clean.program("mcp-subagents"), "schema", cwd=tmp_path, env=elsewhere(tmp_path))
    assert said == (ROOT / "mcp_subagents/config/subagents.schema.json").read_text(encoding="utf-8")
