"""Where each host keeps its servers, on every platform; and which installation starts the server."""

from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import pytest

from mcp_subagents.errors import ConfigError
from mcp_subagents.hosts.known import HOSTS, named
from mcp_subagents.hosts.launches import Installation, Launch, launch_in, this_installation
from mcp_subagents.hosts.places import places, project_files
from mcp_subagents.hosts.states import chosen

MAC, LINUX = PurePosixPath("/Users/me"), PurePosixPath("/home/me")
WINDOWS = PureWindowsPath("C:/", "Users", "me")

WHERE: list[tuple[str, PurePath, str, dict[str, str], list[str]]] = [
    ("darwin", MAC, "claude-desktop", {}, ["Library/Application Support/Claude/claude_desktop_config.json"]),
    ("darwin", MAC, "claude-code", {}, [".claude.json"]),
    ("darwin", MAC, "cursor", {}, [".cursor/mcp.json"]),
    ("darwin", MAC, "vscode", {}, ["Library/Application Support/Code/User/mcp.json"]),
    ("darwin", MAC, "codex", {}, [".codex/config.toml"]),
    ("darwin", MAC, "gemini", {}, [".gemini/settings.json"]),
    ("darwin", MAC, "opencode", {}, [".config/opencode/opencode.jsonc", ".config/opencode/opencode.json"]),
    ("linux", LINUX, "claude-desktop", {}, [".config/Claude/claude_desktop_config.json"]),
    ("linux", LINUX, "claude-code", {}, [".claude.json"]),
    ("linux", LINUX, "cursor", {}, [".cursor/mcp.json"]),
    ("linux", LINUX, "vscode", {}, [".config/Code/User/mcp.json"]),
    ("linux", LINUX, "codex", {}, [".codex/config.toml"]),
    ("linux", LINUX, "gemini", {}, [".gemini/settings.json"]),
    ("linux", LINUX, "opencode", {}, [".config/opencode/opencode.jsonc", ".config/opencode/opencode.json"]),
    ("linux", LINUX, "vscode", {"XDG_CONFIG_HOME": "/home/me/cfg"}, ["cfg/Code/User/mcp.json"]),
    ("linux", LINUX, "vscode", {"XDG_CONFIG_HOME": "cfg"}, [".config/Code/User/mcp.json"]),
    ("linux", LINUX, "claude-code", {"CLAUDE_CONFIG_DIR": "/home/me/cc"}, ["cc/.claude.json"]),
    ("linux", LINUX, "codex", {"CODEX_HOME": "/home/me/cx"}, ["cx/config.toml"]),
    ("linux", LINUX, "gemini", {"GEMINI_CLI_HOME": "/home/me/g"}, ["g/.gemini/settings.json"]),
    (
        "win32",
        WINDOWS,
        "claude-desktop",
        {},
        [
            "AppData/Local/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude/claude_desktop_config.json",
            "AppData/Roaming/Claude/claude_desktop_config.json",
        ],
    ),
    ("win32", WINDOWS, "claude-code", {}, [".claude.json"]),
    ("win32", WINDOWS, "cursor", {}, [".cursor/mcp.json"]),
    ("win32", WINDOWS, "vscode", {}, ["AppData/Roaming/Code/User/mcp.json"]),
    ("win32", WINDOWS, "vscode", {"APPDATA": str(WINDOWS / "Elsewhere")}, ["Elsewhere/Code/User/mcp.json"]),
    ("win32", WINDOWS, "codex", {}, [".codex/config.toml"]),
    ("win32", WINDOWS, "gemini", {}, [".gemini/settings.json"]),
    ("win32", WINDOWS, "opencode", {}, [".config/opencode/opencode.jsonc", ".config/opencode/opencode.json"]),
]


@pytest.mark.parametrize(
    ("platform", "home", "host", "env", "files"), WHERE, ids=[f"{row[0]} {row[2]} {'-'.join(row[3])}" for row in WHERE]
)
def test_a_host_keeps_its_servers_in(
    platform: str, home: PurePath, host: str, env: dict[str, str], files: list[str]
) -> None:
    found = places(HOSTS[host], env, home, platform)
    assert found.files == tuple(home / file for file in files)
    assert all(type(sign) is type(home) for sign in found.signs)


