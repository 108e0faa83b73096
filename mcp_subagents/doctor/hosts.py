"""Whether the apps on this machine know our server, and whether what they would start works."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from mcp_subagents.doctor.circumstances import Circumstances
from mcp_subagents.doctor.entries import Entry, looked_at, unseen_keys
from mcp_subagents.doctor.findings import Finding, Level, fine, problem, warning
from mcp_subagents.doctor.models import keys_in_use
from mcp_subagents.doctor.starting import SLOW, Greeting, Silence, greeted
from mcp_subagents.hosts import HostState, Launch, found
from mcp_subagents.hosts.files import look
from mcp_subagents.hosts.launches import launch_in
from mcp_subagents.hosts.servers import Servers, read_servers

_NAME = "mcp-subagents"

_Heard = dict[tuple[Launch, frozenset[tuple[str, str]]], Greeting | Silence]
"""What came of starting a server in an environment: hosts that do the same need not do it twice."""


async def hosts(there: Circumstances) -> Iterable[Finding]:
    """What each app here knows of us; every entry is started as the app would, on an empty store of its own."""
    states = await anyio.to_thread.run_sync(found, there.env, there.home, there.platform, abandon_on_cancel=True)
    here = [state for state in states if state.present]
    if not here:
        return [
            fine("hosts", f"None of the apps that are known is here: {', '.join(each.host.title for each in states)}.")
        ]
    told: list[Finding] = []
    heard: _Heard = {}
    for state in here:
        ours = _ours(state)
        told += _of_file(state, ours)
        for entry in ours:
            told += await _of_entry(entry, there, heard)
    return told


def _ours(state: HostState) -> Sequence[Entry]:
    """All entries of a host that start our server, under whichever name."""
    if state.trouble is not None:
        return ()
    servers = read_servers(look(state.file).text, state.host)
    if not isinstance(servers, Servers):
        return ()
    launches = ((name, entry, launch_in(entry)) for name, entry in servers.entries.items())
    return [
        Entry(state.host, name, launch, cast("Mapping[str, Any]", entry))
        for name, entry, launch in launches
        if launch is not None and launch.is_ours
    ]


def _of_file(state: HostState, ours: Sequence[Entry]) -> Iterable[Finding]:
    title, name = state.host.title, state.host.name
    if state.trouble is not None:
        yield problem("hosts", f"{title}: {state.trouble}", "Mend that file; the app may have lost all its servers.")
    elif not ours and state.standing == "other":
        told = f"{title}: its entry of the name subagents in {state.file} starts something else."
        yield warning("hosts", told, f"Give ours another name: mcp-subagents install {name} --name our-subagents")
    elif not ours:
        yield fine("hosts", f"{title}: does not know mcp-subagents yet (mcp-subagents install {name}).")
    elif len(ours) > 1:
        names = [each.name for each in ours]
        told = (
            f"{title}: our server is there {len(ours)} times, as {', '.join(names)}; each shows the same tools again."
        )
        yield warning("hosts", told, f"Take one out: mcp-subagents uninstall {name} --name {names[-1]}")


async def _of_entry(entry: Entry, there: Circumstances, heard: _Heard) -> Sequence[Finding]:
    wrong = [*looked_at(entry, there.env), *_keys(entry, there)]
    if any(each.level is Level.PROBLEM for each in wrong):
        return wrong
    if entry.not_started:
        return [*wrong, fine("hosts", f"{entry.told}: {entry.not_started}, so it was not started here.")]
    environment = entry.environment(there.env)
    key = entry.launch, frozenset(environment.items())
    if key not in heard:
        heard[key] = await greeted([entry.launch.command, *entry.launch.args], environment, there.options.patience)
    return [*wrong, judged(entry, heard[key])]


def _keys(entry: Entry, there: Circumstances) -> Iterable[Finding]:
    """Of an entry that has another configuration, nobody here knows which keys it needs."""
    own = None if there.config is None or there.config.file is None else there.config.file.absolute()
    if all(Path(each).expanduser() == own for each in entry.configs):
        yield from unseen_keys(entry, there.env, keys_in_use(there))


def judged(entry: Entry, heard: Greeting | Silence) -> Finding:
    """What came of starting the server as the host would."""
    own = version("mcp-subagents")
    match heard:
        case Silence(why):
            fix = f"Install it anew from where mcp-subagents is now: {entry.again()}"
            return problem("hosts", f"{entry.told}: its server does not start: {why}", fix)
        case Greeting(name=name) if name != _NAME:
            told = f"{entry.told}: {entry.launch.command} is not mcp-subagents; it says it is {name}."
            return problem("hosts", told, f"Have it start this one: {entry.again('--force')}")
        case Greeting(version=other) if other != own:
            told = f"{entry.told}: it starts mcp-subagents {other}, and this is {own}."
            return warning("hosts", told, f"Have it start this one: {entry.again()}")
        case Greeting(seconds=seconds) if seconds > SLOW:
            told = f"{entry.told}: its server takes {seconds:.1f} s to answer; some apps wait for ten."
            return warning("hosts", told, "See what keeps the machine busy, or raise the start-up timeout of your app.")
        case Greeting(seconds=seconds):
            return fine("hosts", f"{entry.told}: its server answers after {seconds:.1f} s.")
