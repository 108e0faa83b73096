"""Whether the tool servers of the subagents start, and have the tools that are named."""

import os
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import anyio

from mcp_subagents.agents import Roster
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.doctor.circumstances import Circumstances
from mcp_subagents.doctor.findings import Finding, Level, fine, problem
from mcp_subagents.equipment.definitions import ToolServerDefinition, definitions_of, expand
from mcp_subagents.equipment.kits import Equipment
from mcp_subagents.equipment.tool_lists import names_tools
from mcp_subagents.equipment.tool_servers import ToolServers
from mcp_subagents.errors import ConfigError, SubagentsError, ToolServerDown


@dataclass(frozen=True, slots=True)
class Named:
    """A tool server, and the subagents that name it."""

    definition: ToolServerDefinition
    users: tuple[str, ...]

    @property
    def told(self) -> str:
        return f"{self.definition.name} ({', '.join(self.users)})"


async def tools(there: Circumstances) -> Iterable[Finding]:
    """Every tool server that a subagent names is started, asked for its tools, and stopped; then tools are looked for.

    What is wrong with definitions that cannot even be tried is told by the check of the configuration.
    """
    servers = _named(there)
    found: dict[str, Finding] = {}
    running = ToolServers(there.env)
    async with running.open(anyio.sleep_forever), anyio.create_task_group() as group:

        async def look(server: Named) -> None:
            found[server.definition.key] = await _looked(server, running, there)

        for server in servers:
            group.start_soon(look, server)
    down = {user for server in servers if found[server.definition.key].level is not Level.OK for user in server.users}
    missing = await missing_tools([each for each in there.subagents if each.get("name") not in down], there)
    return [*(found[server.definition.key] for server in servers), *missing]


def _named(there: Circumstances) -> Sequence[Named]:
    found: dict[str, Named] = {}
    for config in there.subagents:
        for each in _definitions(config, there):
            users = found[each.key].users if each.key in found else ()
            found[each.key] = Named(each, (*users, config.get("name", "")))
    return list(found.values())


def _definitions(config: SubAgentConfig, there: Circumstances) -> Sequence[ToolServerDefinition]:
    assert there.config is not None, "subagents come from a configuration"
    try:
        found = definitions_of(config, there.config.mcp_servers, there.config.folder)
        for each in found:
            expand(each, there.env)
    except ConfigError:
        return ()
    return found


async def _looked(server: Named, running: ToolServers, there: Circumstances) -> Finding:
    if lacking := _lacking_command(server.definition, there.env):
        return problem(
            "tools",
            f"{server.told}: there is no command {lacking!r}.",
            f"Install what has {lacking!r}, or write its full path as `command` of {server.definition.name!r}.",
        )
    patience = there.options.patience
    with anyio.move_on_after(patience):
        try:
            session = await running.server(server.definition).session()
            offered = await session.toolset.client.list_tools()
        except ToolServerDown as why:
            return problem("tools", f"{server.told}: {why.trouble}.", _by_hand(server.definition))
        except Exception as why:
            told = f"{server.told}: it does not say what tools it has: {why}"
            return problem("tools", told, _by_hand(server.definition))
        return fine("tools", f"{server.told}: started, {len(offered)} tool{'' if len(offered) == 1 else 's'}.")
    return problem("tools", f"{server.told}: no answer within {patience:g} seconds.", _by_hand(server.definition))


def _lacking_command(definition: ToolServerDefinition, env: Mapping[str, str]) -> str | None:
    """The command of a tool server, if there is no such program."""
    if definition.kind != "stdio":
        return None
    whole = expand(definition, env).definition
    command = whole.command
    if os.sep in command and whole.cwd is not None:  # it is started there
        command = str(Path(whole.cwd) / command)
    there = shutil.which(command, path=whole.env.get("PATH") or env.get("PATH"))
    return None if there else definition.command


def _by_hand(definition: ToolServerDefinition) -> str:
    """How to see what is wrong; variables stay variables, so that nothing secret is shown."""
    if definition.kind != "stdio":
        return f"Look whether it runs and is reached from here: curl -i '{definition.url}'"
    command = " ".join([shlex.quote(definition.command), *(_quoted(each) for each in definition.args)])
    place = f"cd {shlex.quote(definition.cwd)} && " if definition.cwd else ""
    return f"Run it by hand and see what it says: {place}{command}"


def _quoted(argument: str) -> str:
    return argument if "${" in argument else shlex.quote(argument)


_OF_MODELS = ("fallback_models", "base_url", "api_key_env", "effort", "output_schema", "subagents")


async def missing_tools(subagents: Sequence[SubAgentConfig], there: Circumstances) -> Sequence[Finding]:
    """The tools that subagents name and do not get, found by a rehearsal in which no model is asked."""
    config = there.config
    naming = [each for each in subagents if names_tools(each.get("tools"), each.get("disallowed_tools") or ())]
    if config is None or not naming:
        return ()
    equipment = Equipment(
        mcp_servers=config.mcp_servers,
        allow_python_tools=config.allow_python_tools,
        base=config.folder,
        env=there.env,
    )
    roster = Roster([_without_model(each) for each in naming], equipment=equipment)
    found: list[Finding] = []
    async with roster.open(looking=False):
        for name in roster.configs:
            with anyio.move_on_after(there.options.patience) as waiting:
                try:
                    await roster.check(name)
                except SubagentsError as why:
                    found.append(problem("tools", str(why), f"Mend `tools` or `disallowed_tools` of {name!r}."))
            if waiting.cancelled_caught:
                found.append(_unknown(name, there.options.patience))
    return found


def _unknown(name: str, patience: float) -> Finding:
    told = f"{name}: whether the tools that it names are there is not known: no answer within {patience:g} seconds."
    return problem(
        "tools", told, f"Give it more time: mcp-subagents doctor tools --patience {min(3 * patience, 3000):g}"
    )


def _without_model(config: SubAgentConfig) -> SubAgentConfig:
    """The same on a model that needs no key: models are looked at elsewhere."""
    kept: dict[str, object] = {key: value for key, value in config.items() if key not in _OF_MODELS}
    return cast("SubAgentConfig", {**kept, "model": "test"})
