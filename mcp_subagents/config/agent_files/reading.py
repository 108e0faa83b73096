"""From the text of an agent file to a subagent, and to what there is to say about the file."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from mcp_subagents.config.agent_files.dialects import EXTRAS, Dialect
from mcp_subagents.config.agent_files.drafts import Draft, Ground
from mcp_subagents.config.agent_files.extras import take_extras
from mcp_subagents.config.agent_files.tools import equip
from mcp_subagents.config.documents import Document, parse_toml, parse_yaml
from mcp_subagents.config.mistakes import Mistake, Place, by_line, in_words, shown
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.errors import did_you_mean


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentFile:
    """What became of an agent file."""

    path: Path
    dialect: str
    name: str = ""
    """How it calls its subagent, also if that cannot be used."""
    spec: SubAgentSpec | None = None
    notes: tuple[Mistake, ...] = ()
    """What it says that is not honoured."""
    wrong: tuple[Mistake, ...] = ()
    """Why it could not be used."""
    left_out: str = ""
    """Why it is not used, though nothing is wrong with it."""
    document: Document = field(default_factory=Document, compare=False, repr=False)
    """Where it says what it says."""

    def told(self) -> list[str]:
        """All that there is to say about it, a line each."""
        left_out = [Mistake(what=f"left out: {self.left_out}")] if self.left_out else []
        return [each.told_of(self.path) for each in (*self.wrong, *left_out, *self.notes)]

    def mistake(self, place: Place, what: str) -> Mistake:
        """Something else that is wrong with it: `place` is where its subagent has it, and is told as the app has it."""
        key = str(place[0]) if place else ""
        if (EXTRAS, key) in self.document.lines:
            return self.document.mistake((EXTRAS, *place), what)
        written = next((each for each in _WRITTEN.get(key, (key,)) if (each,) in self.document.lines), None)
        return Mistake(what=what) if written is None else self.document.mistake((written,), what)


_WRITTEN: Mapping[str, tuple[str, ...]] = {
    "mcp_servers": ("mcpServers", "mcp-servers", "mcp_servers", "tools", "permission"),
    "capabilities": ("tools", "permission"),
    "fallback_models": ("model",),
    "subagents": ("agents", "tools"),
}
"""Under which keys apps have what a subagent has."""


def read_agent(text: str, path: Path, dialect: Dialect, ground: Ground) -> AgentFile:
    """The subagent that `text`, the content of the file at `path`, describes on this ground."""
    document, body = _opened(text, dialect)
    data: object = {} if document.data is None else document.data
    if document.wrong or not isinstance(data, dict):
        unfit = Mistake(what=f"its front matter must be a mapping, not {shown(data)}", line=2)
        wrong = document.wrong or (unfit,)
        return AgentFile(path=path, dialect=dialect.name, name=name_of(path), wrong=wrong, document=document)
    given = cast("dict[Any, Any]", data)
    draft = Draft(ground)
    _take_keys(draft, given, dialect)
    if body.strip():
        draft.values["instructions"] = body.strip()
    if "name" not in dialect.required:
        draft.values.setdefault("name", name_of(path))
    if given.get(EXTRAS) is not None:
        take_extras(draft, given[EXTRAS])
    equip(draft)
    spec = None if draft.wrong else _made(draft, given)
    wrong = _placed(draft.wrong, document)
    return AgentFile(
        path=path,
        dialect=dialect.name,
        name=str(draft.values.get("name") or name_of(path)),
        spec=spec if not wrong and not draft.left_out else None,
        notes=_placed(draft.notes, document),
        wrong=wrong,
        left_out="" if wrong else draft.left_out,
        document=document,
    )


def name_of(path: Path) -> str:
    """The name that a file itself gives to its agent."""
    return re.sub(r"(\.agent|\.chatmode)?\.[a-z]+$", "", path.name, flags=re.IGNORECASE)


_HEADER = re.compile(r"\s*?---[ \t]*\r?\n(?P<header>.*?)^---[ \t]*\r?(?:\n|\Z)(?P<body>.*)", re.DOTALL | re.MULTILINE)


def _opened(text: str, dialect: Dialect) -> tuple[Document, str]:
    if dialect.is_toml:
        return parse_toml(text), ""
    if found := _HEADER.match(text):
        before = text.count("\n", 0, found.start("header"))
        return parse_yaml(found["header"], first_line=before + 1), found["body"]
    if text.lstrip().startswith("---"):
        return Document(wrong=(Mistake(what="its front matter has no end: a line with --- is missing", line=1),)), ""
    if dialect.needs_header:
        what = "it has no front matter: a line with ---, its keys, and a line with --- again"
        return Document(wrong=(Mistake(what=what, line=1),)), ""
    return Document(), text


def _take_keys(draft: Draft, given: Mapping[Any, Any], dialect: Dialect) -> None:
    for key, read in dialect.keys.items():
        if given.get(key) is not None:
            read(draft, key, given[key])
    draft.wrong += [((key,), "is missing") for key in dialect.required if given.get(key) in (None, "")]
    for key in given:
        if key in dialect.keys or key == EXTRAS:
            continue
        if dialect.others is not None:
            dialect.others(draft, str(key), given[key])
        else:
            hint = did_you_mean(str(key), [*dialect.keys, EXTRAS])
            # Not a list of all of them: a key that is like no other may be of a later version of the app.
            draft.note(str(key), f"unknown key, {hint}" if hint.startswith("did") else "unknown key")


def _made(draft: Draft, given: Mapping[str, Any]) -> SubAgentSpec | None:
    ours = cast("Mapping[str, Any]", given.get(EXTRAS) or {})
    try:
        return SubAgentSpec.model_validate(draft.values, strict=True)
    except ValidationError as wrong:
        draft.wrong += [
            ((EXTRAS, *place) if place and place[0] in ours else place, what)
            for place, what in in_words(wrong, draft.values)
        ]
        return None


def _placed(found: Iterable[tuple[Place, str]], document: Document) -> tuple[Mistake, ...]:
    return tuple(by_line(document.mistake(place, what) for place, what in found))
