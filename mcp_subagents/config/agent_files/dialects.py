"""How each app writes its agent files: a table of keys for each."""

from collections.abc import Mapping
from dataclasses import dataclass

import mcp_subagents.config.agent_files.readers as readers
from mcp_subagents.config.agent_files.drafts import Reader
from mcp_subagents.config.agent_files.readers import ignored, ignored_if, left_out_if

EXTRAS = "x-mcp-subagents"
"""The key under which a file says what only we understand."""

_LOOKS = ignored("it is only about looks")
_HOOKS = ignored("hooks run commands, which an agent file cannot")
_SKILLS = ignored("there are no skills here; context_files under x-mcp-subagents add texts")
_ALONE = ignored("it is about an agent that the user talks to, not about one that works for another")

_MENUS = "it is about the menus of its app; here every subagent can be delegated to"


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """One app's way of writing an agent down."""

    name: str
    keys: Mapping[str, Reader]
    """What is understood, or knowingly ignored. Read in this order."""
    required: tuple[str, ...] = ()
    is_toml: bool = False
    needs_header: bool = True
    others: Reader | None = None
    """Takes keys that are not in the table; without it they are unknown."""


_COMMON: Mapping[str, Reader] = {"name": readers.name, "description": readers.description}

CLAUDE = Dialect(
    name="Claude Code",
    required=("name", "description"),
    keys={
        **_COMMON,
        "model": readers.model,
        "mcpServers": readers.servers,
        "tools": readers.tools,
        "disallowedTools": readers.disallowed_tools,
        "effort": readers.effort,
        "maxTurns": readers.turns,
        "background": readers.background,
        "permissionMode": readers.permission_mode,
        "hooks": _HOOKS,
        "skills": _SKILLS,
        "memory": ignored("a subagent remembers nothing from one task to the next"),
        "isolation": ignored("files are only read, so it needs no worktree"),
        "omitClaudeMd": ignored("CLAUDE.md is never read; context_files under x-mcp-subagents add texts"),
        "autoCompactWindow": ignored("histories are not compacted"),
        "initialPrompt": _ALONE,
        "color": _LOOKS,
        **dict.fromkeys(("observer", "observerMessage", "observeSubagents"), ignored("nobody observes a subagent")),
        "experimental": ignored("settings of Claude Code's own"),
    },
)

COPILOT = Dialect(
    name="VS Code",
    needs_header=False,
    keys={
        **_COMMON,
        "model": readers.model,
        "mcp-servers": readers.servers,
        "tools": readers.tools,
        "agents": readers.subagents,
        "disable-model-invocation": left_out_if(True, "its writer wants no other agent to use it"),
        "infer": left_out_if(False, "its writer wants no other agent to use it"),
        "user-invocable": ignored_if(False, _MENUS),
        "argument-hint": _ALONE,
        "target": ignored("it is read wherever it is meant for"),
        "handoffs": _ALONE,
        "hooks": _HOOKS,
    },
)

CURSOR = Dialect(
    name="Cursor",
    required=("description",),
    keys={
        **_COMMON,
        "model": readers.model,
        "readonly": readers.read_only,
        "is_background": readers.background,
        "tools": readers.tools,
    },
)

CODEX = Dialect(
    name="Codex",
    is_toml=True,
    required=("name", "description", "developer_instructions"),
    keys={
        **_COMMON,
        "developer_instructions": readers.instructions,
        "model": readers.model,
        "model_reasoning_effort": readers.effort,
        "mcp_servers": readers.servers,
        "sandbox_mode": readers.sandbox,
        "nickname_candidates": _LOOKS,
        "skills": _SKILLS,
        "approval_policy": ignored("there is nobody to approve while it runs"),
    },
    others=ignored("a setting of Codex's own"),
)

GEMINI = Dialect(
    name="Gemini CLI",
    required=("name", "description"),
    keys={
        **_COMMON,
        "kind": left_out_if("remote", "a remote agent is run by its own server"),
        "model": readers.model,
        "mcpServers": readers.servers,
        "tools": readers.tools,
        "max_turns": readers.turns,
        "timeout_mins": readers.minutes,
        "temperature": ignored("models use their own temperature"),
        "display_name": _LOOKS,
    },
)

OPENCODE = Dialect(
    name="OpenCode",
    required=("description",),
    keys={
        **_COMMON,
        "mode": left_out_if("primary", "a primary agent talks to the user and is no subagent"),
        "disable": left_out_if(True, "it is switched off"),
        "prompt": readers.instructions,
        "model": readers.model,
        "permission": readers.permissions,
        "tools": readers.tools,
        "steps": readers.turns,
        "maxSteps": readers.turns,
        "reasoningEffort": readers.effort,
        "temperature": ignored("models use their own temperature"),
        "top_p": ignored("models use their own sampling"),
        "color": _LOOKS,
        "hidden": ignored_if(True, _MENUS),
    },
)

GENERIC = Dialect(name="agents", required=("description",), keys=CLAUDE.keys)
"""`.agents/agents`: nobody's own, written like Claude Code's; the file may give the name."""

DIALECTS: Mapping[str, Dialect] = {
    "agents": GENERIC,
    "claude": CLAUDE,
    "codex": CODEX,
    "copilot": COPILOT,
    "cursor": CURSOR,
    "gemini": GEMINI,
    "opencode": OPENCODE,
}
"""By the words with which people say whose a file is."""
