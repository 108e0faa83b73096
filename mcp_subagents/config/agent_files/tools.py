"""Tools by the names that other apps give them: what a subagent here gets instead, and what it never gets."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from mcp_subagents.config.agent_files.drafts import REST, Draft
from mcp_subagents.config.mistakes import Place

READ, LIST, SEARCH = "read_file", "list_files", "search_files"
"""The tools that a workspace gives to read in it."""
FILES = (READ, LIST, SEARCH)

_OURS: Mapping[str, tuple[str, ...]] = {
    READ: ("read", "readfile", "read_file", "read_many_files", "view", "notebookread", "read/readfile"),
    LIST: ("ls", "list", "listdir", "list_directory", "glob", "filesearch", "file_search", "search/listdirectory"),
    SEARCH: ("grep", "grep_search", "search", "codebase", "textsearch", "search_file_content", "search/codebase"),
    "WebFetch": ("webfetch", "web_fetch", "fetch", "web", "web/fetch"),
    "WebSearch": ("websearch", "web_search", "google_web_search"),
    "ask": ("askuserquestion", "ask_user", "question", "vscode/askquestions"),
    "agents": ("agent", "task", "runsubagent", "agent/runsubagent"),
    "shell": (
        *("bash", "shell", "run_shell_command", "execute", "terminal", "runcommands", "runinterminal", "powershell"),
        *("bashoutput", "killshell", "killbash", "monitor", "runtasks", "runtests", "execute/runinterminal"),
    ),
    "write": (
        *("write", "edit", "multiedit", "notebookedit", "write_file", "replace", "editfiles", "patch", "apply_patch"),
        *("new", "createfile", "createdirectory", "edit/editfiles", "edit/createfile", "editnotebook"),
    ),
}
KINDS = {name: kind for kind, names in _OURS.items() for name in names}
"""What each tool of another app is here."""

LONGEST_NAME = 64
"""Of a tool, as providers take it; what is longer gets a mark at its end."""

NEVER = "shell and writing are never granted by an agent file"
UNKNOWN = "there is no such tool here"
NOBODY = "name the subagents it may delegate to, as in Agent(researcher); otherwise it may delegate to none"


def equip(draft: Draft) -> None:
    """Give the subagent of `draft` what it asked for and may have, and note the rest."""
    reasons: dict[tuple[Place, str], list[str]] = defaultdict(list)
    kit = _Kit(draft, reasons)
    is_shut = draft.is_shut or any(name == "*" for _, name in draft.denied)
    granted = draft.granted if not is_shut else [each for each in draft.granted or () if each[1] != REST]
    if granted is None:
        kit.files = True
        kit.patterns = [plain_name(server, "*") for server in draft.servers]
        reasons[(), "the file does not list tools: it gets those to read the project, and its MCP servers"] = []
    for place, name in granted or ():
        kit.grant(place, name)
    if granted is not None:
        kit.drop_servers_without_tools()
    for place, name in draft.denied:
        kit.deny(place, name)
    kit.settle()
    for (place, reason), names in reasons.items():
        draft.notes.append((place, ": ".join(part for part in (", ".join(names), reason) if part)))


class _Kit:
    """What a subagent gets."""

    def __init__(self, draft: Draft, reasons: dict[tuple[Place, str], list[str]]) -> None:
        self._draft = draft
        self._reasons = reasons
        self.files = False
        self.patterns: list[str] = []
        self._capabilities: list[str] = []
        self._denied: list[str] = []

    def grant(self, place: Place, name: str) -> None:
        if name == REST:
            self.files = True
            return
        if name == "*":
            self.files = True
            self.patterns += [plain_name(server, "*") for server in self._draft.servers]
            self._say(place, name, "it gets the tools to read the project, and its MCP servers")
            return
        bare, _, inner = name.partition("(")
        match KINDS.get(bare.strip().lower()):
            case "read_file" | "list_files" | "search_files":
                self.files = True
            case "WebFetch" | "WebSearch" as capability:
                self._capabilities.append(capability)
            case "ask":
                self._draft.values["can_ask_questions"] = True
            case "agents":
                self._delegate(place, name, inner)
            case "shell" | "write":
                self._say(place, name, NEVER)
            case _:
                self._served(place, name)

    def _delegate(self, place: Place, name: str, inner: str) -> None:
        chosen = [each.strip() for each in inner.rstrip(")").split(",") if each.strip()]
        if chosen:
            self._draft.values["subagents"] = chosen
        else:
            self._say(place, name, NOBODY)

    def _served(self, place: Place, name: str) -> None:
        found = served(name, [*self._draft.servers, *self._draft.ground.servers])
        if found is not None:
            server, pattern = found
            self._draft.servers.setdefault(server, None)
            self.patterns.append(pattern)
        elif _SERVED.match(name) or "/" in name:
            self._say(place, name, "there is no such MCP server; define it under mcp_servers in subagents.yaml")
        else:
            self._say(place, name, UNKNOWN)

    def deny(self, place: Place, name: str) -> None:
        bare, _, inner = name.partition("(")
        wanted = bare.strip().lower()
        kinds = {kind for known, kind in KINDS.items() if fnmatchcase(known, wanted)}
        if inner and kinds & {*FILES, "WebFetch", "WebSearch"}:
            self._say(place, name, "rules for single paths and addresses are not known here; it is denied")
        for kind in kinds:
            self._deny_kind(kind)
        if wanted == "*":
            self._draft.servers.clear()
            self.patterns.clear()
        elif not kinds and (found := served(name, self._draft.servers)) is not None:
            self._denied.append(found[1])
        # What is never granted needs no denial.

    def _deny_kind(self, kind: str) -> None:
        if kind in FILES:
            self._denied.append(kind)
        elif kind in ("WebFetch", "WebSearch"):
            self._capabilities = [each for each in self._capabilities if each != kind]
        elif kind == "agents":
            self._draft.values.pop("subagents", None)
        elif kind == "ask":
            self._draft.values["can_ask_questions"] = False

    def drop_servers_without_tools(self) -> None:
        for server in [each for each in self._draft.servers if not self._uses(each)]:
            del self._draft.servers[server]
            self._say(("mcp_servers",), server, "none of its tools is in the list of tools")

    def _uses(self, server: str) -> bool:
        return any(pattern.startswith(plain_name(server, "")) for pattern in self.patterns)

    def settle(self) -> None:
        """Write into the draft what the subagent has."""
        values = self._draft.values
        if self.files and set(FILES) - set(self._denied):
            self._open_project()
        if self._capabilities:
            said = values.get("capabilities", [])
            values["capabilities"] = [*said, *(each for each in dict.fromkeys(self._capabilities) if each not in said)]
        if self._draft.servers:
            own = {name: definition for name, definition in self._draft.servers.items() if definition is not None}
            shared = [name for name in self._draft.servers if name not in own]
            values["mcp_servers"] = [*shared, *({name: each} for name, each in own.items())]
        if any(not pattern.endswith("__*") for pattern in self.patterns):
            # A list of tools shuts out all others, so it names also what the rest of the kit brings.
            # Patterns for those of capabilities: which tools these bring depends on the model.
            web = {"WebFetch": ["web_fetch*"], "WebSearch": ["web_search*", "duckduckgo*"]}
            brought = [tool for each in self._capabilities for tool in web[each]]
            wanted = [*(FILES if "workspace" in values else ()), *brought, *dict.fromkeys(self.patterns)]
            values.setdefault("tools", wanted)
        denied = [each for each in dict.fromkeys(self._denied) if each not in FILES or "workspace" in values]
        if denied:
            values.setdefault("disallowed_tools", denied)

    def _open_project(self) -> None:
        project = self._draft.ground.project
        if "workspace" in self._draft.values:
            return
        if project == Path(project.anchor) or project == Path.home():
            self._say((), "", f"it cannot read files: {project} is no project")
            return
        self._draft.values["workspace"] = {"path": str(project), "read_only": True}

    def _say(self, place: Place, name: str, reason: str) -> None:
        self._reasons[place, reason] += [name] if name else []


_SERVED = re.compile(r"mcp_")


def served(name: str, servers: Iterable[str]) -> tuple[str, str] | None:
    """One of `servers`, and its tool as it is called here: `server__tool`, or `server__*` for all of them.

    Apps write `mcp__server__tool` and `mcp__server`, `server/tool` and `server/*`, `mcp_server_tool` and
    `mcp_server_*`, or `server_*`.
    """
    for server in sorted(servers, key=len, reverse=True):
        for spelling in (server, plain_name(server, "").removesuffix("__")):
            found = re.fullmatch(rf"(?:mcp__|mcp_)?{re.escape(spelling)}(?:(?:__|_|/)(?P<tool>.+))?", name)
            if found:
                return server, plain_name(server, found["tool"] or "*")
    return None


def plain_name(server: str, tool: str) -> str:
    """The name of a tool, or a pattern for several, in the characters and of the length that providers take."""
    name = re.sub(r"[^A-Za-z0-9_*-]", "_", f"{server}__{tool}")
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 9]}*"
