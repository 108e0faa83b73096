"""Whatever is wrong with a store's file is said in words, and nothing is overwritten."""

import os
import random
import stat
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from threading import get_ident
from typing import Any

import anyio
import anyio.lowlevel
import apsw
import pytest
from faults import FaultyDisk
from paperwork import FAILURE, NOW, add, complete, entry, finish_turn, ids, running, task

from mcp_subagents import moves
from mcp_subagents.errors import StoreDamaged, StoreError, StoreTooNew, StoreUnavailable
from mcp_subagents.store import Query, Store
from mcp_subagents.store.mounts import network_file_system
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.store.sqlite_file import default_path
from mcp_subagents.store.sqlite_schema import migrations
from mcp_subagents.types import CancelKind

AT_ONCE = timedelta(milliseconds=50)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


def raw(path: Path) -> Any:
    """A connection of somebody else. (Not of `sqlite3`: two SQLites in one process do not see each other's locks.)"""
    return closing(apsw.Connection(str(path)))


def files(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.parent.iterdir()}


def write(path: Path, content: bytes) -> bytes:
    path.write_bytes(content)
    path.chmod(0o600)
    return content


# Where and whose


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_store_is_private_to_its_user(tmp_path: Path):
    path = tmp_path / "new" / "folder" / "tasks.db"
    async with open_sqlite(path) as store:
        await add(store, task())
        assert {each.name: mode(each) for each in path.parent.iterdir()} == {
            "tasks.db": 0o600,
            "tasks.db-wal": 0o600,
            "tasks.db-shm": 0o600,
        }
        assert mode(path.parent) == 0o700
    assert list(files(path)) == ["tasks.db"]


async def test_a_store_that_others_could_read_is_made_private(path: Path):
    os.close(os.open(path, os.O_CREAT, 0o644))
    async with open_sqlite(path):
        assert mode(path) == 0o600


async def test_a_folder_that_is_there_keeps_its_mode(path: Path):
    path.parent.chmod(0o755)
    async with open_sqlite(path):
        assert mode(path.parent) == 0o755


def test_the_default_is_in_the_users_data_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert default_path() == tmp_path / "mcp-subagents" / "tasks.db"
    assert default_path().parts[-2:] == ("mcp-subagents", "tasks.db")


async def test_what_is_no_file_is_no_store(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreUnavailable, match="not a regular file"):
        async with open_sqlite(tmp_path / "pipe"):
            pass


