"""Our server put into the file of a host, and taken out of it again: first looked at, then done."""

import difflib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from mcp_subagents.config.mistakes import Mistake
from mcp_subagents.errors import ConfigError
from mcp_subagents.hosts.changes import Change, added, removed
from mcp_subagents.hosts.files import HostFile, look, missing_folders, remove, write
from mcp_subagents.hosts.known import Host
from mcp_subagents.hosts.masking import masked
from mcp_subagents.hosts.receipts import Receipt, Receipts
from mcp_subagents.redact import redact
from mcp_subagents.texts import plain

NO_FILE = "(no file)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is to become of a file. Nothing has happened yet."""

    host: Host
    name: str
    file: HostFile
    after: str | None
    """What it will say; nothing if it is to be removed."""
    receipt: Receipt | None
    """What will be kept."""
    folders: tuple[Path, ...] = ()
    """Those that go with a file that is removed."""

    def shown(self) -> str:
        """The change as `diff -u` shows it, without values of variables and headers, and whatever looks like a key."""
        named = str(self.file.path)
        before, after = _lines(self.file.text, self.host), _lines(self.after or "", self.host)
        old = named if self.file.content is not None else NO_FILE
        new = named if self.after is not None else NO_FILE
        # Lines are compared as they are, so that a value that changes is seen to, and shown as they may be.
        masks = dict([*before, *after])
        told = difflib.unified_diff([line for line, _ in before], [line for line, _ in after], old, new)
        return redact(plain("".join(_whole(line[0] + masks.get(line[1:], line[1:])) for line in told)))


def plan_install(
    host: Host, path: Path, name: str, entry: Mapping[str, Any], receipts: Receipts, *, force: bool = False
) -> Plan | None:
    """What puts `entry` into the file at `path`; nothing if it is there already. Raises: `ConfigError`."""
    file = look(path)
    change = _told(path, added(file.text, host, name, entry, force=force))
    if change is None:
        return None
    receipt = receipts.read(file.path, name)
    if change.trace is not None:
        receipt = Receipt(
            file=file.path,
            name=name,
            trace=change.trace,
            created=file.content is None,
            folders=missing_folders(file.path),
        )
    return Plan(host=host, name=name, file=file, after=change.text, receipt=receipt)


def plan_uninstall(host: Host, path: Path, name: str, receipts: Receipts) -> Plan | None:
    """What takes the entry `name` out of the file at `path`; nothing if it is not there. Raises: `ConfigError`."""
    file = look(path)
    receipt = receipts.read(file.path, name)
    change = _told(path, removed(file.text, host, name, receipt.trace if receipt else None))
    if change is None:
        return None
    # A receipt may be older than the file: somebody may have made a new one, which is theirs even if it says little.
    ours = receipt if change.trace is not None else None
    emptied = ours is not None and ours.created and "".join(change.text.strip("\ufeff").split()) in ("", "{}")
    return Plan(
        host=host,
        name=name,
        file=file,
        after=None if emptied else change.text,
        receipt=None,
        folders=ours.folders if ours else (),
    )


def forget_gone(path: Path, name: str, receipts: Receipts) -> None:
    """Let go of the receipt of an entry that is not there any more: it says nothing about one that may come."""
    receipts.forget(look(path).path, name)


def carry_out(plan: Plan, receipts: Receipts, now: datetime) -> Path | None:
    """Do what was planned, and return where the file is kept as it was, if there was one.

    Raises:
        ConfigError: it could not be done, or the file has changed since it was looked at; nothing has changed then.
    """
    backup = receipts.back_up(plan.file, now)
    before = receipts.read(plan.file.path, plan.name)
    if plan.receipt is not None:
        receipts.write(plan.receipt)  # first: a change without its receipt could not be taken back to the byte
    try:
        if plan.after is None:
            remove(plan.file, plan.folders)
        else:
            write(plan.file, plan.after.encode("utf-8"))
    except ConfigError:
        if plan.receipt is not None and before is None:
            receipts.forget(plan.file.path, plan.name)
        elif before is not None:
            receipts.write(before)
        raise
    if plan.receipt is None:
        receipts.forget(plan.file.path, plan.name)
    return backup


def _told(path: Path, change: Change | Mistake | None) -> Change | None:
    if isinstance(change, Mistake):
        raise ConfigError(change.told_of(path))
    return change


def _lines(text: str, host: Host) -> list[tuple[str, str]]:
    """Each line of `text` with its end, which is a line feed and nothing else, and what may be shown of it.

    The same line may have to be masked here and not there, so the first holds both.
    """
    pairs = zip(_split(text), _split(masked(text, host)), strict=True)
    return [(f"{line}\0{mask}", mask) for line, mask in pairs]


def _split(text: str) -> list[str]:
    return list(io.StringIO(text.removeprefix("\ufeff").replace("\r\n", "\n"), newline="\n"))


def _whole(line: str) -> str:
    """A line of a diff with its end, as `diff` tells that the file has none there."""
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
