"""What a user still has to do after our server was put into a host, in words."""

from collections.abc import Mapping

from mcp_subagents.hosts.entries import KEYS, Variables
from mcp_subagents.hosts.known import Host

_NEXT = {
    "claude-desktop": "Quit Claude Desktop, not only its window, and open it again.",
    "claude-code": "New sessions have it; /mcp shows it.",
    "cursor": "Look under MCP in Cursor's settings, and switch it on if it is off.",
    "vscode": "Run MCP: List Servers in VS Code and start it; VS Code asks once whether you trust it.",
    "codex": "New sessions have it; /mcp shows it.",
    "gemini": "New sessions have it, in folders that you trust; /mcp shows it.",
    "opencode": "New sessions have it; opencode mcp list shows it.",
}


def next_steps(host: Host, given: Variables, env: Mapping[str, str]) -> tuple[str, ...]:
    """What is left to do for `host`, whose entry was given these variables; `env` is that of the user's shell."""
    return (_NEXT[host.name], *_keys(host, given, env))


def _keys(host: Host, given: Variables, env: Mapping[str, str]) -> list[str]:
    """How its keys get to the server, where that does not go by itself."""
    steps: list[str] = []
    copied = [name for name in given.written if name in KEYS]
    if given.withheld:
        listed = ", ".join(given.withheld)
        steps.append(
            f"{host.title} hands on no variables, and its file can name none, so the server will not see {listed}. "
            'Write them under "env" of the entry yourself, or run this again with --copy-keys, which does that.'
        )
    if copied:
        steps.append(f"The file now holds the value of {', '.join(copied)}: keep it to yourself.")
    if not copied and not any(env.get(name, "").strip() for name in KEYS):
        again = "" if host.hands_on or host.name == "codex" else ", and install again"
        steps.append(f"No key of a model provider is set here. Set one, such as {KEYS[0]}{again}.")
    elif host.desktop and not copied and not given.withheld:
        steps.append(
            f"{host.title} must see your keys: if they are set in your shell alone, start it from there, "
            "or set them for your whole session."
        )
    return steps
