"""What we keep of an installation, for the user alone: the file as it was, and how to take ours out of it again."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from mcp_subagents.errors import ConfigError
from mcp_subagents.hosts.changes import Trace
from mcp_subagents.hosts.files import HostFile, reason

BACKUPS_KEPT = 10
"""Of each file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """What an installation did to a file."""

    file: Path
    name: str
    trace: Trace
    created: bool
    """The file was not there before."""
    folders: tuple[Path, ...] = ()
    """Those that were made for it, outermost first."""


class Receipts:
    """Receipts and backups, in a folder of ours."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, file: Path, name: str) -> Receipt | None:
        """The receipt for the entry `name` in `file`, if there is one that can be read."""
        try:
            data: Any = json.loads(self._path(file, name).read_text(encoding="utf-8"))
            given = cast("Mapping[str, Any]", data)
            return Receipt(
                file=file,
                name=name,
                trace=Trace(**given["trace"]),
                created=given["created"],
                folders=tuple(Path(each) for each in given["folders"]),
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, receipt: Receipt) -> None:
        """Keep `receipt`. Raises: `ConfigError`."""
        trace = {"head": receipt.trace.head, "tail": receipt.trace.tail, "was": receipt.trace.was}
        folders = [str(each) for each in receipt.folders]
        data = {"file": str(receipt.file), "trace": trace, "created": receipt.created, "folders": folders}
        self._store(self._path(receipt.file, receipt.name), json.dumps(data).encode())

    def forget(self, file: Path, name: str) -> None:
        """Let there be no receipt for `name` in `file`."""
        self._path(file, name).unlink(missing_ok=True)

    def back_up(self, file: HostFile, now: datetime) -> Path | None:
        """Keep the content of `file`, and return where; nothing if there is none. Raises: `ConfigError`."""
        if file.content is None:
            return None
        stem = f"{_digest(str(file.path))}-"
        backup = self._folder / f"{stem}{now:%Y%m%dT%H%M%S%fZ}-{file.path.name}.backup"
        self._store(backup, file.content)
        for old in sorted(self._folder.glob(f"{stem}*.backup"))[:-BACKUPS_KEPT]:
            old.unlink(missing_ok=True)
        return backup

    def _path(self, file: Path, name: str) -> Path:
        return self._folder / f"{_digest(str(file))}-{_digest(name)}.json"

    def _store(self, path: Path, content: bytes) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as new:
                new.write(content)
        except OSError as why:
            raise ConfigError(f"{path}: no backup can be kept there: {reason(why)}. Nothing was changed.") from why


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
