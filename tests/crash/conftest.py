from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from mcp_subagents.records import EntryKind
from tests.crash.scene import Nursery, Scene, open_nursery
from tests.crash.verdict import Evidence, judge, most_that_cuts_explain, price_of

SUMMARIES = pytest.StashKey[list[str]]()

SetUp = Callable[..., Scene]
Uphold = Callable[[Scene, str], None]


@pytest.fixture(scope="session")
def nursery() -> Generator[Nursery]:
    with open_nursery() as nursery:
        yield nursery


@pytest.fixture
def set_up(nursery: Nursery, tmp_path: Path) -> Generator[SetUp]:
    """Makes a scene; its arguments are engine settings."""
    with ExitStack() as scenes:

        def make(**settings: Any) -> Scene:
            return scenes.enter_context(closing(Scene(tmp_path, nursery, **settings)))

        yield make


@pytest.fixture
def uphold(request: pytest.FixtureRequest) -> Uphold:
    """Asserts that every promise was kept in a scene, and adds a line of numbers to the report."""

    def check(scene: Scene, what: str) -> None:
        evidence = scene.evidence()
        summary = f"{what}: {_in_numbers(evidence)}"
        request.config.stash.setdefault(SUMMARIES, []).append(summary)
        assert judge(evidence).wrong() == {}, f"{summary}\n{scene.logs()}"
        price, most = price_of(evidence), most_that_cuts_explain(evidence)
        assert price.requests <= most.requests, summary
        assert price.lookups <= most.lookups, summary
        assert price.interrupted <= most.interrupted, summary

    return check


def _in_numbers(evidence: Evidence) -> str:
    verdict, price, most = judge(evidence), price_of(evidence), most_that_cuts_explain(evidence)
    entries = [entry for journal in evidence.journals.values() for entry in journal]
    answers = sum('"type": "answer"' in entry.body for entry in entries if entry.kind is EntryKind.EVENT)
    return (
        f"{len(evidence.cut_short)} cuts, {len(evidence.accepted)} tasks accepted, {len(verdict.lost)} lost, "
        f"{len(verdict.asked_again)} recorded turns asked again, {len(verdict.effects_twice)} side effects twice, "
        f"{answers} answers; in flight: {price.requests} requests asked again (at most {most.requests}), "
        f"{price.lookups} harmless calls run again, {price.interrupted} calls told as interrupted"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(SUMMARIES, list[str]()):
        terminalreporter.write_line(line)
