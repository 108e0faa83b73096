"""A folder that nothing gets out of: not by `..`, not by a link, not by an absolute path, not by a race.

Where the platform can, a path is walked from the folder down, one opened directory after the other and without
following links; a link is read and walked like the rest. So what was checked is what is opened, whoever changes the
tree meanwhile. Elsewhere the path is resolved and compared, which leaves the moment between the two.
"""

import errno
import os
import re
import secrets
import stat
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_subagents.config.places import Inside

CAN_WALK = os.open in os.supports_dir_fd and os.readlink in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_MOST_LINKS = 40
_LONGEST_PATH = 4096
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# Not blocking: to open a pipe that nobody writes to would take for ever.
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Refused(Exception):
    """It is not done, and the message says why in words that a model can act on."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is in a directory."""

    name: str
    kind: str
    """`file`, `directory`, `link` or `special`."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A name in an opened directory, as good as a path, and as long as its block lasts."""

    directory: int | None
    name: str
    shown: str

    def read(self) -> int:
        """A descriptor of the file, which is an ordinary one. Raises: `Refused`."""
        with in_words(self.shown):
            descriptor = os.open(self.name, os.O_RDONLY | _FILE, dir_fd=self.directory)
            mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return descriptor
        os.close(descriptor)
        what = "a directory: list it with list_files" if stat.S_ISDIR(mode) else "not an ordinary file"
        raise Refused(f"{self.shown!r} is {what}.")

    def stat(self) -> os.stat_result | None:
        """What is there, or `None`."""
        with suppress(FileNotFoundError), in_words(self.shown, but=(errno.ENOENT,)):
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        return None

    @contextmanager
    def entries(self) -> "Generator[Iterator[Entry]]":
        """What is in the directory, in no order, but for files that are being written. Raises: `Refused`."""
        with in_words(self.shown):
            if self.directory is None:
                with os.scandir(self.name) as found:
                    yield (_entry(each) for each in found if not _UNFINISHED.fullmatch(each.name))
                return
            descriptor = os.open(self.name, os.O_RDONLY | _DIRECTORY, dir_fd=self.directory)
            try:
                with os.scandir(descriptor) as found:
                    yield (_entry(each) for each in found if not _UNFINISHED.fullmatch(each.name))
            finally:
                os.close(descriptor)

    def replace(self, content: bytes, *, unless_changed: os.stat_result | None = None) -> None:
        """Write the file whole, or not at all. Raises: `Refused`."""
        before = self.stat()
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise Refused(f"{self.shown!r} is not an ordinary file; it is left as it is.")
        temporary = f".{secrets.token_hex(8)}.tmp"
        if self.directory is None:
            temporary = str(Path(self.name).with_name(temporary))
        with in_words(self.shown):
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=self.directory)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    if before is not None and hasattr(os, "fchmod"):
                        os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                if unless_changed is not None and not _same(unless_changed, self.stat()):
                    raise Refused(f"{self.shown!r} was changed by somebody else meanwhile. Read it again.")
                os.replace(temporary, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=self.directory)
                raise


def _same(before: os.stat_result, now: os.stat_result | None) -> bool:
    def mark(each: os.stat_result) -> tuple[int, int, int]:
        return each.st_ino, each.st_size, each.st_mtime_ns

    return now is not None and mark(before) == mark(now)


_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.tmp")
"""What `replace` calls a file until it is whole."""


def _entry(found: os.DirEntry[str]) -> Entry:
    if found.is_symlink():
        return Entry(found.name, "link")
    if found.is_dir(follow_symlinks=False):
        return Entry(found.name, "directory")
    return Entry(found.name, "file" if found.is_file(follow_symlinks=False) else "special")


