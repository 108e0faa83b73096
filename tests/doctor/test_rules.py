"""What findings come to, and the rules that judge what cannot be planted."""

from pathlib import Path

import anyio
import pytest

from mcp_subagents.doctor import Circumstances, Finding, Level, Options, examine, gathered, verdict_on
from mcp_subagents.doctor.findings import fine, problem, warning
from mcp_subagents.doctor.machine import judged_python, judged_sqlite
from mcp_subagents.doctor.starting import Greeting, Silence, judged
from mcp_subagents.doctor.storage import judged_room, store

GOOD, ODD, BAD = fine("a", "well"), warning("b", "odd", "see to it"), problem("c", "bad", "mend it")


@pytest.mark.parametrize(
    ("findings", "code", "next_step"),
    [
        ([], 0, ""),
        ([GOOD], 0, ""),
        ([GOOD, ODD], 0, "see to it"),
        ([ODD, BAD, problem("d", "worse", "later")], 1, "mend it"),
    ],
    ids=["nothing", "all is well", "a warning", "problems come first, in their order"],
)
def test_findings_come_to_an_exit_code_and_one_next_step(findings: list[Finding], code: int, next_step: str):
    verdict = verdict_on(findings)
    assert (verdict.exit_code, verdict.next_step) == (code, next_step)


def test_a_finding_is_one_line_without_secrets_and_escapes():
    key = "sk-" + "s3cretOfOurs" * 2
    found = problem("a", f"\x1b[31mit says\n{key}", f"do\tnot use {key}")
    assert (found.what, found.fix) == ("it says [redacted]", "do not use [redacted]")


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (judged_python((3, 11, 0), "python"), Level.OK),
        (judged_python((3, 10, 14), "python"), Level.PROBLEM),
        (judged_sqlite((3, 54, 1)), Level.OK),
        (judged_sqlite((3, 51, 2)), Level.PROBLEM),
        (judged(Greeting(4.9, "mcp-subagents", "1"), ["x"]), Level.OK),
        (judged(Greeting(5.1, "mcp-subagents", "1"), ["x"]), Level.WARNING),
        (judged(Silence("no answer"), ["x"]), Level.PROBLEM),
    ],
    ids=lambda value: value.what if isinstance(value, Finding) else "",
)
def test_judged_by_its_number(found: Finding, level: Level):
    assert found.level is level
    assert bool(found.fix) == (level is not Level.OK)


@pytest.mark.parametrize(
    ("megabytes", "level"), [(500, None), (499, Level.WARNING), (20, Level.WARNING), (19, Level.PROBLEM)]
)
def test_a_disk_that_is_nearly_full_is_told_in_time(megabytes: int, level: Level | None):
    found = judged_room(megabytes * 2**20, Path("tasks.db"))
    assert (found and found.level) == level


async def test_a_store_on_a_network_file_system_is_refused(home: Path):
    (home / "mounts").write_text(f"1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / {home} rw - nfs4 server:/x rw\n")
    there = gathered(Options(), {}, mountinfo=home / "mounts")
    [found] = await store(there)
    assert (found.level, found.what) == (
        Level.PROBLEM,
        f"{home}/mcp-subagents/tasks.db is on a network file system (nfs4), where SQLite's locks cannot be relied on.",
    )


async def told(check: object, longest: float = 5.0) -> list[Finding]:
    there = Circumstances(options=Options(), env={}, home=Path())
    with anyio.fail_after(5):
        return [each async for each in examine(there, {"odd": check}, longest=longest)]  # pyright: ignore[reportArgumentType]


async def test_an_exception_in_a_check_is_a_finding():
    async def broken(_: Circumstances) -> list[Finding]:
        raise ExceptionGroup("x", [ZeroDivisionError("by nothing")])

    assert await told(broken) == [
        problem("odd", "This check has failed: ZeroDivisionError: by nothing", "This is a bug; please report it.")
    ]


async def test_a_check_that_does_not_end_is_a_finding():
    async def endless(_: Circumstances) -> list[Finding]:
        await anyio.sleep_forever()
        return []

    assert await told(endless, longest=0.01) == [
        problem("odd", "This check did not end within 0.01 seconds.", "See what it waits for, and retry.")
    ]
