"""Everything that can be wrong with a configuration file: where it is, and what would be right, in one line."""

import re
from pathlib import Path

import pytest

from mcp_subagents.config.files import FileConfig, read_file

FILE_KEYS = (
    "agents, allow_python_tools, daily_cost_usd, host, limits, max_concurrency, mcp_servers, model, port, "
    "retention_days, store, subagents, transport"
)
IN_ORDER = (
    "subagents, model, store, max_concurrency, limits, retention_days, agents, daily_cost_usd, mcp_servers, "
    "allow_python_tools, transport, host, port"
)

# `@` stands for a subagent with a name, whose next key is in line 3.
MISTAKES: list[tuple[str, str]] = [
    # The whole file
    ("hello", f"a list of subagents, or a mapping with some of the keys {IN_ORDER}, is wanted"),
    ("3", f"a list of subagents, or a mapping with some of the keys {IN_ORDER}, is wanted"),
    ("a: [b\n", ":2: not valid YAML: expected ',' or ']', but got '<stream end>'"),
    ("a: b: c", ":1: not valid YAML: mapping values are not allowed here"),
    ("model: x\n\tstore: y", ":2: not valid YAML: found character '\\t' that cannot start any token"),
    ("a: *b", ":1: not valid YAML: found undefined alias 'b'"),
    ("a: !!python/name:os.system", ":1: not valid YAML: could not determine a constructor for the tag"),
    ("model: a\n---\nmodel: b", ":2: not valid YAML: but found another document"),
    ("? [a, b]\n: c", ":1: not valid YAML: found unhashable key"),
    ("a: \x07", ": not valid YAML: unacceptable character #x0007: special characters are not allowed"),
    ("a: &x [*x]", ": not valid YAML: an anchor contains itself"),
    (
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"{two}: &{two} [{','.join([f'*{one}'] * 10)}]\n" for one, two in zip("abcde", "bcdef", strict=True)),
        ": its anchors repeat so much that it has more than 100,000 values",
    ),
    # Keys of the file
    ("modle: x", ":1: modle: unknown key, did you mean 'model'?"),
    ("store: a.db\nMODEL: x", ":2: MODEL: unknown key, did you mean 'model'?"),
    ("max-concurrency: 3", ":1: max-concurrency: unknown key, did you mean 'max_concurrency'?"),
    ("zzz: 1", f":1: zzz: unknown key, known: {FILE_KEYS}"),
    ("1: 2", f":1: 1: unknown key, known: {FILE_KEYS}"),
    ("model: a\nstore: b.db\nmodel: c", ":3: model: is there twice, first in line 1"),
    ("model: ''", ":1: model: a model has a name, such as openai:gpt-5; leave the key out for the default model"),
    ("model: 5", ":1: model: must be text, not 5"),
    ("model: [a, b]", ":1: model: must be text, not a list"),
    ("store: 1", ":1: store: must be text, not 1"),
    ("store: ''", ":1: store: must be sqlite:///FILE"),
    ("store: sqlite:tasks.db", ":1: store: has three slashes: sqlite:///FILE, and four for an absolute path"),
    ("store: sqlite://tasks.db", ":1: store: has three slashes: sqlite:///FILE, and four for an absolute path"),
    ("store: sqlite:///", ":1: store: must be sqlite:///FILE, with the name of a file"),
    ("store: mysql://me:secret@host/db", ":1: store: there is no store of the kind 'mysql'; use sqlite:///FILE"),
    ("store: ~nobody-here/x.db", ":1: store: the home directory it names is not known"),
    ("max_concurrency: 0", ":1: max_concurrency: must be 1 or more, not 0"),
    ("max_concurrency: 1.5", ":1: max_concurrency: must be a whole number, not 1.5"),
    ("max_concurrency: yes", ":1: max_concurrency: must be a whole number, not true"),
    ("max_concurrency: '3'", ":1: max_concurrency: must be a whole number, not '3'"),
    ("retention_days: long", ":1: retention_days: must be a number, not 'long'"),
    ("retention_days: -1", ":1: retention_days: must be 0 or more, not -1"),
    ("retention_days: .inf", ":1: retention_days: must be a finite number, not inf"),
    ("limits: [1]", ":1: limits: must be a mapping, not a list"),
    ("limits:\n  tool_cals: 3", ":2: limits.tool_cals: unknown limit 'tool_cals', did you mean 'tool_calls'?"),
    ("limits:\n  requests: -1", ":2: limits.requests: must be a whole number, 0 or more, not -1"),
    ("limits:\n  requests: many", ":2: limits.requests: must be a whole number, 0 or more, not 'many'"),
    ("limits:\n  requests: 1e400", ":2: limits.requests: must be a whole number, 0 or more, not '1e400'"),
    ("limits:\n  requests: 2.5", ":2: limits.requests: must be a whole number, 0 or more, not 2.5"),
    ("limits:\n  requests: .inf", ":2: limits.requests: must be a whole number, 0 or more, not inf"),
    ("limits:\n  requests: true", ":2: limits.requests: must be a whole number, 0 or more, not true"),
    ("limits:\n  cost_usd: .nan", ":2: limits.cost_usd: must be a number, 0 or more, not nan"),
    ("limits:\n  depth:", ":2: limits.depth: must be a whole number, 0 or more; it cannot be lifted"),
    ("limits:\n  seconds: 1\n  seconds: 2", ":3: limits.seconds: is there twice, first in line 2"),
    ("agents: Auto", ":1: agents: must be auto, or a list of folders, not 'Auto'"),
    ("agents: 3", ":1: agents: must be auto, or a list of folders, not 3"),
    ("agents:\n  - 3", ":2: agents[0]: must be text, not 3"),
    ("agents:\n  - .\n  - nowhere", ":3: agents[1]: there is no folder 'nowhere'"),
    ("daily_cost_usd: -2", ":1: daily_cost_usd: must be 0 or more, not -2"),
    ("daily_cost_usd: five", ":1: daily_cost_usd: must be a number, not 'five'"),
    ("mcp_servers: [github]", ":1: mcp_servers: must be a mapping, not a list"),
    ("mcp_servers:\n  github: npx", ":2: mcp_servers.github: must be a mapping, not 'npx'"),
    ("allow_python_tools: 1", ":1: allow_python_tools: must be true or false, not 1"),
    ("transport: pigeon", ":1: transport: must be 'stdio', 'http', 'streamable-http' or 'sse', not 'pigeon'"),
    ("host: 1", ":1: host: must be text, not 1"),
    ("port: 70000", ":1: port: must be 65535 or less, not 70000"),
    ("port: '80'", ":1: port: must be a whole number, not '80'"),
    # The list of subagents
    ("subagents: reviewer", ":1: subagents: must be a list of subagents, not 'reviewer'"),
    ("subagents: {name: a}", ":1: subagents: must be a list of subagents, not a mapping"),
    (
        "subagents:\n  - reviewer",
        ":2: subagents[0]: must be a mapping with a name, a description and instructions, not 'reviewer'",
    ),
    ("subagents:\n  - description: x", ":2: subagents[0].name: is missing"),
    ("subagents:\n  - name:", ":2: subagents[0].name: must be text, not nothing"),
    (
        "subagents:\n  - name: ' a'",
        ":2: subagents[0].name: a name is one line of printable text, without spaces around it",
    ),
    (
        f"subagents:\n  - name: {'a' * 101}",
        f":2: subagents[0].name: must be 100 characters at the most, not '{'a' * 58}…",
    ),
    (
        "subagents:\n  - name: a\n  - name: b\n  - name: a",
        ":4: subagents[2].name: another subagent is named 'a'; each needs a name of its own",
    ),
    (
        "subagents:\n  - name: Code Reviewer\n  - name: code_reviewer",
        ":3: subagents[1].name: another subagent is named 'Code Reviewer'; each needs a name of its own",
    ),
    ("- name: a\n- name: b\n  modle: x", ":3: [1].modle: unknown key, did you mean 'model'?"),
    # Keys of a subagent
    ("@modle: x", ":3: subagents[0].modle: unknown key, did you mean 'model'?"),
    ("@agent: x", ":3: subagents[0].agent: unknown key, which only Python code can set (SubAgentConfig)"),
    ("@name: b", ":3: subagents[0].name: is there twice, first in line 2"),
    ("@description: yes", ":3: subagents[0].description: must be text, not true; put it in quotes"),
    (
        "@description: 2030-01-01",
        ":3: subagents[0].description: must be text, not the date 2030-01-01; put it in quotes",
    ),
    ("@description: 3", ":3: subagents[0].description: must be text, not 3"),
    ("@instructions: [a]", ":3: subagents[0].instructions: must be text, not a list"),
    ("@model: 5", ":3: subagents[0].model: must be text, not 5"),
    ("@fallback_models: x", ":3: subagents[0].fallback_models: must be a list, not 'x'"),
    ("@fallback_models:\n      - a\n      - 3", ":5: subagents[0].fallback_models[1]: must be text, not 3"),
    ("@max_retries: -1", ":3: subagents[0].max_retries: must be 0 or more, not -1"),
    ("@max_retries: yes", ":3: subagents[0].max_retries: must be a whole number, not true"),
    ("@retry_backoff_multiplier: 0.5", ":3: subagents[0].retry_backoff_multiplier: must be 1 or more, not 0.5"),
    ("@retry_jitter: maybe", ":3: subagents[0].retry_jitter: must be true or false, not 'maybe'"),
    ("@question_timeout: 0", ":3: subagents[0].question_timeout: must be above 0, not 0"),
    ("@max_concurrency: 0", ":3: subagents[0].max_concurrency: must be 1 or more, not 0"),
    ("@can_ask_questions: 'no'", ":3: subagents[0].can_ask_questions: must be true or false, not 'no'"),
    ("@preferred_mode: fast", ":3: subagents[0].preferred_mode: must be 'sync', 'async' or 'auto', not 'fast'"),
    ("@effort: max", ":3: subagents[0].effort: must be 'low', 'medium' or 'high', not 'max'"),
    ("@limits: 5", ":3: subagents[0].limits: must be a mapping, not 5"),
    (
        "@limits:\n      requsts: 5",
        ":4: subagents[0].limits.requsts: unknown limit 'requsts', did you mean 'requests'?",
    ),
    ("@limits: {seconds: -1}", ":3: subagents[0].limits.seconds: must be a number, 0 or more, not -1"),
    (
        "@mcp_servers: 3",
        ":3: subagents[0].mcp_servers: must be a mapping of names to servers, or a list of names, not 3",
    ),
    ("@mcp_servers:\n      github: npx", ":4: subagents[0].mcp_servers.github: must be a mapping, not 'npx'"),
    (
        "@mcp_servers:\n      - github\n      - 3",
        ":5: subagents[0].mcp_servers[1]: must be a mapping of names to servers, or a list of names, not 3",
    ),
    ("@capabilities: WebFetch", ":3: subagents[0].capabilities: must be a list, not 'WebFetch'"),
    ("@capabilities: [3]", ":3: subagents[0].capabilities[0]: must be a name, or a name with its settings, not 3"),
    (
        "@workspace: 3",
        ":3: subagents[0].workspace: must be the path of a directory, or a mapping with path and read_only, not 3",
    ),
    (
        "@workspace: {path: .., readonly: no}",
        ":3: subagents[0].workspace.readonly: unknown key, did you mean 'read_only'?",
    ),
    ("@workspace:\n      read_only: true", ":3: subagents[0].workspace.path: is missing"),
    ("@context_files: [1]", ":3: subagents[0].context_files[0]: must be text, not 1"),
    ("@tools: Read", ":3: subagents[0].tools: must be a list, not 'Read'"),
    ("@output_schema: []", ":3: subagents[0].output_schema: must be a mapping, not a list"),
    ("@extra: 1", ":3: subagents[0].extra: must be a mapping, not 1"),
]


