"""A store is examined without being changed, locked or worked on."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from paperwork import add, start, task
from processes import started

from mcp_subagents.cli import main
from mcp_subagents.errors import StoreError
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.store.sqlite_examination import Examination, Look, examine
from mcp_subagents.types import TaskStatus

DEAD_AFTER = timedelta(seconds=3)


def seen(path: Path) -> Examination:
    return examine(path, Look(now=datetime.now(UTC), dead_after=DEAD_AFTER))


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in folder.iterdir()}


async def test_a_store_that_nobody_uses_stays_as_it_is_and_gets_no_files_beside_it(tmp_path: Path):
    async with open_sqlite(tmp_path / "tasks.db") as store:
        await add(store, task())
    before = contents(tmp_path)
    assert seen(tmp_path / "tasks.db").tasks == {TaskStatus.PENDING: 1}
    assert contents(tmp_path) == before


async def test_what_a_dead_process_left_in_the_log_is_seen_and_left_there(tmp_path: Path):
    there, copy = tmp_path / "there", tmp_path / "copy"
    there.mkdir()
    copy.mkdir()
    async with open_sqlite(there / "tasks.db") as store:
        await add(store, task())
        for each in ("tasks.db", "tasks.db-wal"):  # as after kill -9
            (copy / each).write_bytes((there / each).read_bytes())
    before = contents(copy)
    assert seen(copy / "tasks.db").tasks == {TaskStatus.PENDING: 1}
    after = contents(copy)
    assert {name: after[name] for name in before} == before


async def test_a_store_in_use_is_seen_as_it_is_and_can_be_written_meanwhile(tmp_path: Path):
    with anyio.fail_after(10):
        async with open_sqlite(tmp_path / "tasks.db") as store:
            await add(store, task(), task("t2"))
            await start(store)
            found = await anyio.to_thread.run_sync(seen, tmp_path / "tasks.db")
            await add(store, task("t3"))
    assert found.tasks == {TaskStatus.PENDING: 1, TaskStatus.RUNNING: 1}
    assert (found.processes, found.left, [each.task_id for each in found.due]) == ((os.getpid(),), (), ["t2"])


@pytest.mark.usefixtures("home")
async def test_a_damaged_store_is_told_and_not_moved_away(home: Path, capsys: pytest.CaptureFixture[str]):
    path = home / "tasks.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="is damaged: file is not a database"):
        seen(path)
    before = contents(home)
    with anyio.fail_after(20):
        assert await anyio.to_thread.run_sync(main, ["doctor", "store", "tasks", "--store", str(path)]) == 1
    assert contents(home) == before


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux shows who has a file open")
async def test_a_server_that_waits_for_work_is_seen(home: Path, capsys: pytest.CaptureFixture[str]):
    path = home / "tasks.db"
    async with started("-m", "mcp_subagents", "--store", str(path)) as host:
        await host.shake_hands()
        assert await anyio.to_thread.run_sync(main, ["doctor", "store", "--store", str(path)]) == 0
        # The handshake is answered by then, and the store was opened before it.
        assert f", 1 process waiting for work ({host.process.pid})." in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_told(home: Path, capsys: pytest.CaptureFixture[str]):
    folder = home / "kept"
    folder.mkdir()
    if os.geteuid() == 0:  # who may write everywhere, but not where the disk itself may only be read
        folder = Path("/proc/self")
    else:
        folder.chmod(0o500)
    assert main(["doctor", "store", "--store", str(folder / "tasks.db")]) == 1
    assert f"{folder.resolve()} cannot be written by this user." in capsys.readouterr().out.replace(
        str(folder), str(folder.resolve())
    )