def test_every_host_has_a_place_on_every_platform() -> None:
    assert {row[:3:2] for row in WHERE} == {(each, host) for each in ("darwin", "linux", "win32") for host in HOSTS}


def test_projects_have_files_of_their_own_for_all_but_claude_desktop() -> None:
    found = {host.name: [str(file) for file in project_files(host, PurePosixPath())] for host in HOSTS.values()}
    assert found == {
        "claude-desktop": [],
        "claude-code": [".mcp.json"],
        "cursor": [".cursor/mcp.json"],
        "vscode": [".vscode/mcp.json"],
        "codex": [".codex/config.toml"],
        "gemini": [".gemini/settings.json"],
        "opencode": ["opencode.jsonc", "opencode.json"],
    }


def test_of_several_files_the_first_that_is_there_is_taken_else_the_last_with_a_folder(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "x.jsonc", tmp_path / "b" / "x.json"
    assert chosen([first, second]) == second
    first.parent.mkdir()
    assert chosen([first, second]) == first
    second.parent.mkdir()
    assert chosen([first, second]) == second
    first.touch()
    assert chosen([first, second]) == first


def test_a_host_is_known_by_its_name_whatever_its_case() -> None:
    assert named(["Claude_Code", "codex", "codex"]) == (HOSTS["claude-code"], HOSTS["codex"])
    with pytest.raises(ConfigError, match="There is no host 'claude-cod' here; did you mean 'claude-code'"):
        named(["claude-cod"])


POSIX, CACHE = PurePosixPath("/opt/tools"), PurePosixPath("/home/me/.cache/uv/archive-v0/Xk3")


def installation(prefix: PurePath, **more: object) -> Installation:
    known: dict[str, object] = {"python": prefix / "bin/python", "script": None, "uvx": None, "packages": frozenset()}
    return Installation(prefix=prefix, **{**known, **more})  # pyright: ignore[reportArgumentType]  # a table of tests


LAUNCHES = {
    "a command beside the interpreter is called": (
        installation(POSIX, script=POSIX / "bin/mcp-subagents"),
        Launch(command="/opt/tools/bin/mcp-subagents", args=("--config", "f")),
    ),
    "without one the interpreter runs the module": (
        installation(POSIX),
        Launch(command="/opt/tools/bin/python", args=("-m", "mcp_subagents", "--config", "f")),
    ),
    "what uvx has made for one run is made again by uvx": (
        installation(CACHE, script=CACHE / "bin/mcp-subagents", uvx="/opt/uvx"),
        Launch(command="/opt/uvx", args=("--from", "mcp-subagents", "mcp-subagents", "--config", "f")),
    ),
    "uvx is told which providers are wanted": (
        installation(CACHE, uvx="/opt/uvx", packages=frozenset({"openai", "anthropic"})),
        Launch(
            command="/opt/uvx",
            args=("--from", "mcp-subagents[anthropic,openai]", "mcp-subagents", "--config", "f"),
        ),
    ),
}


@pytest.mark.parametrize(("here", "launch"), LAUNCHES.values(), ids=LAUNCHES)
def test_a_server_is_started_by_an_absolute_command(here: Installation, launch: Launch) -> None:
    assert here.launch(["--config", "f"]) == launch
    assert launch.is_ours


def test_an_installation_that_may_vanish_is_refused_without_uvx() -> None:
    with pytest.raises(ConfigError, match="uv tool install mcp-subagents"):
        installation(CACHE).launch()


@pytest.mark.parametrize(
    ("platform", "prefix", "script"),
    [
        ("linux", POSIX, POSIX / "bin" / "mcp-subagents"),
        ("win32", WINDOWS, WINDOWS / "Scripts" / "mcp-subagents.exe"),
    ],
)
def test_the_command_is_looked_for_where_the_platform_puts_it(
    platform: str, prefix: PurePath, script: PurePath
) -> None:
    here = this_installation(
        python=prefix / "python",
        prefix=prefix,
        platform=platform,
        exists=lambda path: path == script,
        which=lambda name: f"/opt/{name}",
        installed=lambda package: package == "groq",
    )
    expected = Installation(
        python=prefix / "python", prefix=prefix, script=script, uvx="/opt/uvx", packages=frozenset({"groq"})
    )
    assert here == expected


ENTRIES: dict[str, tuple[object, bool | None]] = {
    "our command": ({"command": "/opt/bin/mcp-subagents"}, True),
    "our command on Windows": ({"command": str(WINDOWS / "mcp-subagents.exe"), "args": []}, True),
    "our module": ({"command": "python3", "args": ["-m", "mcp_subagents"]}, True),
    "uvx with a version": ({"command": "uvx", "args": ["mcp-subagents@1.0"]}, True),
    "uvx with extras": ({"command": "uvx", "args": ["--from", "mcp-subagents[openai]", "mcp-subagents"]}, True),
    "a list": ({"type": "local", "command": ["uvx", "mcp-subagents"]}, True),
    "a Python with options": ({"command": "python3.13", "args": ["-u", "-X", "utf8", "-m", "mcp_subagents"]}, True),
    "uv in a project": ({"command": "uv", "args": ["run", "--directory", "/srv", "mcp-subagents", "-v"]}, True),
    "uv as a tool": ({"command": "uv", "args": ["tool", "run", "--python=3.13", "mcp-subagents"]}, True),
    "uv with a Python": ({"command": "uv", "args": ["run", "--", "python", "-m", "mcp_subagents"]}, True),
    "pipx": ({"command": "pipx", "args": ["run", "--spec", "mcp-subagents[groq]", "mcp-subagents"]}, True),
    "an image": ({"command": "docker", "args": ["run", "-i", "-e", "KEY", "ghcr.io/me/mcp-subagents:1"]}, True),
    "a shell": ({"command": "bash", "args": ["-lc", "cd /srv && KEY=x exec mcp-subagents --config 'a b'"]}, True),
    "a prompt": ({"command": "cmd.exe", "args": ["/c", "mcp-subagents"]}, True),
    "env": ({"command": "/usr/bin/env", "args": ["-u", "HOME", "KEY=x", "mcp-subagents"]}, True),
    "another server that is given our name": ({"command": "npx", "args": ["-y", "fs-server", "mcp-subagents"]}, False),
    "another server of uvx": ({"command": "uvx", "args": ["server-git", "--repository", "mcp-subagents"]}, False),
    "another command of our package": ({"command": "uvx", "args": ["--from", "mcp-subagents", "other"]}, False),
    "another server with us at hand": ({"command": "uv", "args": ["run", "--with", "mcp-subagents", "x.py"]}, False),
    "a script that is given our module": ({"command": "python", "args": ["x.py", "-m", "mcp_subagents"]}, False),
    "another program with -m": ({"command": "npx", "args": ["-m", "mcp_subagents"]}, False),
    "a shell that talks of us": ({"command": "sh", "args": ["-c", "echo 'a; b' mcp-subagents"]}, False),
    "a shell whose line ends inside of a text": ({"command": "sh", "args": ["-c", "echo 'mcp-subagents"]}, False),
    "a script of a shell": ({"command": "sh", "args": ["start.sh", "-c", "mcp-subagents"]}, False),
    "a container that is called like us": (
        {"command": "docker", "args": ["run", "--name", "mcp-subagents", "x"]},
        False,
    ),
    "a runner with nothing to run": ({"command": "uv", "args": ["run"]}, False),
    "runners in runners without an end": ({"command": "env", "args": ["env"] * 5000}, False),
    "another command": ({"command": "npx", "args": ["-y", "server"]}, False),
    "a folder of our name": ({"command": "npx", "args": ["server", "/srv/mcp-subagents"]}, False),
    "another module": ({"command": "python3", "args": ["-m", "mcp_subagents_extra"]}, False),
    "an address": ({"url": "http://127.0.0.1:8000/mcp"}, None),
    "a list of nothing": ({"command": []}, None),
    "a text": ("mcp-subagents", None),
}


@pytest.mark.parametrize(("entry", "ours"), ENTRIES.values(), ids=ENTRIES)
def test_an_entry_is_ours_if_it_starts_us(entry: object, ours: bool | None) -> None:
    launch = launch_in(entry)
    assert (None if launch is None else launch.is_ours) == ours