@pytest.mark.parametrize(
    ("text", "told"), MISTAKES, ids=[f"{n}: {text[:40]!r}" for n, (text, _) in enumerate(MISTAKES)]
)
def test_a_mistake_is_told_in_one_line(tmp_path: Path, text: str, told: str):
    path = tmp_path / "subagents.yaml"
    path.write_text(re.sub("^@", "subagents:\n  - name: a\n    ", text), encoding="utf-8")
    said, [line] = read_file(path)
    told = told if told.startswith(":") else f": {told}"
    assert line.startswith(f"{path}{told}")
    assert line == f"{path}{told}" or "not valid YAML" in told  # where PyYAML's own words go on
    assert said == FileConfig()


def test_there_are_enough_of_them():
    assert len(MISTAKES) > 80


AS_JSON: list[tuple[str, str]] = [
    ('{\n"modle": 1}', ":2: modle: unknown key, did you mean 'model'?"),
    ('{"model": "a",\n"model": "b"}', ":2: model: is there twice, first in line 1"),
    (
        '{"subagents": [\n\t{"name": "a"},\n\t{"name": "b",\n\t"limits": {"a b": 1}}]}',
        ":4: subagents[1].limits.a b: unknown limit 'a b', known: ",
    ),
    (
        '[\n{"name": "\\u00e9 \\" {[,"},\n{"name": "b", "x": [1, -2.5e3, true, {}, []], "model": 5}]',
        ":3: [1].model: must",
    ),
    ('{"subagents": [}', ":1: not valid JSON: Expecting value"),
    ('{"a": 1,\n}', ":2: not valid JSON: Expecting property name enclosed in double quotes"),
    ("[" * 100_000, ": not valid JSON: maximum recursion depth exceeded"),
    ("", ":1: not valid JSON: Expecting value"),
]


