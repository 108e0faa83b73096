"""Puts a witness and workers on one file, does them harm, and collects the traces."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import apsw

from mcp_subagents.records import Entry, TaskRecord
from mcp_subagents.store import Query, Store
from mcp_subagents.store.sqlite import open_sqlite
from tests.crash.verdict import Asked, Evidence, Ran

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process."""

    name: str
    pid: int


class Nursery:
    """Starts processes, and says how they ended."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def start(self, role: str, *, log: Path, **args: Any) -> int:
        return self._ask(do="start", role=role, log=str(log), args=args)

    def wait(self, pid: int, seconds: float = 10.0) -> int | None:
        """The exit code of `pid`, negative for a signal; `None` if it is still there after that time."""
        return self._ask(do="wait", pid=pid, seconds=seconds)

    def _ask(self, **order: Any) -> Any:
        asking, answering = self._process.stdin, self._process.stdout
        assert asking is not None
        assert answering is not None
        asking.write(json.dumps(order) + "\n")
        asking.flush()
        return json.loads(answering.readline())


@contextmanager
def open_nursery() -> Generator[Nursery]:
    command = [sys.executable, "-m", "tests.crash.nursery"]
    with subprocess.Popen(command, cwd=ROOT, stdin=-1, stdout=-1, text=True, encoding="utf-8") as process:
        yield Nursery(process)  # leaving closes its stdin, and with that it goes


class Scene:
    """One store file in a folder of its own, with a witness, and workers one after the other or at once."""

    def __init__(self, folder: Path, nursery: Nursery, *, hang: bool = False, **settings: Any) -> None:
        self.folder = folder
        self.settings = settings
        self.cut_short: set[str] = set()
        self.frozen: set[str] = set()
        self._nursery = nursery
        self._born = 0
        self._witness = nursery.start(
            "witness",
            log=folder / "witness.log",
            testimony=str(folder / "testimony"),
            address=str(folder / "address"),
            hang=hang,
        )
        self.wait_until(lambda: bool(self._lines("address")))

    def start(self, submit: Iterable[int] = (), *, linger: float = 0.01, patience: float = 10.0) -> Worker:
        """A new worker. Of the tasks it is to submit, those that were accepted already are left out."""
        self._born += 1
        name = f"worker-{self._born}"
        accepted = self.accepted()
        pid = self._nursery.start(
            "worker",
            log=self.folder / f"{name}.log",
            name=name,
            folder=str(self.folder),
            submit=[number for number in submit if number not in accepted],
            settings=self.settings,
            linger=linger,
            patience=patience,
        )
        return Worker(name, pid)

    def wait_for(self, worker: Worker) -> None:
        """Until its engine runs."""
        self.wait_until(lambda: any(line.split()[0] == worker.name for line in self._lines("ready")))

    def kill(self, worker: Worker) -> float:
        """SIGKILL, and the moment it was sent."""
        self.cut_short.add(worker.name)
        at = time.time()
        os.kill(worker.pid, signal.SIGKILL)
        assert self._nursery.wait(worker.pid) == -signal.SIGKILL, self.log(worker)
        return at

    def freeze(self, worker: Worker) -> float:
        """SIGSTOP, and the moment it was sent."""
        self.cut_short.add(worker.name)
        self.frozen.add(worker.name)
        at = time.time()
        os.kill(worker.pid, signal.SIGSTOP)
        return at

    def thaw(self, worker: Worker) -> None:
        os.kill(worker.pid, signal.SIGCONT)

    def stop(self, worker: Worker, how: signal.Signals = signal.SIGTERM) -> float:
        """Tell a worker to leave, and see it leave well. How many seconds it took."""
        self.cut_short.add(worker.name)
        return self.dismiss(worker, how)

    def dismiss(self, worker: Worker, how: signal.Signals = signal.SIGTERM) -> float:
        """The same for a worker that has nothing left to do."""
        told_at = time.monotonic()
        os.kill(worker.pid, how)
        assert self._nursery.wait(worker.pid, 10) == 0, self.log(worker)
        return time.monotonic() - told_at

    @contextmanager
    def lock(self) -> Generator[None]:
        """Nobody else can write for as long as the block lasts. Raises: `apsw.BusyError`."""
        with closing(apsw.Connection(str(self.folder / "tasks.db"))) as db:
            db.set_busy_timeout(200)
            db.execute("BEGIN IMMEDIATE")  # pyright: ignore[reportUnknownMemberType]  # apsw's stubs say too little
            yield

    def close(self) -> None:
        os.kill(self._witness, signal.SIGKILL)
        self._nursery.wait(self._witness)

    def log(self, worker: Worker) -> str:
        return (self.folder / f"{worker.name}.log").read_text(encoding="utf-8")[-3000:]

    def logs(self) -> str:
        """The end of what each worker had to say, if it had anything to say."""
        texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(self.folder.glob("*.log"))}
        return "\n".join(f"--- {name}\n{text[-3000:]}" for name, text in texts.items() if text)

    def accepted(self) -> dict[int, str]:
        return {int(number): task_id for number, task_id in (line.split() for line in self._lines("accepted"))}

    def asked(self) -> list[Asked]:
        return [Asked(**json.loads(line)) for line in self._lines("testimony")]

    def ran(self) -> list[Ran]:
        lines = [line.split() for line in self._lines("tools")]
        return [Ran(call=call, tool=tool, worker=worker) for _, _, call, tool, worker in lines]

    def wait_until(self, is_so: Callable[[], bool], seconds: float = 15.0) -> None:
        """Look again and again, as one can only do with other processes."""
        give_up_at = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < give_up_at, f"not so after {seconds} seconds\n{self.logs()}"
            time.sleep(0.01)

    def let_accept(self, count: int) -> None:
        """Wait until `count` tasks are accepted."""
        self.wait_until(lambda: len(self.accepted()) >= count)

    def let_finish(self, count: int) -> None:
        """Wait until `count` tasks are accepted and all of them have ended, but not for ever."""

        async def watch(store: Store) -> None:
            with anyio.move_on_after(60 + count / 3):
                while not await self._is_finished(store, count):  # noqa: ASYNC110  # no event crosses processes
                    await anyio.sleep(0.05)

        self.with_store(watch)

    async def _is_finished(self, store: Store, count: int) -> bool:
        accepted = self.accepted()
        if len(accepted) < count:
            return False
        tasks = [await store.read(task_id) for task_id in accepted.values()]
        return all(task.handle.status.is_terminal for task in tasks)

    def with_store(self, use: Callable[[Store], Any]) -> Any:
        """What `use` makes of the store, opened here as by one more process."""

        async def run() -> Any:
            async with open_sqlite(self.folder / "tasks.db") as store:
                return await use(store)

        return anyio.run(run)

    def evidence(self) -> Evidence:
        records, journals = self.with_store(_read_all)
        return Evidence(
            accepted=self.accepted(),
            asked=self.asked(),
            ran=self.ran(),
            records=records,
            journals=journals,
            cut_short=frozenset(self.cut_short),
            frozen=frozenset(self.frozen),
            slots=self.settings["max_concurrency"],
        )

    def _lines(self, name: str) -> Sequence[str]:
        path = self.folder / name
        # A line without its end is still being written.
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return text.splitlines() if name == "address" else [line for line in text.split("\n")[:-1] if line]


async def _read_all(store: Store) -> tuple[dict[str, TaskRecord], dict[str, Sequence[Entry]]]:
    records = {record.task_id: record for record in await store.select(Query(limit=1_000_000))}
    return records, {task_id: await store.journal(task_id) for task_id in records}