class Folder:
    """A folder, and what is below it. One that is inside another is walked to from there, every time."""

    def __init__(self, place: Inside, *, can_walk: bool = CAN_WALK) -> None:
        self._place = place
        self._can_walk = can_walk

    @property
    def path(self) -> Path:
        return self._place.folder / self._place.below

    def require(self) -> None:
        """It can be opened, and does not lead out of the folder that it is inside of. Raises: `Refused`."""
        with self.spot("."):
            pass

    @contextmanager
    def spot(self, path: str, *, make_parents: bool = False) -> Generator[Spot]:
        """Where `path` leads, below the folder; the file itself need not exist. Raises: `Refused`."""
        parts = self._parts(path)
        shown = "/".join(parts) or "."
        if not self._place.folder.is_absolute():
            raise Refused(f"The folder {str(self._place)!r} could be anywhere: its path is not absolute.")
        if not self._can_walk:
            yield self._resolved(parts, shown, make_parents)
            return
        with ExitStack() as opened:
            with in_words(shown):
                root = self._root(opened)
                directory, name = _walk(root, parts, opened, top=self.path, make_parents=make_parents)
            yield Spot(directory, name, shown)

    def _root(self, opened: ExitStack) -> int:
        """The folder itself, opened."""
        folder, below = self._place.folder, _split(self._place.below)
        root = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
        opened.callback(os.close, root)
        if below:
            directory, name = _walk(root, below, opened, top=folder)
            root = os.open(name, os.O_RDONLY | _DIRECTORY, dir_fd=directory)
            opened.callback(os.close, root)
        return root

    def _parts(self, path: str) -> list[str]:
        if "\0" in path or len(path) > _LONGEST_PATH:
            raise Refused("That is no path: it has a NUL in it, or is too long.")
        if Path(path).is_absolute() or Path(path).drive:
            for top in {str(self.path), os.path.realpath(self.path)}:
                if Path(path).is_relative_to(top):
                    return [*Path(path).relative_to(top).parts]
            raise Refused(f"{path!r} is outside the folder. Paths are relative to it.")
        return _split(path)

    def _resolved(self, parts: list[str], shown: str, make_parents: bool) -> Spot:
        with in_words(shown):
            found = Path(os.path.realpath(self._place.folder))
            for way in (_split(self._place.below), parts):
                top, found = found, Path(os.path.realpath(found.joinpath(*way)))
                if not found.is_relative_to(top):
                    raise Refused(f"{shown!r} is outside the folder.")
            if make_parents:
                found.parent.mkdir(parents=True, exist_ok=True)
        return Spot(None, str(found), shown)


def _split(path: str) -> list[str]:
    return [part for part in path.replace(os.sep, "/").split("/") if part not in ("", ".")]


def _walk(root: int, parts: list[str], opened: ExitStack, *, top: Path, make_parents: bool = False) -> tuple[int, str]:
    """The directory and the name where `parts` lead from `root`, the opened `top`. Raises: `Refused`."""
    way, todo, links = [root], parts[::-1], 0
    while todo:
        part = todo.pop()
        if part == "..":
            if len(way) == 1:
                raise Refused("That path is outside the folder.")
            way.pop()
            continue
        if (target := _link(part, way[-1])) is not None:
            links += 1
            if links > _MOST_LINKS:
                raise Refused("That path goes round in circles: too many links.")
            if os.path.isabs(target):
                del way[1:]
            todo += _below(target, top)[::-1]
            continue
        if not todo:
            return way[-1], part
        if make_parents:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=way[-1])
        way.append(os.open(part, os.O_RDONLY | _DIRECTORY, dir_fd=way[-1]))
        opened.callback(os.close, way[-1])
    return way[-1], "."


def _below(target: str, top: Path) -> list[str]:
    """The parts of a link's target. Raises: `Refused`, if it is absolute and leads elsewhere."""
    if os.path.isabs(target):
        real = os.path.realpath(top)
        if not Path(target).is_relative_to(real):
            raise Refused("That path leads outside the folder, by a link.")
        target = str(Path(target).relative_to(real))
    return [part for part in target.split("/") if part not in ("", ".")]


def _link(name: str, directory: int) -> str | None:
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as exc:
        # It is no link, or it is not there: whoever opens it will see.
        if exc.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


_WORDS = {
    errno.ENOENT: "There is no {!r}.",
    errno.ENOTDIR: "{!r} is not a directory, or something on the way to it is not.",
    errno.EISDIR: "{!r} is a directory.",
    errno.EACCES: "{!r} may not be touched: permission denied.",
    errno.EPERM: "{!r} may not be touched: permission denied.",
    errno.ELOOP: "{!r} has become a link meanwhile; it is not followed.",
    errno.ENXIO: "{!r} is not an ordinary file.",
    errno.EROFS: "{!r} cannot be written: the file system is read-only.",
    errno.ENOSPC: "{!r} cannot be written: the disk is full.",
    errno.ENAMETOOLONG: "{!r} has too long a name.",
}


@contextmanager
def in_words(shown: str, *, but: tuple[int, ...] = ()) -> Generator[None]:
    """Turn the system's errors into `Refused`, all `but` these."""
    try:
        yield
    except OSError as exc:
        if exc.errno in but:
            raise
        words = _WORDS.get(exc.errno or 0, "{!r} cannot be used: " + (exc.strerror or "the system refuses") + ".")
        raise Refused(words.format(shown)) from exc
    except ValueError as exc:
        raise Refused(f"{shown!r} is no path.") from exc
