"""Which hosts are here, and what each of them knows of our server."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mcp_subagents.config.mistakes import Mistake
from mcp_subagents.errors import ConfigError
from mcp_subagents.hosts.files import look
from mcp_subagents.hosts.known import HOSTS, Host
from mcp_subagents.hosts.launches import Launch, launch_in
from mcp_subagents.hosts.places import places
from mcp_subagents.hosts.servers import read_servers

NAME = "subagents"
"""What our server is called in the files of hosts, unless somebody calls it otherwise."""

Standing = Literal["ours", "other", "absent"]


@dataclass(frozen=True, kw_only=True, slots=True)
class HostState:
    """What is known of one host."""

    host: Host
    file: Path
    """Where it keeps its servers, or would."""
    present: bool
    """Whether the app seems to be here."""
    standing: Standing = "absent"
    """Whether the entry of our name is there, and is ours."""
    entry: object = None
    """The entry of our name, as it stands in the file."""
    trouble: str | None = None
    """Why the file cannot be read, in words that name it and say what would be right."""

    @property
    def installed(self) -> bool:
        return self.standing == "ours"

    @property
    def launch(self) -> Launch | None:
        """How the host starts the server of our name."""
        return launch_in(self.entry)


def found(env: Mapping[str, str], home: Path, platform: str, *, name: str = NAME) -> tuple[HostState, ...]:
    """The state of every known host of a user, whether it is here or not. Looks at files, and starts nothing."""
    return tuple(state_of(host, env, home, platform, name=name) for host in HOSTS.values())


def state_of(host: Host, env: Mapping[str, str], home: Path, platform: str, *, name: str = NAME) -> HostState:
    """The state of one host of a user."""
    known = places(host, env, home, platform)
    file = chosen([Path(each) for each in known.files])
    signs = [file, *(Path(each) for each in known.signs)]
    program = known.program and shutil.which(known.program, path=env.get("PATH", ""))
    return state_in(host, file, present=bool(program) or any(_there(each) for each in signs), name=name)


def state_in(host: Host, file: Path, *, present: bool, name: str = NAME) -> HostState:
    """The same, for a file that is known."""
    try:
        servers = read_servers(look(file).text, host)
    except ConfigError as why:
        return HostState(host=host, file=file, present=present, trouble=str(why))
    if isinstance(servers, Mistake):
        return HostState(host=host, file=file, present=present, trouble=servers.told_of(file))
    if name not in servers.entries:
        return HostState(host=host, file=file, present=present)
    entry = servers.entries[name]
    launch = launch_in(entry)
    standing: Standing = "ours" if launch is not None and launch.is_ours else "other"
    return HostState(host=host, file=file, present=present, standing=standing, entry=entry)


def chosen(files: Sequence[Path]) -> Path:
    """The first of `files` that is there, or whose folder is; else the last."""
    there = next((each for each in files if _there(each)), None)
    return there or next((each for each in reversed(files) if _there(each.parent)), files[-1])


def _there(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except OSError:  # a folder above it may not be looked into
        return False
