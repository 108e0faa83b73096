"""What a file refers to: every mistake has its line, its key and what would be right, and all are told at once."""

import inspect
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.capabilities import CAPABILITY_TYPES
from pydantic_ai.providers import infer_provider_class

from mcp_subagents.config.environment import examine
from mcp_subagents.config.model_names import known_providers, why_no_such_model
from mcp_subagents.equipment import capability_names
from mcp_subagents.equipment.sound_files import judge
from mcp_subagents.equipment.soundness import why_no_module

ONE = "subagents:\n  - name: a\n    "
"""A file with one subagent, up to its next key."""


def judged(folder: Path, text: str, **env: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is wrong with a file, and what is doubtful."""
    (folder / "subagents.yaml").write_text(text, encoding="utf-8")
    config = judge(examine(folder / "subagents.yaml", env), env)
    return tuple(
        tuple(line.removeprefix(f"{folder}/subagents.yaml") for line in lines)
        for lines in (config.mistakes, config.remarks)
    )  # pyright: ignore[reportReturnType]  # there are two of them


WRONG: dict[str, tuple[str, str]] = {
    "a tool server that is not defined": (
        "mcp_servers: {github: {command: sh}}\n" + ONE + "mcp_servers:\n      - githb",
        ":5: subagents[0].mcp_servers[0]: there is no tool server 'githb'; did you mean 'github'?",
    ),
    "no tool servers at all": (
        ONE + "mcp_servers: [github]",
        ":3: subagents[0].mcp_servers[0]: there is no tool server 'github': none is defined under the top-level "
        "mcp_servers",
    ),
    "a shared tool server that nobody uses": (
        "mcp_servers:\n  far:\n    url: ftp://example.org",
        ":3: mcp_servers.far.url: must begin with http:// or https:// and name a host, not 'ftp://example.org'",
    ),
    "a tool server of its own": (
        ONE + "mcp_servers:\n      own:\n        command: sh\n        arg: [x]",
        ":6: subagents[0].mcp_servers.own.arg: unknown key, did you mean 'args'?",
    ),
    "a tool server in a list": (
        ONE + "mcp_servers:\n      - own: {command: sh, timeout: '3'}",
        ":4: subagents[0].mcp_servers[0].own.timeout: must be a number of seconds above 0, not '3'",
    ),
    "two tool servers with one name": (
        ONE + "mcp_servers:\n      - own: {command: sh}\n      - own: {command: sh}",
        ":5: subagents[0].mcp_servers[1]: there is another tool server 'own'; each needs a name of its own",
    ),
    "a variable": (
        ONE + "mcp_servers:\n      own:\n        command: sh\n        env: {KEY: '${NOT_THERE}'}",
        ":6: subagents[0].mcp_servers.own.env.KEY: needs the environment variable NOT_THERE, which is not set. Set it "
        "where mcp-subagents is started, or give a default: ${NOT_THERE:-...}",
    ),
    "the file of a host": (
        ONE + "mcp_servers:\n      - from: nowhere.json",
        ":4: subagents[0].mcp_servers[0]: The tool servers of {folder}/nowhere.json cannot be read: No such file or "
        "directory.",
    ),
    "a workspace": (
        ONE + "workspace:\n      path: nowhere",
        ":4: subagents[0].workspace.path: The workspace of the subagent 'a' is not a directory: {folder}/nowhere.",
    ),
    "a context file": (
        ONE + "context_files:\n      - subagents.yaml\n      - nowhere.md",
        ":5: subagents[0].context_files[1]: A context file of the subagent 'a', in {folder}: There is no 'nowhere.md'.",
    ),
    "a folder as a context file": (
        ONE + "context_files: [.]",
        ":3: subagents[0].context_files[0]: '{folder}' is a folder; name the files in it",
    ),
    "a capability": (
        ONE + "capabilities:\n      - Thinking\n      - WebFetsh",
        ":5: subagents[0].capabilities[1]: The subagent 'a' names an unknown capability 'WebFetsh'; did you mean "
        "'WebFetch'?",
    ),
    "a setting of a capability": (
        ONE + "capabilities:\n      - Thinking:\n          effrt: high",
        ":5: subagents[0].capabilities[0].Thinking.effrt: unknown setting, did you mean 'effort'?",
    ),
    "a Python tool that nobody has allowed": (
        ONE + "python_tools: ['os:getcwd']",
        ":3: subagents[0].python_tools: The subagent 'a' names `python_tools`, which run code of this machine in the "
        "server; the operator has to allow that (`allow_python_tools: true`, or "
        "create_server(..., allow_python_tools=True)).",
    ),
    "a Python tool of a module that is not there": (
        "allow_python_tools: true\n" + ONE + "python_tools: ['os:getcwd', 'nowhere.at.all:tool']",
        ":4: subagents[0].python_tools[1]: there is no module 'nowhere.at.all'",
    ),
    "somebody to delegate to": (
        ONE + "subagents: [reseacher]\n  - name: researcher",
        ":3: subagents[0].subagents[0]: there is no subagent 'reseacher' to delegate to; did you mean 'researcher'?",
    ),
    "somebody to delegate to who is spelt otherwise": (
        ONE + "subagents: [Code_Reviewer]\n  - name: code reviewer",
        ":3: subagents[0].subagents[0]: there is no subagent 'Code_Reviewer' to delegate to; it is written "
        "'code reviewer'",
    ),
    "a provider": (
        ONE + "model: opnai:x",
        ":3: subagents[0].model: there is no provider 'opnai'; did you mean 'openai'?",
    ),
    "a provider to fall back on": (
        ONE + "fallback_models: [test, gpt-5]",
        ":3: subagents[0].fallback_models[1]: must be written provider:model, such as openai:gpt-5, not 'gpt-5'",
    ),
    "the default model": (
        "model: 'openai:'",
        ":1: model: names a provider and no model: write provider:model, such as ",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_reference_that_leads_nowhere_is_told_with_its_line_and_key(case: str, tmp_path: Path):
    text, told = WRONG[case]
    [line] = judged(tmp_path, text)[0]
    assert line.startswith(told.format(folder=tmp_path) if "{folder}" in told else told)


def test_all_mistakes_of_a_file_are_told_at_once_whatever_their_kind(tmp_path: Path):
    text = """mcp_servers:
  one: {command: sh, arg: [x], timeout: "3"}
  three: {command: sh, env: {X: "${NOPE1}", Y: "${NOPE2}"}}
subagents:
  - name: a
    modle: x
    limits: {requsts: 1}
    workspace: nowhere
    context_files: [nope.md]
    mcp_servers: [fuor, three, one]
    subagents: [bb]
  - name: b
    effort: 3
    workspace: nowhere2
"""
    assert [line.split(": ")[:2] for line in judged(tmp_path, text)[0]] == [
        [":2", "mcp_servers.one.arg"],
        [":2", "mcp_servers.one.timeout"],
        [":3", "mcp_servers.three.env.X"],
        [":3", "mcp_servers.three.env.Y"],
        [":6", "subagents[0].modle"],
        [":7", "subagents[0].limits.requsts"],
        [":8", "subagents[0].workspace"],
        [":9", "subagents[0].context_files[0]"],
        [":10", "subagents[0].mcp_servers[0]"],
        [":11", "subagents[0].subagents[0]"],
        [":13", "subagents[1].effort"],
        [":14", "subagents[1].workspace"],
    ]


def test_a_mistake_that_hides_a_name_is_told_without_its_consequences(tmp_path: Path):
    servers = "mcp_servers: [github]\n" + ONE + "mcp_servers: [github]"
    assert [line.split(": ")[1] for line in judged(tmp_path, servers)[0]] == ["mcp_servers"]
    named = ONE + "subagents: [b]\n  - name: b\n    effort: 3"
    assert [line.split(": ")[1] for line in judged(tmp_path, named)[0]] == ["subagents[1].effort"]
    python = "allow_python_tools: 1\n" + ONE + "python_tools: ['os:getcwd']"
    assert [line.split(": ")[1] for line in judged(tmp_path, python)[0]] == ["allow_python_tools"]


def test_the_model_of_the_environment_is_judged_too(tmp_path: Path):
    assert judged(tmp_path, "{}", MCP_SUBAGENTS_MODEL="opnai:x")[0] == (
        "MCP_SUBAGENTS_MODEL: there is no provider 'opnai'; did you mean 'openai'?",
    )


def absent(_: str) -> None:
    """Stands for what looks for packages, where none is installed."""


def test_what_may_be_deliberate_is_a_remark_and_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(capability_names, "find_spec", absent)
    monkeypatch.setattr("mcp_subagents.config.model_names.is_installed", absent)
    servers = "mcp_servers: {own: {command: no-such-program}, near: {command: ./run}}"
    text = f"{servers}\n{ONE}model: groq:x\n    mcp_servers: [own, near]\n    capabilities: [WebFetch]"
    assert judged(tmp_path, text) == (
        (),
        (
            ":1: mcp_servers.own.command: there is no command 'no-such-program' here; until there is one, tasks that "
            "need it fail",
            ":1: mcp_servers.near.command: there is no command './run' here; until there is one, tasks that need it "
            "fail",
            ":6: subagents[0].capabilities[0]: the packages for WebFetch are not installed, so it works only with "
            "models that can do it themselves: install mcp-subagents[web]",
            ":4: subagents[0].model: the package for groq:x is missing: install mcp-subagents[groq].",
        ),
    )
    (tmp_path / "run").write_text("")
    (tmp_path / "run").chmod(stat.S_IRWXU)
    assert not any("./run" in line for line in judged(tmp_path, text)[1])


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("math:cos", ""),
        ("os.path:join", ""),
        ("importlib.util:find_spec", ""),
        ("importlib.nowhere:x", "there is no module 'importlib.nowhere'"),
        ("nowhere:x", "there is no module 'nowhere'"),
        ("math.cos", "must be given as `package.module:name`, not 'math.cos'"),
        ("../etc:x", "must be given as `package.module:name`, not '../etc:x'"),
    ],
)
def test_whether_a_module_is_there_is_known_without_importing_it(path: str, why: str):
    assert why_no_module(path) == why


MODELS: list[tuple[str, bool, str]] = [
    ("test", False, ""),
    ("demo", False, ""),
    ("openai:gpt-5", False, ""),
    ("openai-chat:gpt-5", False, ""),
    ("gateway/openai:gpt-5", False, ""),
    ("llama3", True, ""),
    ("openai:llama3:8b", True, ""),
    (
        "llama3:8b",
        True,
        "there is no provider 'llama3'; of a gateway that speaks OpenAI's language, name it openai:llama3:8b",
    ),
    ("zzz:x", False, "there is no provider 'zzz'; write provider:model"),
]


@pytest.mark.parametrize(("name", "at_gateway", "why"), MODELS)
def test_whether_a_model_can_be_one_is_known_by_its_provider(name: str, at_gateway: bool, why: str):
    assert why_no_such_model(name, at_gateway=at_gateway, providers=["openai", "anthropic"]) == why


def test_where_the_providers_cannot_be_told_every_model_can_be_one():
    assert why_no_such_model("opnai:x", providers=[]) == ""


def test_every_provider_that_is_known_to_us_is_known_to_pydantic_ai():
    assert len(known_providers()) > 30
    strange = list[str]()
    for name in known_providers():
        try:
            infer_provider_class(name)
        except ImportError:
            pass  # its package is not here
        except ValueError:
            strange.append(name)
    assert strange == []


def test_the_settings_of_capabilities_are_those_of_pydantic_ai():
    settings: Any = capability_names._SETTINGS  # pyright: ignore[reportPrivateUsage]
    for name, known in settings.items():
        takes = inspect.signature(CAPABILITY_TYPES[name].from_spec).parameters
        if "kwargs" in takes:
            takes = inspect.signature(CAPABILITY_TYPES[name]).parameters
        assert set(known) == set(takes), name


def test_a_setting_that_is_like_no_other_is_left_to_pydantic_ai():
    assert capability_names.misspelt("Thinking", ["effort", "colour"]) == []


def test_a_command_is_looked_for_where_the_server_would_look(tmp_path: Path):
    program = tmp_path / "bin/own-program"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(stat.S_IRWXU)
    text = ONE + "mcp_servers: {own: {command: own-program}}"
    assert len(judged(tmp_path, text)[1]) == 1
    assert judged(tmp_path, text, PATH=f"{program.parent}{os.pathsep}/bin")[1] == ()
