"""Where each app keeps its servers, and by what one sees that it is there: rules on paths, which look at nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeVar

from mcp_subagents.hosts.known import Host

P = TypeVar("P", bound=PurePath)

_STORE_PACKAGE = ("Packages", "Claude_pzs8sxrjxfjjc", "LocalCache", "Roaming", "Claude")
"""Where Windows keeps what Claude Desktop writes, if it came from the store."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Where an app may keep its servers."""

    files: tuple[PurePath, ...]
    """The first of them that is there is the one; if none is, the last."""
    signs: tuple[PurePath, ...]
    """Any of these is there if the app is."""
    program: str | None
    """Its command, if it has one."""


def places(host: Host, env: Mapping[str, str], home: PurePath, platform: str) -> Places:
    """Where `host` keeps the servers of a user. `platform` is that of `sys.platform`."""
    settings = _settings(env, home, platform)
    match host.name:
        case "claude-desktop":
            folders = [settings / "Claude"]
            if platform == "win32":
                local = _folder(env, "LOCALAPPDATA", home / "AppData" / "Local")
                folders.insert(0, local.joinpath(*_STORE_PACKAGE))
            files = tuple(folder / "claude_desktop_config.json" for folder in folders)
            return Places(files=files, signs=tuple(folders), program=None)
        case "claude-code":
            folder = _folder(env, "CLAUDE_CONFIG_DIR", home)
            return Places(files=(folder / ".claude.json",), signs=(home / ".claude",), program="claude")
        case "cursor":
            return Places(files=(home / ".cursor" / "mcp.json",), signs=(home / ".cursor",), program="cursor")
        case "vscode":
            folder = settings / "Code"
            return Places(files=(folder / "User" / "mcp.json",), signs=(folder / "User",), program="code")
        case "codex":
            folder = _folder(env, "CODEX_HOME", home / ".codex")
            return Places(files=(folder / "config.toml",), signs=(folder,), program="codex")
        case "gemini":
            folder = _folder(env, "GEMINI_CLI_HOME", home) / ".gemini"
            return Places(files=(folder / "settings.json",), signs=(folder,), program="gemini")
        case _:
            folder = _folder(env, "XDG_CONFIG_HOME", home / ".config") / "opencode"
            files = tuple(folder / name for name in ("opencode.jsonc", "opencode.json"))
            return Places(files=files, signs=(folder,), program="opencode")


def project_files(host: Host, project: P) -> tuple[P, ...]:
    """Where `host` keeps the servers of one project; nothing if it has none. As in `Places.files`."""
    match host.name:
        case "claude-code":
            return (project / ".mcp.json",)
        case "cursor":
            return (project / ".cursor" / "mcp.json",)
        case "vscode":
            return (project / ".vscode" / "mcp.json",)
        case "codex":
            return (project / ".codex" / "config.toml",)
        case "gemini":
            return (project / ".gemini" / "settings.json",)
        case "opencode":
            return (project / "opencode.jsonc", project / "opencode.json")
        case _:
            return ()


def _settings(env: Mapping[str, str], home: PurePath, platform: str) -> PurePath:
    """Where apps with a window keep their settings."""
    match platform:
        case "darwin":
            return home / "Library" / "Application Support"
        case "win32":
            return _folder(env, "APPDATA", home / "AppData" / "Roaming")
        case _:
            return _folder(env, "XDG_CONFIG_HOME", home / ".config")


def _folder(env: Mapping[str, str], variable: str, otherwise: PurePath) -> PurePath:
    """The folder that `variable` names. A relative one names none: it would be another one in each directory."""
    named = type(otherwise)(env.get(variable, "").strip())
    return named if named.is_absolute() else otherwise
