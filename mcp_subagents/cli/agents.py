"""`mcp-subagents agents`: the subagents that a server here would have, without starting one."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import yaml

from mcp_subagents.cli.arguments import add_json, add_sources, new_parser
from mcp_subagents.cli.printing import print_json
from mcp_subagents.cli.rehearsing import missing_tools
from mcp_subagents.config.agent_files import AgentFile, Ground, read_path
from mcp_subagents.config.agent_files.dialects import DIALECTS
from mcp_subagents.config.agent_files.folders import ground_of
from mcp_subagents.config.environment import ServerConfig, examine, project_of
from mcp_subagents.config.mistakes import Mistake
from mcp_subagents.config.roster import alike
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.equipment.sound_files import judge, sound
from mcp_subagents.errors import ConfigError, UnknownSubagent
from mcp_subagents.texts import counted, first_line, plain

FINE, MISTAKES = 0, 2
_LONGEST_PURPOSE = 72


DESCRIPTION = """\
The subagents that a server here would have, and what became of the agent files
of other apps."""

EPILOG = """\
exit codes:
  0  all is well; there may be notes
  2  something is wrong: a configuration or an agent file cannot be used
"""


def parser() -> argparse.ArgumentParser:
    """What `agents` understands."""
    command = new_parser("agents", DESCRIPTION, EPILOG)
    actions = command.add_subparsers(dest="action", required=True, metavar="list|check|show|import")
    told = {
        "list": "list the subagents, and the agent files that cannot be used",
        "check": "say what is wrong with agent files, and what in them is not honoured",
        "show": "show one subagent as YAML",
        "import": "print the YAML that does what an agent file does",
    }
    for name, help in told.items():
        action = actions.add_parser(name, help=help, description=help.capitalize() + ".", allow_abbrev=False)
        add_sources(action)
        add_json(action)
        if name == "check":
            action.add_argument(
                "--tools", action="store_true", help="start the tool servers, and look for all tools that are named"
            )
        if name == "show":
            action.add_argument("name", metavar="NAME", help="the subagent; its case does not matter")
        if name == "import":
            action.add_argument("path", metavar="PATH", help="the agent file")
            action.add_argument(
                "--dialect",
                choices=sorted(DIALECTS),
                help="whose way of writing it is; by default its folder and its name tell",
            )
    return command


def run(arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Do what was asked for, and return the exit code. Raises: `ConfigError`, `UnknownSubagent`."""
    if arguments.action == "check":
        return _check(arguments, env)
    config = sound(examine(arguments.config, env, agents=arguments.agents), env)
    match arguments.action:
        case "list":
            return _list(config, as_json=arguments.json)
        case "show":
            return _show(config, arguments.name, as_json=arguments.json)
        case _:
            return _import(config, env, arguments)


def _sources(config: ServerConfig) -> dict[str, str]:
    """Where each subagent comes from."""
    found = {file.spec.name: str(file.path) for file in config.agent_files if file.spec is not None}
    return {spec.name: found.get(spec.name, str(config.file)) for spec in config.subagents}


def _list(config: ServerConfig, *, as_json: bool) -> int:
    sources = _sources(config)
    broken = [file for file in config.agent_files if file.wrong]
    if as_json:
        found = [_summary(spec, config, sources[spec.name]) for spec in config.subagents]
        print_json([*found, *(_left_out(file) for file in broken)])
        return FINE
    for spec in config.subagents:
        model = spec.model or config.model or "no model yet"
        print(f"{plain(spec.name)}  ({plain(model)}, {plain(sources[spec.name])})")
        if purpose := first_line(spec.description):
            print(f"    {purpose if len(purpose) <= _LONGEST_PURPOSE else purpose[: _LONGEST_PURPOSE - 1] + '…'}")
    for file in broken:
        print(f"{plain(file.name)}  (cannot work, {plain(str(file.path))})")
        for each in file.wrong:
            print(f"    {each.told_of('').removeprefix(':').strip()}")
    if not config.subagents:
        print("There is only general-purpose: no file names a subagent. `mcp-subagents agents check` looks for some.")
    _print_remarks(config)
    return FINE


def _left_out(file: AgentFile) -> dict[str, Any]:
    wrong = [each.told_of(file.path) for each in file.wrong]
    return {"name": file.name, "description": "", "model": None, "source": str(file.path), "mistakes": wrong}


def _summary(spec: SubAgentSpec, config: ServerConfig, source: str) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "model": spec.model or config.model,
        "source": source,
    }


