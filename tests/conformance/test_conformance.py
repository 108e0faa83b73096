"""The official conformance suite, run against our server with the fixtures that the suite asks for."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from listening import listening
from node_tools import install, node
from scenarios import EXCEPTIONS, NOT_OURS, SCENARIOS

pytestmark = pytest.mark.slow

SERVER = Path(__file__).with_name("fixture_server.py")
CASES = [(revision, scenario) for revision, scenarios in SCENARIOS.items() for scenario in sorted(scenarios)]
Checks = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
LONGEST_RUN = 150
"""Seconds for all scenarios together; 20 on a machine that does nothing else."""


@pytest.fixture(scope="module")
def suite() -> str:
    """The program, installed if it is not there."""
    return str(install() / "@modelcontextprotocol/conformance/dist/index.js")


@pytest.fixture(scope="module")
def checks(suite: str, tmp_path_factory: pytest.TempPathFactory) -> Checks:
    """What the suite has checked, by revision and scenario."""
    folder = tmp_path_factory.mktemp("conformance")
    anyio.run(_run, suite, folder)
    return {(revision, name): found for revision in SCENARIOS for name, found in _read(folder / revision).items()}


async def _run(suite: str, folder: Path) -> None:
    """Run all scenarios, and leave in `folder` what was found. Each revision takes one start of Node."""
    with anyio.fail_after(LONGEST_RUN):
        async with listening(str(SERVER), str(folder / "tasks.db")) as [url], anyio.create_task_group() as group:
            for revision in SCENARIOS:
                arguments = ["--url", url, "--requirements", revision, "-o", str(folder / revision)]
                group.start_soon(node, suite, "server", *arguments)


def _read(folder: Path) -> dict[str, Any]:
    """Each scenario has a folder, named for it and for the time of its run."""
    names = {path: re.sub(r"^server-|-\d{4}-\d\d-\d\dT[-\d]+Z$", "", path.parent.name) for path in folder.glob("*/*")}
    return {name: json.loads(path.read_text(encoding="utf-8")) for path, name in names.items()}


@pytest.mark.parametrize(("revision", "scenario"), CASES, ids=[f"{name} at {revision}" for revision, name in CASES])
def test_scenario(revision: str, scenario: str, checks: Checks):
    found = checks[revision, scenario]
    passed = [each["id"] for each in found if each["status"] == "SUCCESS"]
    others = [
        f"{each['status']} {each['id']}: {each.get('errorMessage')} {json.dumps(each.get('details'))}"
        for each in found
        if each["status"] not in ("SUCCESS", "INFO")
    ]
    if scenario in EXCEPTIONS:
        assert others, "it passes: it is no exception any more"
    else:
        assert others == []
        assert passed


def test_every_scenario_is_run_or_said_not_to_be_ours(suite: str, checks: Checks):
    listed = anyio.run(node, suite, "list", "--server").stdout.decode()
    names = set(re.findall(r"^  - ([\w.-]+)", listed, flags=re.MULTILINE))

    assert set(checks) == set(CASES)
    assert names == {scenario for _, scenario in CASES} | NOT_OURS.keys()


def test_every_exception_is_one_of_a_scenario_that_is_run():
    assert EXCEPTIONS.keys() <= {scenario for _, scenario in CASES}


def test_the_lock_file_names_no_registry():
    lock = json.loads(Path(__file__).with_name("package-lock.json").read_text(encoding="utf-8"))

    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
