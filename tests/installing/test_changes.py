"""An entry goes into any text of a host and out of it again, and no other byte of it changes."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_subagents.config.mistakes import Mistake
from mcp_subagents.hosts.changes import Change, added, removed
from mcp_subagents.hosts.jsonc import Parsed, parse
from mcp_subagents.hosts.known import HOSTS, Host

ENTRY = {"command": "/opt/bin/mcp-subagents", "args": ["--config", "/opt/a b.yaml"], "env": {"KEY": "${env:KEY}"}}
NEWER: dict[str, Any] = {"command": "/opt/new/mcp-subagents", "args": []}
CURSOR, CLAUDE, CODEX = HOSTS["cursor"], HOSTS["claude-code"], HOSTS["codex"]


def put_in(text: str, host: Host, entry: dict[str, Any] = ENTRY, *, force: bool = False) -> Change:
    change = added(text, host, "subagents", entry, force=force)
    assert isinstance(change, Change), change
    return change


def said(text: str, host: Host) -> Any:
    if host.syntax == "toml":
        return tomllib.loads(text.removeprefix("\ufeff"))
    parsed = parse(text)
    assert isinstance(parsed, Parsed), parsed
    return parsed.root.data if parsed.root else {}


def round_trip(text: str, host: Host) -> None:
    """In, in again, renewed, and out: the first text is back."""
    once = put_in(text, host)
    assert said(once.text, host)[host.key]["subagents"] == ENTRY
    assert added(once.text, host, "subagents", ENTRY) is None
    again = put_in(once.text, host, {**ENTRY, **NEWER})
    assert again.trace is None
    for installed in (once.text, again.text):
        out = removed(installed, host, "subagents", once.trace)
        assert isinstance(out, Change)
        assert out.text == text
        forgotten = removed(installed, host, "subagents", None)
        assert isinstance(forgotten, Change)
        left = said(forgotten.text, host)
        if not left.get(host.key):
            left.pop(host.key, None)
        before = said(text, host)
        if not before.get(host.key):
            before.pop(host.key, None)
        assert left == before


NAMES = st.sampled_from(["a", "mcpServers", "servers", "other", "b c", "é", "subagent", "{", "//", "mcp_servers"])
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", "// y", "/* z */", '"', "}", "\\", "\n"])
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
SERVERS = st.dictionaries(NAMES, st.dictionaries(st.sampled_from(["command", "args", "url"]), LEAVES, max_size=2))
PLAIN_GAPS = ("", "", " ", "\n", "\r\n", "\n\t\t", "\n    ", "\t")
GAPS = (*PLAIN_GAPS, "/* c */", "/* a\nb */", " // c\n", "//\r\n  ", "/*}*/", '// "subagents": {\n')


@st.composite
def json_texts(draw: st.DrawFn, gaps: tuple[str, ...]) -> str:
    """An object with servers in it, or without, written down in whichever way."""
    data = draw(st.dictionaries(NAMES.filter(lambda name: name != "mcpServers"), TREES, max_size=3))
    if draw(st.booleans()):
        data["mcpServers"] = draw(SERVERS)
    gap = st.sampled_from(gaps)

    def written(value: object) -> str:
        match value:
            case dict() | list():
                pairs: Any = value.items() if isinstance(value, dict) else ((None, each) for each in value)  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]
                items = [
                    draw(gap)
                    + (f"{json.dumps(name)}{draw(gap)}:{draw(gap)}" if name is not None else "")
                    + written(each)
                    for name, each in pairs
                ]
                last = "," if items and gaps is GAPS and draw(st.booleans()) else ""
                inside = ",".join(item + draw(gap) for item in items) + last + draw(gap)
                return f"{{{inside}}}" if isinstance(value, dict) else f"[{inside}]"
            case _:
                return json.dumps(value, ensure_ascii=draw(st.booleans()))

    whole = draw(st.sampled_from([*gaps, "\ufeff"])) + written(data) + draw(gap)
    if gaps is GAPS and draw(st.integers(0, 19)) == 0:
        return draw(gap)
    return whole


@pytest.mark.slow
@settings(deadline=None)
@given(json_texts(GAPS))
@example("")
@example("{}")
@example("{ }")
@example('{"mcpServers": {}}')
@example('{\n  "mcpServers": {\n  }\n}')
@example('{\r\n\t"mcpServers": { // mine\r\n\t\t"a": {"command": "b"}, // one\r\n\t}\r\n}\r\n')
@example('{"mcpServers": {"a": {}\n}}')
@example("{/*}*/}/*}*/")
def test_json_with_comments_is_byte_identical_after_install_and_uninstall(text: str) -> None:
    round_trip(text, CURSOR)


@pytest.mark.slow
@settings(deadline=None)
@given(json_texts(PLAIN_GAPS))
def test_plain_json_is_byte_identical_after_install_and_uninstall(text: str) -> None:
    round_trip(text, CLAUDE)
    json.loads(put_in(text, CLAUDE).text.removeprefix("\ufeff"))


BLOCKS = [
    "# a comment",
    "",
    '[projects."/srv/[x]"]',
    "trusted = true # [mcp_servers.subagents]",
    "[mcp_servers.other]",
    'command = "npx"',
    "[mcp_servers.other.env]",
    'KEY = "[mcp_servers.subagents]"',
    "args = [\n  'a', # [b]\n  \"]\",\n]",
    'text = """\n[mcp_servers.subagents]\ncommand = "no" ""\\"""',
    "raw = '''\n[mcp_servers.subagents]\n'''",
    "inline = { a = [1, 2], b = '}' }",
    "[[profiles]]",
    "[ spaced . table ]",
    "a.b = 1979-05-27",
    "[mcp_servers.'sub.agents']",
]


@st.composite
def toml_texts(draw: st.DrawFn) -> str:
    lines = draw(st.lists(st.sampled_from(BLOCKS), max_size=8))
    text = draw(st.sampled_from(["", "\ufeff"])) + "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n", "  "]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def is_toml(text: str) -> bool:
    try:
        tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError:
        return False
    return True


@pytest.mark.slow
@settings(deadline=None)
@given(toml_texts().filter(is_toml))
@example("")
@example('model = "x"')
@example('[mcp_servers.other]\ncommand = "y"\n\n# the end\n')
def test_toml_is_byte_identical_after_install_and_uninstall(text: str) -> None:
    round_trip(text, CODEX)


BETWEEN = {
    "a server added behind ours": (
        CURSOR,
        '{\n  "theme": 1\n}\n',
        ('}\n  },\n  "theme"', '},\n    "mine": {}\n  },\n  "theme"'),
        '{\n  "mcpServers": {\n    "mine": {}\n  },\n  "theme": 1\n}\n',
    ),
    "a server added before ours": (
        CURSOR,
        '{\n  "mcpServers": {}\n}\n',
        ('{\n    "subagents"', '{\n    "mine": {}, // me\n    "subagents"'),
        '{\n  "mcpServers": {\n    "mine": {} // me\n  }\n}\n',
    ),
    "something else changed": (
        CURSOR,
        '{\n  // x\n  "a": 1\n}\n',
        ('"a": 1', '"a": 2,\n  "b": 3 // y'),
        '{\n  // x\n  "a": 2,\n  "b": 3 // y\n}\n',
    ),
    "our entry itself changed": (
        CURSOR,
        '{\n  "mcpServers": {\n    "a": {}\n  }\n}',
        ('"args": [', '"disabled": true, // for now\n      "args": ['),
        '{\n  "mcpServers": {\n    "a": {}\n  }\n}',
    ),
    "a file formatted anew": (
        CURSOR,
        '{"a": 1}',
        ('{"mcpServers": {"subagents"', '{\n  "mcpServers": {\n    "subagents"'),
        '{\n  "a": 1}',
    ),
    "a table added behind ours": (
        CODEX,
        'model = "x"\n',
        ("", "\n# mine\n[mcp_servers.mine]\ncommand = 'y'\n"),
        "model = \"x\"\n\n# mine\n[mcp_servers.mine]\ncommand = 'y'\n",
    ),
    "a table added behind ours, in a file without a last line end": (
        CODEX,
        'model = "x"',
        ("", "\n[mine]\na = 1\n"),
        'model = "x"\n\n[mine]\na = 1\n',
    ),
    "a table below ours": (
        CODEX,
        'model = "x"\n',
        ("", "\n[mcp_servers.subagents.tools.task]\napproval_mode = 'approve'\n"),
        'model = "x"\n',
    ),
}


@pytest.mark.parametrize(("host", "text", "edit", "after"), BETWEEN.values(), ids=BETWEEN)
def test_only_ours_goes_when_there_was(host: Host, text: str, edit: tuple[str, str], after: str) -> None:
    once = put_in(text, host)
    old, new = edit
    assert old in once.text
    edited = once.text.replace(old, new, 1) if old else once.text + new
    out = removed(edited, host, "subagents", once.trace)
    assert isinstance(out, Change)
    assert out.text == after


LAYOUTS = {
    "at the beginning of the servers, indented like them": (
        CURSOR,
        '{\n\t"mcpServers": {\n\t\t"a": {} // one\n\t}\n}\n',
        '{\n\t"mcpServers": {\n\t\t"subagents": {\n\t\t\t"command": "c"\n\t\t},\n\t\t"a": {} // one\n\t}\n}\n',
    ),
    "as far in as the others, also where that is odd": (
        CURSOR,
        '{\n  "mcpServers": {\n       "a": {}\n  }\n}\n',
        '{\n  "mcpServers": {\n       "subagents": {\n         "command": "c"\n       },\n       "a": {}\n  }\n}\n',
    ),
    "behind what is said about the servers": (
        CURSOR,
        '{\n  "mcpServers": { // mine\n    "a": {}\n  }\n}\n',
        '{\n  "mcpServers": { // mine\n    "subagents": {\n      "command": "c"\n    },\n    "a": {}\n  }\n}\n',
    ),
    "on one line, where all is on one line": (
        CURSOR,
        '{"mcpServers": {"a": {}}}',
        '{"mcpServers": {"subagents": {"command": "c"}, "a": {}}}',
    ),
    "between empty braces": (
        CURSOR,
        '{\n    "mcpServers": {}\n}',
        '{\n    "mcpServers": {\n        "subagents": {\n            "command": "c"\n        }\n    }\n}',
    ),
    "with the line ends of the file": (
        CURSOR,
        '{\r\n  "a": 1\r\n}',
        '{\r\n  "mcpServers": {\r\n    "subagents": {\r\n      "command": "c"\r\n    }\r\n  },\r\n  "a": 1\r\n}',
    ),
    "into an empty file": (
        CURSOR,
        "",
        '{\n  "mcpServers": {\n    "subagents": {\n      "command": "c"\n    }\n  }\n}\n',
    ),
    "at the end of TOML, after a blank line": (
        CODEX,
        "a = 1\n",
        'a = 1\n\n[mcp_servers.subagents]\ncommand = "c"\n',
    ),
}


@pytest.mark.parametrize(("host", "text", "after"), LAYOUTS.values(), ids=LAYOUTS)
def test_an_entry_is_put(host: Host, text: str, after: str) -> None:
    assert put_in(text, host, {"command": "c"}).text == after


REFUSED = {
    "a list of servers": (
        CURSOR,
        '{\n "mcpServers": []}',
        "f:2: mcpServers: `mcpServers` must hold an object in braces, not a list",
    ),
    "a list": (CURSOR, "[]", "f:1: the file must hold an object in braces, not a list"),
    "servers twice": (CURSOR, '{"mcpServers": {},\n"mcpServers": {}}', "f:2: mcpServers: is there twice: keep one"),
    "our name twice": (
        CURSOR,
        '{"mcpServers": {\n"subagents": {}, "subagents": {}}}',
        "f:2: mcpServers.subagents: is there twice: keep one",
    ),
    "broken JSON": (CURSOR, '{\n"a": }', "f:2: not valid JSON: '}' where a value was expected"),
    "a comment in plain JSON": (
        CLAUDE,
        "{\n// x\n}",
        "f:2: Claude Code reads plain JSON, and this is a comment: take it out",
    ),
    "a last comma in plain JSON": (
        CLAUDE,
        '{\n"a": 1,\n}',
        "f:2: Claude Code reads plain JSON, and this is a comma after the last item: take it out",
    ),
    "broken TOML": (CODEX, "a = 1\nb = ?", "f:2: not valid TOML: Invalid value"),
    "TOML that ends too soon": (CODEX, "a = 1\nb = [\n", "f:2: not valid TOML: "),
    "TOML with a number without end": (
        CODEX,
        "a = 1\nb = " + "1" * 5000,
        "f:2: not valid TOML: a number of 5000 digits, which is too long",
    ),
    "TOML that is nested without end": (
        CODEX,
        "a = " + "[" * 100_000,
        "f: not valid TOML: it is nested too deeply",
    ),
    "servers that are no table": (CODEX, "x = 1\nmcp_servers = []", "f:2: mcp_servers: must be a table, not a list"),
    "servers in an inline table": (
        CODEX,
        "mcp_servers = { a = {} }",
        "f: mcp_servers.subagents: is written in a way that cannot be edited safely; change it by hand",
    ),
    "ours in dotted keys": (
        CODEX,
        'mcp_servers.subagents.command = "mcp-subagents"',
        "f: mcp_servers.subagents: is written in a way that cannot be edited safely; change it by hand",
    ),
    "another server": (
        CURSOR,
        '{"mcpServers": {\n\n"subagents": {"command": "npx"}}}',
        "f:3: mcpServers.subagents: is another server, which starts 'npx'. "
        "Give ours another name with --name, or replace it with --force",
    ),
    "another server at an address": (
        CODEX,
        '[mcp_servers.subagents]\nurl = "http://127.0.0.1"',
        "f:1: mcp_servers.subagents: is another server, which is not started by a command. "
        "Give ours another name with --name, or replace it with --force",
    ),
}


@pytest.mark.parametrize(("host", "text", "told"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused_to_touch(host: Host, text: str, told: str) -> None:
    mistake = added(text, host, "subagents", NEWER)
    assert isinstance(mistake, Mistake)
    assert mistake.told_of("f").startswith(told)
    assert not isinstance(removed(text, host, "subagents", None), Change)


def test_an_entry_that_is_scattered_over_a_text_is_not_renewed_but_taken_out() -> None:
    text = '[mcp_servers.subagents]\ncommand = "mcp-subagents"\n[x]\n[mcp_servers.subagents.env]\nA = "b"\n# end'
    assert isinstance(added(text, CODEX, "subagents", NEWER), Mistake)
    out = removed(text, CODEX, "subagents", None)
    assert isinstance(out, Change)
    assert out.text == "[x]\n# end"


@pytest.mark.parametrize(
    ("host", "text"),
    [
        (CURSOR, '{"mcpServers": {"subagents": {"url": "http://127.0.0.1"}, "a": {}}} // x'),
        (CODEX, '[mcp_servers.subagents] # theirs\ncommand = "npx"\n\n[mcp_servers.a]\n'),
    ],
    ids=["json", "toml"],
)
def test_another_server_that_was_replaced_by_force_comes_back(host: Host, text: str) -> None:
    once = put_in(text, host, NEWER, force=True)
    assert said(once.text, host)[host.key]["subagents"] == NEWER
    out = removed(once.text, host, "subagents", once.trace)
    assert isinstance(out, Change)
    assert out.text == text


@pytest.mark.parametrize(("host", "text"), [(CURSOR, "{}"), (CODEX, "")], ids=["json", "toml"])
def test_what_is_not_ours_or_not_there_is_not_taken_out(host: Host, text: str) -> None:
    assert removed(text, host, "subagents", None) is None
    theirs = put_in(text, host, {"command": "npx"})
    mistake = removed(theirs.text, host, "subagents", theirs.trace)
    assert isinstance(mistake, Mistake)
    assert mistake.what == "is not ours, and stays. If it is to go, remove it by hand"


def test_an_entry_that_is_renewed_keeps_what_somebody_has_added() -> None:
    text = put_in("{}", CURSOR, {**ENTRY, "disabled": True, "env": {"KEY": "typed in", "MINE": "1"}}).text
    after = put_in(text, CURSOR, {**NEWER, "env": {"KEY": "${env:KEY}", "LITERAL": "x", "MINE": "2"}}).text
    assert said(after, CURSOR)["mcpServers"]["subagents"] == {
        "command": "/opt/new/mcp-subagents",
        "args": [],
        "env": {"KEY": "typed in", "MINE": "2", "LITERAL": "x"},
        "disabled": True,
    }
