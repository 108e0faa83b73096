"""What a process has, by the word of Linux."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Footprint:
    megabytes: float
    threads: int
    files: int

    @classmethod
    def of(cls, pid: int) -> "Footprint":
        home = Path(f"/proc/{pid}")
        pages = int((home / "statm").read_text(encoding="ascii").split()[1])
        return cls(
            round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
            len(os.listdir(home / "task")),
            len(os.listdir(home / "fd")),
        )