@pytest.mark.parametrize(("text", "told"), AS_JSON, ids=[text[:30] for text, _ in AS_JSON])
def test_json_has_lines_too(tmp_path: Path, text: str, told: str):
    path = tmp_path / "subagents.json"
    path.write_text(text, encoding="utf-8")
    lines = read_file(path)[1]
    assert any(line.startswith(f"{path}{told}") for line in lines), lines


def test_mistakes_come_in_the_order_of_the_file(tmp_path: Path):
    path = tmp_path / "subagents.yaml"
    path.write_text("host: 1\nsubagents:\n  - nam: a\n  - name: b\n    modle: c\nmodel: 3\nport: x\n")
    assert [line.removeprefix(f"{path}:")[0] for line in read_file(path)[1]] == ["1", "3", "3", "5", "6", "7"]


def test_a_secret_in_the_wrong_place_is_not_repeated(tmp_path: Path):
    path = tmp_path / "subagents.yaml"
    path.write_text("port: sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789\nmcp_servers: [{env: {KEY: s3cr3t}}]")
    told = "\n".join(read_file(path)[1])
    assert "abcdefghijkl" not in told
    assert "s3cr3t" not in told


def test_a_key_cannot_write_to_the_terminal(tmp_path: Path):
    path = tmp_path / "subagents.yaml"
    path.write_text('"\\e[31mred\\nline": 1')
    [line] = read_file(path)[1]
    assert "\x1b" not in line
    assert "red line: unknown key" in line