def _check(arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
    try:
        config, asked = _with_agents(arguments, env)
    except ConfigError as wrong:
        if not arguments.json:
            raise
        nothing: dict[str, list[str]] = {key: [] for key in ("notes", "warnings", "left_out", "subagents")}
        print_json({"mistakes": str(wrong).splitlines(), **nothing})
        return MISTAKES
    trouble: Mapping[str, Mistake] = missing_tools(config) if arguments.tools else {}
    code = MISTAKES if trouble or any(file.wrong for file in config.agent_files) else FINE
    if arguments.json:
        print_json(_findings(config, trouble))
        return code
    _print_findings(config, trouble)
    if not asked:
        print("No configuration asks for them yet: `agents: auto` in subagents.yaml does, or --agents auto.")
    if arguments.tools:
        print(f"{counted(len(config.subagents), 'subagent')}: {len(trouble)} cannot work.")
    return code


def _with_agents(arguments: argparse.Namespace, env: Mapping[str, str]) -> tuple[ServerConfig, bool]:
    """The configuration with agent files, also if nobody has asked for them, and whether somebody has.

    Raises:
        ConfigError: a server would refuse it.
    """
    config = sound(examine(arguments.config, env, agents=arguments.agents), env)
    if config.agent_folders:
        return config, True
    return sound(examine(arguments.config, env, agents=["auto"]), env), False


def _print_findings(config: ServerConfig, trouble: Mapping[str, Mistake]) -> None:
    sources, files = _sources(config), config.agent_files
    for name, what in trouble.items():
        print(what.told_of(f"{sources[name]}: {name}"))
    for file in files:
        for line in file.told():
            print(line)
    for line in config.remarks:
        print(f"warning: {line}")
    left_out = sum(bool(file.left_out) for file in files)
    counts = [
        f"{sum(file.spec is not None for file in files)} used",
        f"{sum(bool(file.wrong) for file in files)} with mistakes",
        *([f"{left_out} left out"] if left_out else []),
        counted(sum(len(file.notes) for file in files), "note"),
    ]
    print(f"{counted(len(files), 'agent file')}: {', '.join(counts)}.")


def _findings(config: ServerConfig, trouble: Mapping[str, Mistake]) -> dict[str, Any]:
    sources = _sources(config)
    files = config.agent_files
    return {
        "mistakes": [
            *(_finding(file.path, each) for file in files for each in file.wrong),
            *({**_finding(sources[name], what), "subagent": name} for name, what in trouble.items()),
        ],
        "notes": [_finding(file.path, each) for file in files for each in file.notes],
        "warnings": list(config.remarks),
        "left_out": [{"file": str(file.path), "what": file.left_out} for file in files if file.left_out],
        "subagents": [_summary(spec, config, sources[spec.name]) for spec in config.subagents],
    }


def _finding(file: object, found: Mistake) -> dict[str, Any]:
    return {"file": str(file), **asdict(found)}


def _show(config: ServerConfig, name: str, *, as_json: bool) -> int:
    spec = next((each for each in config.subagents if alike(each.name) == alike(name)), None)
    if spec is None:
        raise UnknownSubagent(name, [each.name for each in config.subagents])
    source = _sources(config)[spec.name]
    if as_json:
        print_json({"source": source, "subagent": spec.to_config()})
        return FINE
    print(f"# {plain(source)}")
    print(as_yaml([spec]), end="")
    for file in config.agent_files:
        if file.spec is spec:
            _print_notes(file)
    return FINE


def _import(config: ServerConfig, env: Mapping[str, str], arguments: argparse.Namespace) -> int:
    path = Path(arguments.path)
    allowed = Ground(
        project=project_of(config.file), servers=frozenset(config.mcp_servers), limits=config.settings.limits
    )
    dialect, ground = ground_of(path, allowed)
    file = read_path(path, DIALECTS[arguments.dialect] if arguments.dialect else dialect, ground)
    if file.spec is None:
        raise ConfigError("\n".join(file.told()))
    if arguments.json:
        print_json({"subagents": [file.spec.to_config()]})
    else:
        print(as_yaml([file.spec]), end="")
    _print_notes(file)
    judged = judge(replace(config, subagents=(file.spec,), agent_files=(file,), reading=None), env)
    for each in judged.agent_files[0].wrong:
        print(f"mcp-subagents: it cannot work yet: {each.told_of(path)}", file=sys.stderr)
    return FINE


def _print_remarks(config: ServerConfig) -> None:
    for line in config.remarks:
        print(f"mcp-subagents: warning: {line}", file=sys.stderr)


def _print_notes(file: AgentFile) -> None:
    """What is lost; not on standard output, which may become a file."""
    for line in file.told():
        print(f"mcp-subagents: {line}", file=sys.stderr)


def as_yaml(specs: Sequence[SubAgentSpec]) -> str:
    """A configuration file with these subagents, which is read again as the same."""
    return yaml.dump(
        {"subagents": [_tidy(spec) for spec in specs]},
        Dumper=_Readable,
        sort_keys=False,
        allow_unicode=True,
        width=100,
    )


def _tidy(spec: SubAgentSpec) -> dict[str, Any]:
    given: dict[str, Any] = dict(spec.to_config())
    for name, amount in given.get("limits", {}).items():
        if isinstance(amount, float) and amount.is_integer():
            given["limits"][name] = int(amount)
    return given


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as such."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = "|" if "\n" in data else None
        return yaml.ScalarNode("tag:yaml.org,2002:str", data, style=style)


_Readable.add_representer(str, _Readable.represent_str)
