"""Whether the subagents of a configuration can work: those of its file must, an agent file that cannot is left out."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_subagents.config.environment import ServerConfig, introduced, project_of
from mcp_subagents.config.files import FileConfig, Reading
from mcp_subagents.config.mistakes import Mistake, Place, by_line
from mcp_subagents.config.model_names import lacking_package, why_no_such_model
from mcp_subagents.config.roster import alike
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.equipment.places import anchored
from mcp_subagents.equipment.server_soundness import Fault, Supplies, shared_faults
from mcp_subagents.equipment.soundness import faults_of
from mcp_subagents.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from mcp_subagents.config.agent_files import AgentFile


def sound(
    config: ServerConfig, env: Mapping[str, str] = os.environ, *, had: Mapping[Path, SubAgentSpec] | None = None
) -> ServerConfig:
    """`config`, in which an agent file that names what is not there has become one with mistakes.

    An agent file that is broken now and `had` a subagent before keeps that, unless its name is taken. Those who remain
    know each other. What may keep them from working is in `remarks`.

    Raises:
        ConfigError: the configuration file itself is broken or names what is not there; all of it is told.
    """
    judged = judge(config, env, had=had)
    if judged.mistakes:
        raise ConfigError("\n".join(judged.mistakes))
    return judged


def judge(
    config: ServerConfig, env: Mapping[str, str] = os.environ, *, had: Mapping[Path, SubAgentSpec] | None = None
) -> ServerConfig:
    """The same, with all mistakes in it."""
    supplies = Supplies(
        mcp_servers=config.mcp_servers, allow_python_tools=config.allow_python_tools, base=config.folder, env=env
    )
    reading = config.reading or Reading(said=FileConfig.model_construct())
    files, doubts = list["AgentFile"](), list[str]()
    for file in config.agent_files:
        judged, doubted = _judged(file, config, supplies)
        files.append(judged)
        doubts += doubted
    config = config.with_files(kept(files, had or {}, [spec.name for spec in config.own]))
    config, dismissed = _with_delegates(config)
    found = [*_file_faults(config, reading, supplies), *dismissed]
    wrong = [reading.mistake(each.place, each.what) for each in found if not each.is_doubt]
    remarks = [reading.mistake(each.place, each.what).told_of(config.file) for each in found if each.is_doubt]
    return replace(
        introduced(config) if config.agent_files else config,
        reading=replace(reading, wrong=tuple(by_line([*reading.wrong, *wrong]))),
        wrong=(*config.wrong, *_wrong_model(env)),
        remarks=tuple(dict.fromkeys([*remarks, *doubts])),
    )


def kept(
    files: "Sequence[AgentFile]", had: Mapping[Path, SubAgentSpec], taken: Sequence[str]
) -> "tuple[AgentFile, ...]":
    """`files`, of which one that is broken and `had` a subagent keeps it, unless it is called like another."""
    names = {alike(name) for name in [*taken, *(file.spec.name for file in files if file.spec is not None)]}
    result = list["AgentFile"]()
    for file in files:
        before = had.get(file.path) if file.wrong and file.spec is None else None
        if before is not None and alike(before.name) not in names:
            names.add(alike(before.name))
            file = replace(file, spec=before)
        result.append(file)
    return tuple(result)


def _judged(file: "AgentFile", config: ServerConfig, supplies: Supplies) -> "tuple[AgentFile, list[str]]":
    """`file` as it can be used, and what is doubtful about it."""
    if file.spec is None:
        return file, []
    spec = _settled(file.spec, config)
    found = [*faults_of(spec.to_config(), supplies), *_model_faults(spec)]
    wrong = [_told_of(file, each) for each in found if not each.is_doubt]
    if wrong:
        return replace(file, spec=None, wrong=tuple(by_line(wrong))), []
    return replace(file, spec=spec), [_told_of(file, each).told_of(file.path) for each in found]


def _told_of(file: "AgentFile", fault: Fault) -> Mistake:
    if not fault.of_shared:
        return file.mistake(fault.place, fault.what)
    return file.mistake(("mcp_servers",), f"the tool server {fault.place[0]!r} {fault.what}")


def _settled(spec: SubAgentSpec, config: ServerConfig) -> SubAgentSpec:
    """`spec`, whose own tool servers start in the project, as in the app that it was written for."""
    if not spec.mcp_servers:
        return spec
    servers = anchored(spec.to_config(), project_of(config.file)).get("mcp_servers")
    return spec.model_copy(update={"mcp_servers": servers})


def _file_faults(config: ServerConfig, reading: Reading, supplies: Supplies) -> Iterator[Fault]:
    """What is wrong with what the file refers to, with places in the file."""
    for each in shared_faults(supplies):
        yield replace(each, place=("mcp_servers", *each.place))
    if reading.said.model is not None and (why := why_no_such_model(reading.said.model)):
        yield Fault(place=("model",), what=why)
    names = {alike(spec.name): spec.name for spec in config.subagents} | {alike(each): each for each in reading.names}
    for spec, at in zip(config.own, reading.places, strict=True):
        for each in [*faults_of(spec.to_config(), supplies), *_model_faults(spec), *_stranger_faults(spec, names)]:
            place = ("mcp_servers", *each.place) if each.of_shared else (*at, *each.place)
            if not _is_spoilt(each, reading):
                yield replace(each, place=place)


def _is_spoilt(fault: Fault, reading: Reading) -> bool:
    """Whether it may be there only because something else cannot be read."""
    if fault.place[:1] == ("mcp_servers",) and not fault.of_shared and len(fault.place) == 2:
        return ("mcp_servers",) in reading.spoilt
    if fault.place[:1] == ("python_tools",):
        return ("allow_python_tools",) in reading.spoilt
    return False


def _model_faults(spec: SubAgentSpec) -> Iterator[Fault]:
    places: list[tuple[Place, str]] = [(("model",), spec.model)] if spec.model is not None else []
    places += [(("fallback_models", number), each) for number, each in enumerate(spec.fallback_models or ())]
    for place, model in places:
        if why := why_no_such_model(model, at_gateway=spec.base_url is not None):
            yield Fault(place=place, what=why)
        elif lack := lacking_package(model):
            yield Fault(place=place, what=lack, is_doubt=True)


def _stranger_faults(spec: SubAgentSpec, names: Mapping[str, str]) -> Iterator[Fault]:
    for number, each in enumerate(spec.subagents or ()):
        if each not in names.values():
            right = names.get(alike(each))
            hint = f"it is written {right!r}" if right else did_you_mean(each, names.values())
            yield Fault(place=("subagents", number), what=f"there is no subagent {each!r} to delegate to; {hint}")


def _with_delegates(config: ServerConfig) -> tuple[ServerConfig, list[Fault]]:
    """`config`, whose own subagents do not delegate to agent files that are left out, and what is to be said of it."""
    gone = {alike(file.name): file.path for file in config.agent_files if file.spec is None and file.wrong}
    there = {alike(spec.name) for spec in config.subagents}
    specs, told = list[SubAgentSpec](), list[Fault]()
    places = config.reading.places if config.reading is not None else ()
    for spec, at in zip(config.own, places, strict=True):
        lost = [each for each in spec.subagents or () if alike(each) in gone and alike(each) not in there]
        for each in lost:
            place = (*at, "subagents", (spec.subagents or []).index(each))
            what = f"{each!r} cannot be delegated to, for its file is left out: {gone[alike(each)]}"
            told.append(Fault(place=place, what=what, is_doubt=True))
        rest = [each for each in spec.subagents or () if each not in lost]
        specs.append(spec.model_copy(update={"subagents": rest or None}) if lost else spec)
    return replace(config, subagents=(*specs, *config.subagents[len(specs) :])), told


def _wrong_model(env: Mapping[str, str]) -> Iterator[str]:
    model = env.get("MCP_SUBAGENTS_MODEL", "").strip()
    if model and (why := why_no_such_model(model)):
        yield f"MCP_SUBAGENTS_MODEL: {why}"
