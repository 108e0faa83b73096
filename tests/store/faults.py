"""A disk that fails on command."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import apsw


class FaultyDisk(apsw.VFS):
    """The operating system's file access; `fault` is asked before each write and sync, and may raise."""

    def __init__(self) -> None:
        self.name = f"faulty-{uuid4().hex}"
        self.fault: Callable[[str], None] = lambda what: None
        self.read_only = False
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        if self.read_only:
            flags[0] = flags[0] & ~apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_READONLY
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        self._disk.fault("write")
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType] - apsw's types need Python 3.12

    def xSync(self, flags: int) -> None:
        self._disk.fault("sync")
        super().xSync(flags)