def test_an_endless_file_is_not_read(tmp_path: Path):
    path = tmp_path / "subagents.yaml"
    path.write_text("# " + "x" * 1024 * 1024)
    assert read_file(path)[1] == [f"{path}: it is larger than 1 MiB, which no such file should be"]


def test_a_merge_key_is_no_mistake(tmp_path: Path):
    path = tmp_path / "subagents.yaml"
    path.write_text("subagents:\n- &a {name: a, model: m}\n- {<<: *a, name: b}\n- <<: *a\n  name: c\n  model: n\n")
    said, wrong = read_file(path)
    assert wrong == []
    assert [(each.name, each.model) for each in said.subagents] == [("a", "m"), ("b", "m"), ("c", "n")]


def test_paths_are_relative_to_their_file(tmp_path: Path):
    path = tmp_path / "subagents.yaml"
    path.write_text(
        "subagents:\n- {name: a, workspace: src, context_files: [x.md, /y.md]}\n- {name: b, workspace: {path: /src}}\n"
    )
    a, b = read_file(path)[0].subagents
    assert a.workspace == str(tmp_path / "src")
    assert a.context_files == [f"{tmp_path}/./x.md", "/y.md"]
    assert b.to_config().get("workspace") == {"path": "/src", "read_only": True}


def test_an_editor_may_name_its_schema_in_json(tmp_path: Path):
    path = tmp_path / "subagents.json"
    path.write_text('{"$schema": "subagents.schema.json", "model": "test"}')
    assert read_file(path) == (FileConfig(model="test"), [])
