"""Files of other apps: read as they are, written whole or not at all, kept as they were."""

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mcp_subagents.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class HostFile:
    """A file of a host, as it is now."""

    path: Path
    """Where it really is: behind every link."""
    content: bytes | None
    """Nothing if there is no such file."""

    @property
    def text(self) -> str:
        """What it says, line ends and a byte order mark included."""
        return (self.content or b"").decode("utf-8")


def look(path: Path) -> HostFile:
    """The file at `path`. Raises: `ConfigError` if it is none, or none that can be read as text."""
    try:
        real = path.resolve()
        if real.is_dir():
            raise ConfigError(f"{path}: this is a folder, and should be a file. Move it away, and try again.")
        if real.exists() and not real.is_file():
            raise ConfigError(f"{path}: this is a device or a pipe, and should be a file. Name another one.")
        content = real.read_bytes() if real.exists() else None
        if content is not None:
            content.decode("utf-8")
    except UnicodeDecodeError as why:
        raise ConfigError(
            f"{path}: this is not UTF-8 text (byte {why.start}). Save it as UTF-8, and try again."
        ) from why
    except (OSError, RuntimeError) as why:
        raise ConfigError(f"{path}: it cannot be read: {reason(why)}.") from why
    return HostFile(path=real, content=content)


def missing_folders(path: Path) -> tuple[Path, ...]:
    """The folders above `path` that are not there, outermost first."""
    return tuple(reversed([folder for folder in path.parents if not folder.exists()]))


def write(file: HostFile, content: bytes) -> None:
    """Let `file` hold `content`, at once and with the mode that it had. Folders that it needs are made.

    Raises:
        ConfigError: it cannot be written, or is not what it was when it was looked at; then nothing has changed.
    """
    missing = missing_folders(file.path)
    try:
        _unchanged(file)
        file.path.parent.mkdir(parents=True, exist_ok=True)
        _replace(file, content)
    except OSError as why:
        _remove_folders(missing)
        raise ConfigError(f"{file.path}: it cannot be written: {reason(why)}. Nothing was changed.") from why


def remove(file: HostFile, folders: tuple[Path, ...]) -> None:
    """Take `file` away, and those of `folders` that are empty then. Raises: `ConfigError`."""
    try:
        _unchanged(file)
        file.path.unlink()
    except OSError as why:
        raise ConfigError(f"{file.path}: it cannot be removed: {reason(why)}. Nothing was changed.") from why
    _remove_folders(folders)


def _remove_folders(folders: tuple[Path, ...]) -> None:
    for folder in reversed(folders):
        try:
            folder.rmdir()
        except OSError:
            return  # somebody else has put something there


def _unchanged(file: HostFile) -> None:
    if look(file.path) != file:
        raise ConfigError(f"{file.path}: it has just been changed by somebody else. Nothing was written: try again.")
    # A file without a single permission to write is meant to stay as it is, also by those whom nothing stops.
    if file.content is not None and not (os.access(file.path, os.W_OK) and file.path.stat().st_mode & 0o222):
        raise ConfigError(f"{file.path}: it may not be written. Nothing was changed: allow it, and try again.")


def _replace(file: HostFile, content: bytes) -> None:
    mode = stat.S_IMODE(file.path.stat().st_mode) if file.content is not None else 0o600
    handle, name = tempfile.mkstemp(prefix=f".{file.path.name}.", dir=file.path.parent)
    try:
        with os.fdopen(handle, "wb") as new:
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
        os.chmod(name, mode)
        os.replace(name, file.path)
    except BaseException:
        os.unlink(name)
        raise


def reason(why: Exception) -> str:
    """Why the system refused, without the path that is told already."""
    return ((why.strerror if isinstance(why, OSError) else None) or str(why)).lower()
