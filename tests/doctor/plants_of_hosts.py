"""Planted in the files of hosts."""

import json
import sys

from planting import Ground, Plant, Plants

OURS = {"command": sys.executable, "args": ["-m", "mcp_subagents"]}


def cursor(ground: Ground, **servers: object) -> None:
    ground.put(".cursor/mcp.json", json.dumps({"mcpServers": servers}))


def claude_code(ground: Ground, **servers: object) -> None:
    ground.put(".claude.json", json.dumps({"mcpServers": servers}))


def program(ground: Ground, text: str) -> str:
    path = ground.put("bin/mcp-subagents", f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def other_version(ground: Ground) -> None:
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"serverInfo": {"name": "mcp-subagents", "version": "0.0.1"}}}
    cursor(
        ground, subagents={"command": program(ground, f"input(); print({json.dumps(answer)!r}, flush=True); input()")}
    )


def not_executable(ground: Ground) -> None:
    path = ground.put("bin/mcp-subagents", "")
    cursor(ground, subagents={"command": str(path)})


def key_in_the_shell_alone(ground: Ground) -> None:
    ground.configure(subagents=[{"name": "a", "model": "openai:gpt-5-mini"}])
    ground.set("OPENAI_API_KEY", "x")
    ground.put("Claude/claude_desktop_config.json", json.dumps({"mcpServers": {"subagents": OURS}}))


HOSTS: Plants = {
    "a key that is in the shell alone": Plant(
        check="hosts",
        plant=key_in_the_shell_alone,
        says="warning Claude Desktop (subagents): its server will not see OPENAI_API_KEY, which the models of your "
        "subagents need.",
        fix="Put OPENAI_API_KEY under `env` of the entry, or let this do it: mcp-subagents install claude-desktop "
        "--copy-keys",
        slow=True,
    ),
    "an entry that is switched off": Plant(
        check="hosts",
        plant=lambda ground: ground.put(
            "opencode/opencode.json",
            json.dumps({"mcp": {"subagents": {"command": [sys.executable, *OURS["args"]], "enabled": False}}}),
        ),
        says="problem OpenCode (subagents): it is switched off there, so the app does not start it.",
        fix="Switch it on in the app, or write true for `enabled` into its entry.",
    ),
    "an entry that is disabled": Plant(
        check="hosts",
        plant=lambda ground: cursor(ground, subagents={**OURS, "disabled": True}),
        says="problem Cursor (subagents): it is switched off there, so the app does not start it.",
        fix="Switch it on in the app, or write false for `disabled` into its entry.",
    ),
    "a command that has vanished": Plant(
        check="hosts",
        plant=lambda ground: cursor(ground, subagents={"command": "/gone/.venv/bin/mcp-subagents"}),
        says="problem Cursor (subagents): it starts /gone/.venv/bin/mcp-subagents, which is not there; its "
        "environment may "
        "have been deleted.",
        fix="Install it anew from where mcp-subagents is now: mcp-subagents install cursor",
    ),
    "a command that has vanished, under another name and with a configuration": Plant(
        check="hosts",
        plant=lambda ground: cursor(
            ground,
            helpers={"command": "/gone/mcp-subagents", "args": ["--config", str(ground.put("team.yaml", "{}"))]},
        ),
        says="problem Cursor (helpers): it starts /gone/mcp-subagents, which is not there; its environment may "
        "have been deleted.",
        fix="Install it anew from where mcp-subagents is now: mcp-subagents install cursor --name helpers "
        "--config {home}/team.yaml",
    ),
    "a command that is not executable": Plant(
        check="hosts",
        plant=not_executable,
        says="problem Cursor (subagents): {home}/bin/mcp-subagents is not executable.",
        fix="chmod +x '{home}/bin/mcp-subagents'",
    ),
    "a host's file that is malformed": Plant(
        check="hosts",
        plant=lambda ground: ground.put(".cursor/mcp.json", '{"mcpServers": [}'),
        says="problem Cursor: {home}/.cursor/mcp.json:1: not valid JSON: '}' where a value was expected",
        fix="Mend that file; the app may have lost all its servers.",
    ),
    "an entry with a configuration that is not there": Plant(
        check="hosts",
        plant=lambda ground: cursor(ground, subagents={**OURS, "args": [*OURS["args"], "--config", "/gone/team.yaml"]}),
        says="problem Cursor (subagents): its configuration /gone/team.yaml is not there.",
        fix="Put the file there, or name another one: mcp-subagents install cursor --config FILE",
    ),
    "an entry whose server does not start": Plant(
        check="hosts",
        plant=lambda ground: cursor(
            ground, subagents={"command": program(ground, "raise SystemExit('no such module')")}
        ),
        says="problem Cursor (subagents): its server does not start: no such module (exit code 1)",
        fix="Install it anew from where mcp-subagents is now: mcp-subagents install cursor",
        slow=True,
    ),
    "an entry of another version": Plant(
        check="hosts",
        plant=other_version,
        says="warning Cursor (subagents): it starts mcp-subagents 0.0.1, and this is 0.1.0.",
        fix="Have it start this one: mcp-subagents install cursor",
        slow=True,
    ),
    "an entry with a variable that is not set": Plant(
        check="hosts",
        plant=lambda ground: claude_code(ground, subagents={**OURS, "env": {"OPENAI_API_KEY": "${OUR_TEAM_KEY}"}}),
        says="warning Claude Code (subagents): it takes OUR_TEAM_KEY from the environment, and here OUR_TEAM_KEY "
        "is not set.",
        fix="Set OUR_TEAM_KEY where the app gets its environment from: export OUR_TEAM_KEY=...",
        slow=True,
    ),
    "our server under two names": Plant(
        check="hosts",
        plant=lambda ground: cursor(ground, subagents=OURS, helpers=OURS),
        says="warning Cursor: our server is there 2 times, as subagents, helpers; each shows the same tools again.",
        fix="Take one out: mcp-subagents uninstall cursor --name helpers",
        slow=True,
    ),
    "our name for something else": Plant(
        check="hosts",
        plant=lambda ground: cursor(ground, subagents={"command": "something-else"}),
        says="warning Cursor: its entry of the name subagents in {home}/.cursor/mcp.json starts something else.",
        fix="Give ours another name: mcp-subagents install cursor --name our-subagents",
    ),
}
