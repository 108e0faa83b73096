"""server.json is what the MCP registry takes, and what it says is true."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from distributions import ROOT
from jsonschema import Draft202012Validator

import mcp_subagents
from mcp_subagents.config.providers import PROVIDERS

FACTS: Any = Draft202012Validator(
    json.loads(Path(__file__).with_name("registry.schema.json").read_text(encoding="utf-8"))
)
ENTRY: dict[str, Any] = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))


def mistakes(entry: Any) -> list[str]:
    return [".".join(map(str, error.absolute_path)) for error in FACTS.iter_errors(entry)]


def test_our_entry_is_one_the_registry_takes():
    assert mistakes(ENTRY) == []


def name_of(name: str) -> Callable[[Any], None]:
    return lambda entry: entry.update(name=name)


def version_of(version: str) -> Callable[[Any], None]:
    return lambda entry: entry["packages"][0].update(version=version)


WRONG: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "no name": ("", lambda entry: entry.pop("name")),
    "no description": ("", lambda entry: entry.pop("description")),
    "no version": ("", lambda entry: entry.pop("version")),
    "a name without an owner": ("name", name_of("mcp-subagents")),
    "a name with two slashes": ("name", name_of("io.github.us/mcp/subagents")),
    "a name with a space": ("name", name_of("io.github.us/mcp subagents")),
    "a description of 101 characters": ("description", lambda entry: entry.update(description="x" * 101)),
    "an empty description": ("description", lambda entry: entry.update(description="")),
    "another schema": ("$schema", lambda entry: entry.update({"$schema": "server.schema.json"})),
    "a key that nobody knows": ("", lambda entry: entry.update(licence="MIT")),
    "the version `latest`": ("packages.0.version", version_of("latest")),
    "a version range": ("packages.0.version", version_of(">=0.1.0")),
    "a caret range": ("packages.0.version", version_of("^0.1.0")),
    "a wildcard": ("packages.0.version", version_of("0.1.x")),
    "no package": ("packages", lambda entry: entry["packages"].clear()),
    "a package of no registry": ("packages.0", lambda entry: entry["packages"][0].pop("registryType")),
    "a package without a name": ("packages.0", lambda entry: entry["packages"][0].pop("identifier")),
    "no transport": ("packages.0", lambda entry: entry["packages"][0].pop("transport")),
    "a transport of no type": ("packages.0.transport", lambda entry: entry["packages"][0]["transport"].clear()),
    "an argument of no type": (
        "packages.0.runtimeArguments.0",
        lambda entry: entry["packages"][0]["runtimeArguments"][0].pop("type"),
    ),
    "a variable without a name": (
        "packages.0.environmentVariables.0",
        lambda entry: entry["packages"][0]["environmentVariables"][0].pop("name"),
    ),
    "a format that is none": (
        "packages.0.environmentVariables.0.format",
        lambda entry: entry["packages"][0]["environmentVariables"][0].update(format="path"),
    ),
    "a key that is no secret": (
        "packages.0.environmentVariables.0",
        lambda entry: entry["packages"][0]["environmentVariables"].insert(
            0, {"name": "A_KEY", "description": "A key."}
        ),
    ),
}


@pytest.mark.parametrize("change", WRONG)
def test_an_entry_is_refused_with(change: str):
    entry = deepcopy(ENTRY)
    place, make_it_wrong = WRONG[change]
    make_it_wrong(entry)
    assert mistakes(entry) == [place]


def test_its_versions_are_that_of_the_package():
    assert [ENTRY["version"], *(each["version"] for each in ENTRY["packages"])] == [mcp_subagents.__version__] * 2


def test_the_provider_whose_key_a_host_is_told_of_is_started_with_it():
    [package] = ENTRY["packages"]
    keys = {each["name"] for each in package["environmentVariables"] if each["name"].endswith("_KEY")}
    providers = [each for each in PROVIDERS if each.variable in keys]
    [argument] = package["runtimeArguments"]
    assert len(providers) == len(keys) >= 2
    assert argument["value"] == f"pydantic-ai-slim[{','.join(each.extra for each in providers)}]"


def test_the_address_of_a_store_is_kept_secret():
    """That of a database may hold a password."""
    [store] = [each for each in ENTRY["packages"][0]["environmentVariables"] if each["name"] == "MCP_SUBAGENTS_STORE"]
    assert store["isSecret"]