async def test_a_file_of_somebody_else_is_refused_in_words(path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(self: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    async with open_sqlite(path):
        pass
    open_to_all(path)
    monkeypatch.setattr(Path, "chmod", refuse)  # root, who runs this in CI, may do everything
    with pytest.raises(StoreUnavailable, match="cannot be opened for writing: Operation not permitted"):
        async with open_sqlite(path):
            pass


async def test_a_link_that_leads_nowhere_is_no_store(tmp_path: Path):
    (tmp_path / "link").symlink_to("loop")
    (tmp_path / "loop").symlink_to("link")
    with pytest.raises(StoreUnavailable, match="is a link that leads nowhere"):
        async with open_sqlite(tmp_path / "link"):
            pass


async def test_memory_is_no_place_for_a_store():
    with pytest.raises(StoreUnavailable, match="would be gone with its process"):
        async with open_sqlite(":memory:"):
            pass


async def test_a_directory_is_no_store(tmp_path: Path):
    with pytest.raises(StoreUnavailable, match="is a directory"):
        async with open_sqlite(tmp_path):
            pass


async def test_a_file_is_no_folder_for_a_store(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="cannot be opened for writing"):
        async with open_sqlite(tmp_path / "file" / "tasks.db"):
            pass


@pytest.mark.slow
@pytest.mark.parametrize("what", ["folder", "file", "folder of an existing store"])
def test_what_cannot_be_written_is_no_store(path: Path, what: str):
    anyio.run(_make, path)
    path.chmod(0o400 if what == "file" else 0o600)
    path.parent.chmod(0o700 if what == "file" else 0o500)
    if what == "folder":
        path = path.with_name("another.db")
    program = f"""
import os, sys, anyio
from pathlib import Path
from mcp_subagents import moves
from mcp_subagents.errors import StoreUnavailable
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.store.sqlite_schema import migrations
from mcp_subagents.types import CancelKind

async def main():
    try:
        async with open_sqlite(Path({str(path)!r})):
            sys.exit("it was opened")
    except StoreUnavailable as exc:
        sys.exit(0 if "write access" in str(exc) else str(exc))

migrations()  # while the source can be read
if os.getuid() == 0:  # root may write everywhere
    os.chown({str(path.parent)!r}, 65534, 65534)
    os.path.exists({str(path)!r}) and os.chown({str(path)!r}, 65534, 65534)
    for folder in Path({str(path.parent)!r}).parents:
        folder.chmod(folder.stat().st_mode | 0o011)
    os.setgid(65534)
    os.setuid(65534)
anyio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    path.parent.chmod(0o700)
    assert (done.returncode, done.stderr) == (0, "")


async def _make(path: Path) -> None:
    async with open_sqlite(path) as store:
        await add(store, task())


MOUNTS = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:25 / /home/me/far\\040away rw,relatime shared:1 - nfs4 server:/export rw
31 30 0:26 / /home/me/far\\040away/near rw,relatime - ext4 /dev/sdb1 rw
32 22 0:27 / /mnt rw - cifs //server/share rw
33 22 0:28 / /mnt rw - ext4 /dev/sdc1 rw
34 22 0:29 / /home/you rw - fuse.sshfs you@server: rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me", None),
        ("/home/me/far away", "nfs4"),
        ("/home/me/far away/deeper", "nfs4"),
        ("/home/me/far away/near/by", None),
        ("/mnt/covered", None),
        ("/home/you", "fuse.sshfs"),
        ("/home/yours", None),
    ],
)
def test_a_network_file_system_is_known_by_its_mount(tmp_path: Path, path: str, kind: str | None):
    (tmp_path / "mountinfo").write_text(MOUNTS)
    assert network_file_system(Path(path), tmp_path / "mountinfo") == kind


def test_where_mounts_are_not_told_every_file_system_is_local(tmp_path: Path):
    assert network_file_system(Path("/"), tmp_path / "nothing") is None


async def test_a_store_on_a_network_file_system_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch):
    def remote(folder: Path) -> str:
        return "nfs4"

    monkeypatch.setattr("mcp_subagents.store.sqlite_file.network_file_system", remote)
    with pytest.raises(StoreUnavailable, match=r"network file system \(nfs4\).* Name a file on a local disk"):
        async with open_sqlite(path):
            pass
    assert files(path) == {}


async def test_a_file_on_a_disk_that_cannot_be_written_is_no_store(path: Path):
    await _make(path)
    disk = FaultyDisk()
    disk.read_only = True
    with pytest.raises(StoreUnavailable, match="it cannot be written"):
        async with open_sqlite(path, vfs=disk.name):
            pass


async def test_a_file_system_without_shared_memory_is_refused(path: Path):
    with pytest.raises(StoreUnavailable, match="without shared memory"):
        async with open_sqlite(path, vfs="unix-none"):
            pass


# Versions


async def test_a_store_of_a_later_version_is_not_touched(path: Path):
    await _make(path)
    with raw(path) as db:
        db.execute(f"PRAGMA user_version = {len(migrations()) + 1}")
    before = files(path)

    with pytest.raises(StoreTooNew, match="a later version of mcp-subagents"):
        async with open_sqlite(path):
            pass

    assert files(path) == before


async def test_a_later_version_is_also_found_in_the_log(path: Path):
    async with open_sqlite(path):
        with raw(path) as db:
            db.execute(f"PRAGMA user_version = {len(migrations()) + 1}")
            with pytest.raises(StoreTooNew):
                async with open_sqlite(path):
                    pass


def open_to_all(path: Path) -> None:
    path.chmod(0o644)


async def test_a_database_of_another_program_is_not_touched(path: Path):
    with raw(path) as db:
        db.execute("CREATE TABLE recipe (name); INSERT INTO recipe VALUES ('soup')")
    open_to_all(path)
    before = files(path)

    with pytest.raises(StoreError, match="database of another program"):
        async with open_sqlite(path):
            pass

    assert files(path) == before
    assert mode(path) == 0o644


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
async def test_nothing_is_accepted_that_nobody_would_find(path: Path, replaced: bool):
    async with open_sqlite(path) as store:
        await add(store, task("t1"))
        for each in path.parent.iterdir():
            each.rename(path.parent.parent / each.name)
        if replaced:
            async with open_sqlite(path) as other:
                await add(other, task("t2"))
        with pytest.raises(StoreUnavailable, match="was deleted or replaced while it was in use"):
            await add(store, task("t3"))
        for each in (path.parent.parent / f"{path.name}{suffix}" for suffix in ("", "-wal", "-shm")):
            each.rename(path.parent / each.name)
        await add(store, task("t3"))  # it was put back
        assert ids(await store.select(Query())) == ["t1", "t3"]


# Locks


async def test_a_locked_store_says_so_and_works_once_it_is_free(path: Path):
    async with open_sqlite(path, busy_timeout=AT_ONCE) as store:
        await add(store, task("t1"))
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="keeps it locked"):
                await add(store, task("t2"))
            assert ids(await store.select(Query())) == ["t1"]
            other.execute("ROLLBACK")
        await add(store, task("t3"))
        assert ids(await store.select(Query())) == ["t1", "t3"]


async def test_a_new_store_that_is_locked_cannot_be_opened(path: Path):
    write(path, b"")
    with raw(path) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable, match="keeps it locked"):
            async with open_sqlite(path, busy_timeout=AT_ONCE):
                pass


async def test_a_lock_that_is_soon_given_up_is_waited_for(path: Path):
    disk, refusals = FaultyDisk(), iter([apsw.BusyError, apsw.BusyError])

    def busy(what: str) -> None:
        for refusal in refusals:
            raise refusal

    disk.fault = busy
    async with open_sqlite(path, vfs=disk.name) as store:
        await add(store, task("t1"))
    assert list(refusals) == []


async def test_a_new_store_that_somebody_is_reading_cannot_be_set_up(path: Path):
    write(path, b"")
    with raw(path) as other:
        other.execute("BEGIN; SELECT * FROM sqlite_schema").fetchall()
        with pytest.raises(StoreUnavailable, match="keeps it locked"):
            async with open_sqlite(path, busy_timeout=AT_ONCE):
                pass


# Full and failing disks


async def test_a_full_disk_loses_nothing_and_the_store_goes_on_when_there_is_room(path: Path):
    disk = FaultyDisk()

    def full(what: str) -> None:
        raise apsw.FullError

    async with open_sqlite(path, vfs=disk.name) as store:
        lease = await running(store, "t1")
        disk.fault = full
        with pytest.raises(StoreUnavailable, match="no room left"):
            await add(store, task("t2"))
        with pytest.raises(StoreUnavailable, match="no room left"):
            await store.change("t1", complete(), lease=lease)
        assert (await store.read("t1")).handle.status == "running"
        disk.fault = lambda what: None
        await add(store, task("t3"))
        await store.change("t1", complete(), lease=lease)
    async with open_sqlite(path) as store:
        assert [(each.task_id, each.handle.status) for each in await store.select(Query())] == [
            ("t1", "completed"),
            ("t3", "pending"),
        ]


async def test_after_a_full_disk_changes_are_told_as_before(path: Path):
    disk = FaultyDisk()

    def full(what: str) -> None:
        raise apsw.FullError

    async with open_sqlite(path, vfs=disk.name) as store, open_sqlite(path) as other, store.watch() as changes:
        disk.fault = full
        with pytest.raises(StoreUnavailable):
            await add(store, task("t1"))
        disk.fault = lambda what: None
        await add(other, task("t2"))
        with anyio.fail_after(5):
            assert (await changes.receive()).task_id == "t2"
        await add(store, task("t3"))
        with anyio.fail_after(5):
            assert (await changes.receive()).task_id == "t3"


async def test_a_store_that_cannot_say_goodbye_closes_all_the_same(path: Path, caplog: pytest.LogCaptureFixture):
    with ExitStack() as stack:
        async with open_sqlite(path, busy_timeout=AT_ONCE) as store:
            await running(store, "t1")
            stack.enter_context(raw(path)).execute("BEGIN IMMEDIATE")
    assert "could not say goodbye" in caplog.text


async def test_what_cannot_be_written_before_a_locked_store_is_closed_is_refused(path: Path):
    refused: list[str] = []

    async def add_one(store: Store) -> None:
        try:
            await add(store, task("t2"))
        except StoreUnavailable as exc:
            refused.append(str(exc))

    with anyio.fail_after(5), ExitStack() as stack:
        async with anyio.create_task_group() as group:
            async with open_sqlite(path) as store:
                await add(store, task("t1"))
                stack.enter_context(raw(path)).execute("BEGIN IMMEDIATE")
                group.start_soon(add_one, store)
                await anyio.wait_all_tasks_blocked()
    assert len(refused) == 1
    assert "keeps it locked" in refused[0]
    async with open_sqlite(path) as store:
        assert ids(await store.select(Query())) == ["t1"]


async def test_what_waits_for_a_lock_when_the_store_is_closed_is_written_if_it_is_soon_given_up(path: Path):
    written: list[str] = []

    async def add_one(store: Store) -> None:
        await add(store, task("t2"))
        written.append("t2")

    with anyio.fail_after(5), raw(path) as other:
        async with anyio.create_task_group() as group:
            async with open_sqlite(path) as store:
                await add(store, task("t1"))
                other.execute("BEGIN IMMEDIATE")
                group.start_soon(add_one, store)
                await anyio.wait_all_tasks_blocked()
                group.start_soon(anyio.to_thread.run_sync, other.execute, "ROLLBACK")
    assert written == ["t2"]


async def test_an_opening_that_waits_for_a_lock_can_be_cancelled(path: Path):
    write(path, b"")
    with anyio.fail_after(5), raw(path) as other:
        other.execute("BEGIN EXCLUSIVE")
        with anyio.move_on_after(0.05) as scope:
            async with open_sqlite(path):
                pass
    assert scope.cancelled_caught


async def test_a_sign_of_life_that_cannot_be_given_is_tried_again(path: Path, caplog: pytest.LogCaptureFixture):
    disk = FaultyDisk()

    def full(what: str) -> None:
        raise apsw.FullError

    async with open_sqlite(path, vfs=disk.name, beat_every=timedelta(milliseconds=5)) as store:
        await running(store, "t1")
        disk.fault = full
        with anyio.fail_after(5):
            while caplog.text.count("no sign of life could be given") < 2:
                await anyio.lowlevel.checkpoint()
        disk.fault = lambda what: None


async def test_a_change_that_was_not_written_is_not_built_upon(path: Path):
    disk = FaultyDisk()

    def full(what: str) -> None:
        raise apsw.FullError

    async with open_sqlite(path, vfs=disk.name) as store, open_sqlite(path) as other:
        lease = await running(store, "t1")
        disk.fault = full
        with pytest.raises(StoreUnavailable):
            await store.change("t1", finish_turn("lost"), lease=lease)
        disk.fault = lambda what: None
        await other.change("t1", moves.cancel(CancelKind.SOFT, FAILURE, NOW))

        turned = await store.change("t1", finish_turn("kept"), lease=lease)

        assert (turned.handle.turns, turned.handle.cancel_requested) == (1, CancelKind.SOFT)
        assert await other.read("t1") == turned


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_with_a_failing_disk_what_was_acknowledged_is_what_is_there(path: Path, seed: int):
    disk, chance = FaultyDisk(), random.Random(seed)
    acknowledged: dict[str, int] = {}
    refused: list[str] = []

    def fail_at_times(what: str) -> None:
        if chance.random() < 0.02:
            raise apsw.IOError

    async def work(store: Store, task_id: str) -> None:
        try:
            await add(store, task(task_id))
        except StoreUnavailable:
            return
        acknowledged[task_id] = 0
        for _ in range(8):
            try:
                await store.change(task_id, finish_turn())
                acknowledged[task_id] += 1
            except StoreUnavailable:
                refused.append(task_id)

    async with open_sqlite(path, vfs=disk.name) as store:
        disk.fault = fail_at_times
        for first in range(0, 120, 6):
            async with anyio.create_task_group() as group:
                for number in range(first, first + 6):
                    group.start_soon(work, store, f"t{number}")
        disk.fault = lambda what: None
    async with open_sqlite(path) as store:
        assert {each.task_id: each.handle.turns for each in await store.select(Query())} == acknowledged
    assert len(refused) > 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_is_really_full(tmp_path: Path):
    program = f"""
import anyio
from pathlib import Path
from paperwork import FAILURE, NOW, add, task
from mcp_subagents import moves
from mcp_subagents.errors import StoreUnavailable
from mcp_subagents.store import Query
from mcp_subagents.store.sqlite import open_sqlite

async def main():
    disk = Path({str(tmp_path)!r})
    async with open_sqlite(disk / "tasks.db") as store:
        (disk / "ballast").write_bytes(b"x" * 500_000)
        kept = []
        try:
            for number in range(1000):
                await add(store, task(f"t{{number}}", definition="x" * 5000))
                kept.append(f"t{{number}}")
        except StoreUnavailable as exc:
            assert "no room left" in str(exc), exc
        assert [each.task_id for each in await store.select(Query())] == kept
        (disk / "ballast").unlink()
        await add(store, task("later"))
    async with open_sqlite(disk / "tasks.db") as store:
        assert [each.task_id for each in await store.select(Query())] == [*kept, "later"]
    print("full after", len(kept))

anyio.run(main)
"""
    mount = f'mount -t tmpfs -o size=2m tmpfs {tmp_path} && exec "$0" -c "$1"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, sys.executable, program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip("a small disk cannot be mounted here")
    assert done.stderr == ""
    assert done.stdout.startswith("full after")


# Damage


async def test_what_is_no_database_is_kept_aside_and_a_new_store_begun(path: Path):
    notes = write(path, b"My notes, not a database. " * 400)

    with pytest.raises(StoreDamaged, match="the next start begins with an empty store") as caught:
        async with open_sqlite(path):
            pass

    [(name, content)] = files(path).items()
    assert name.startswith("tasks.db.damaged-20")
    assert str(path.with_name(name)) in str(caught.value)
    assert content == notes
    async with open_sqlite(path) as store:
        assert await store.count(Query()) == 0
    assert len(files(path)) == 2


@pytest.mark.parametrize("then", ["gone", "replaced"])
async def test_of_two_that_find_the_same_damage_one_keeps_the_file_aside(
    path: Path, monkeypatch: pytest.MonkeyPatch, then: str
):
    def find_damage_too_late(db: object, path: Path) -> None:
        path.rename(path.with_name("moved"))
        if then == "replaced":
            path.touch()
        raise StoreDamaged("rotten")

    monkeypatch.setattr("mcp_subagents.store.sqlite_file.check", find_damage_too_late)
    with pytest.raises(StoreDamaged, match="Another process has moved it out of the way just now"):
        async with open_sqlite(path):
            pass
    assert files(path).get("tasks.db") == (b"" if then == "replaced" else None)


async def test_a_damaged_file_that_cannot_be_moved_is_left_where_it_is(path: Path, monkeypatch: pytest.MonkeyPatch):
    notes = write(path, b"My notes, not a database. " * 400)

    def refuse(self: Path, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(StoreDamaged, match="could not be moved out of the way"):
        async with open_sqlite(path):
            pass
    assert files(path) == {"tasks.db": notes}


async def test_a_damaged_index_is_found_when_the_store_is_opened(path: Path):
    await _make(path)
    with raw(path) as db:
        [(page,)] = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_task_1'")
    content = files(path)["tasks.db"]
    where = content.index(b"t1", (page - 1) * 4096)
    write(path, content[:where] + b"t9" + content[where + 2 :])

    with pytest.raises(StoreDamaged, match="is damaged"):
        async with open_sqlite(path):
            pass


async def test_a_damaged_file_that_another_process_uses_stays_where_it_is(path: Path):
    await _make(path)
    holder = """
import apsw, sys
db = apsw.Connection(sys.argv[1])
db.execute("SELECT * FROM task").fetchall()
print("open", flush=True)
sys.stdin.read()
"""
    async with await anyio.open_process([sys.executable, "-c", holder, str(path)]) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        with anyio.fail_after(5):
            await other.stdout.receive()
        damaged = write(path, b"x" * len(files(path)["tasks.db"]))
        with pytest.raises(StoreDamaged, match="Another process still uses it"):
            async with open_sqlite(path):
                pass
        assert files(path)["tasks.db"] == damaged
        await other.stdin.aclose()


async def test_the_loop_never_waits_for_the_disk_however_much_is_written_at_once(path: Path):
    disk, here, waited = FaultyDisk(), get_ident(), Counter[str]()

    def note(what: str) -> None:
        if get_ident() == here:
            waited[what] += 1

    async with open_sqlite(path, vfs=disk.name) as store:
        leases = [await running(store, f"t{number}") for number in range(8)]
        disk.fault = note
        async with anyio.create_task_group() as group:
            for lease in leases:  # more than SQLite would keep in memory by itself
                group.start_soon(store.append, lease, [entry(1_000_000 * "x")])
        disk.fault = lambda what: None
    assert not waited
