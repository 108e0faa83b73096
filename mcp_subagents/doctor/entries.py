"""What a host's entry for our server says, and what can be told of it without starting anything."""

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PureWindowsPath
from typing import Any, cast

from mcp_subagents.doctor.findings import Finding, problem, warning
from mcp_subagents.hosts import Host, Launch
from mcp_subagents.hosts.states import NAME

_REFERENCE = re.compile(r"\$\{(?:env:)?(?P<name>\w+)(?P<default>:-[^}]*)?\}|\{env:(?P<braced>\w+)\}")
_BARE_REFERENCE = re.compile(r"\$(?P<name>[A-Za-z_]\w*)")
"""As Gemini CLI writes it."""
_FETCHERS = frozenset({"uvx", "uv", "pipx", "npx", "docker"})
"""Commands that may first download what they start."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "cmd", "powershell", "pwsh", "wsl", "ssh"})
"""Commands that take words for a program, or hand them to another machine."""
_HANDED_ON = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER", "APPDATA", "LOCALAPPDATA")
_HANDED_ON_TOO = ("PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE", "PATHEXT")
"""What a server gets of the environment of a host that does not hand it on."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry for our server in the file of a host."""

    host: Host
    name: str
    launch: Launch
    data: Mapping[str, Any]

    @property
    def told(self) -> str:
        return f"{self.host.title} ({self.name})"

    @property
    def given(self) -> Mapping[str, str]:
        """The variables that it sets, as they are written."""
        found: object = self.data.get("env") or self.data.get("environment")
        return (
            {str(key): str(value) for key, value in cast("dict[Any, Any]", found).items()}
            if isinstance(found, dict)
            else {}
        )

    @property
    def passed(self) -> Sequence[str]:
        """The variables that Codex is to pass on, if they are set."""
        found: object = self.data.get("env_vars")
        return [str(each) for each in cast("list[Any]", found)] if isinstance(found, list) else []

    @property
    def not_started(self) -> str:
        """Why it cannot be started on a store of our own, if so; nothing if it can."""
        match PureWindowsPath(self.launch.command).name.lower().removesuffix(".exe"):
            case name if name in _FETCHERS:
                return f"{self.launch.command} fetches it when it starts"
            case name if name in _SHELLS:
                return f"{self.launch.command} may start it on your real tasks"
            case _:
                return ""

    @property
    def configs(self) -> Sequence[str]:
        """The configuration that it names, if any."""
        return self._arguments_for_config or ([value] if (value := self.given.get("MCP_SUBAGENTS_CONFIG")) else [])

    @property
    def _arguments_for_config(self) -> Sequence[str]:
        args = self.launch.args
        named = [after for before, after in pairwise(args) if before == "--config"]
        return named + [each.partition("=")[2] for each in args if each.startswith("--config=")]

    def again(self, *options: str, config: str | None = None) -> str:
        """The command that renews this very entry, and lets it keep its configuration unless there is another.

        The variables of an entry stay when it is renewed; its arguments do not.
        """
        kept = [config] if config is not None else self._arguments_for_config[-1:]
        words = ["mcp-subagents", "install", self.host.name]
        words += ["--name", self.name] if self.name != NAME else []
        words += ["--config", *kept] if kept else []
        return shlex.join([*words, *options])

    def references(self) -> Sequence[str]:
        """The variables that it takes from the host's environment, but for those with a default."""
        texts = [*self.given.values(), *self.launch.args]
        return list(dict.fromkeys(name for text in texts for name in self._named_in(text)))

    def _named_in(self, text: str) -> Iterable[str]:
        for match in _REFERENCE.finditer(text):
            if not match["default"]:
                yield match["name"] or match["braced"]
        if self.host.reference == "$%s":
            yield from (match["name"] for match in _BARE_REFERENCE.finditer(text))

    def environment(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """What the server would find in its environment, if the host were started in `env`."""
        names = env.keys() if self.host.hands_on else {*_HANDED_ON, *_HANDED_ON_TOO, *self.passed} & env.keys()
        given = {key: self._filled(value, env) for key, value in self.given.items()}
        return {**{name: env[name] for name in names}, **given}

    def _filled(self, text: str, env: Mapping[str, str]) -> str:
        def value(match: re.Match[str]) -> str:
            name = match["name"] or match["braced"]
            return env.get(name) or (match["default"] or ":-")[2:]

        filled = _REFERENCE.sub(value, text)
        if self.host.reference == "$%s":
            filled = _BARE_REFERENCE.sub(lambda match: env.get(match["name"], ""), filled)
        return filled


def looked_at(entry: Entry, env: Mapping[str, str]) -> Sequence[Finding]:
    """What is wrong with an entry, seen from outside: its switch, its command, its files, its variables."""
    return [*_switch(entry), *_command(entry, env), *_config(entry), *_variables(entry, env)]


def _switch(entry: Entry) -> Iterable[Finding]:
    key, on = ("disabled", "false") if entry.data.get("disabled") is True else ("enabled", "true")
    if entry.data.get("disabled") is True or entry.data.get("enabled") is False:
        told = f"{entry.told}: it is switched off there, so the app does not start it."
        yield problem("hosts", told, f"Switch it on in the app, or write {on} for `{key}` into its entry.")


def _command(entry: Entry, env: Mapping[str, str]) -> Iterable[Finding]:
    command = entry.launch.command
    path = Path(command).expanduser()
    if shutil.which(str(path), path=entry.environment(env).get("PATH")) is None:
        if path.is_file():
            yield problem("hosts", f"{entry.told}: {command} is not executable.", f"chmod +x '{command}'")
        else:
            told = f"{entry.told}: it starts {command}, which is not there; its environment may have been deleted."
            yield problem("hosts", told, f"Install it anew from where mcp-subagents is now: {entry.again()}")
    elif not path.is_absolute() and entry.host.desktop:
        told = f"{entry.told}: {command!r} is found by PATH here, and an app that is started by a click has another."
        yield warning("hosts", told, f"Let the entry have the whole path: {entry.again()}")


def _config(entry: Entry) -> Iterable[Finding]:
    for each in entry.configs:
        if "{" in each or "$" in each:
            continue  # a variable of the host's own
        path = Path(each).expanduser()
        if not path.is_absolute():
            told = f"{entry.told}: its configuration {each!r} is looked for wherever the app was started."
            yield warning("hosts", told, f"Give the whole path: {entry.again(config=os.path.abspath(path))}")
        elif not path.is_file():
            told = f"{entry.told}: its configuration {each} is not there."
            yield problem("hosts", told, f"Put the file there, or name another one: {entry.again(config='FILE')}")


def _variables(entry: Entry, env: Mapping[str, str]) -> Iterable[Finding]:
    for name in entry.references():
        if not env.get(name):
            told = f"{entry.told}: it takes {name} from the environment, and here {name} is not set."
            yield warning("hosts", told, f"Set {name} where the app gets its environment from: export {name}=...")


def unseen_keys(entry: Entry, env: Mapping[str, str], keys: Sequence[str]) -> Iterable[Finding]:
    """The keys that are set here, and that a server which the host starts would not find."""
    if missing := [name for name in keys if not entry.environment(env).get(name)]:
        names = ", ".join(missing)
        # A file that can name no variable has to hold the key itself, which is for its owner to say.
        copying = ["--copy-keys"] if entry.host.reference is None else []
        yield warning(
            "hosts",
            f"{entry.told}: its server will not see {names}, which the models of your subagents need.",
            f"Put {names} under `env` of the entry, or let this do it: {entry.again(*copying)}",
        )
