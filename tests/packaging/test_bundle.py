"""The bundle: its manifest tells the truth, it packs, and once unpacked it answers as in an app."""

import json
import os
import re
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from distributions import ROOT, TOOLS, listed, run
from node_tools import BIN, install
from uv import find_uv_bin

import mcp_subagents
from mcp_subagents.config.providers import PROVIDERS
from mcp_subagents.server.toolbox import FACES

VERSION = mcp_subagents.__version__
BUNDLE = ROOT / "bundle"
MANIFEST: dict[str, Any] = json.loads((BUNDLE / "manifest.json").read_text(encoding="utf-8"))
PROJECT: dict[str, Any] = tomllib.loads((BUNDLE / "pyproject.toml").read_text(encoding="utf-8"))
WHEEL = f"mcp_subagents-{VERSION}-py3-none-any.whl"
SETTINGS: dict[str, Any] = MANIFEST["user_config"]
ENVIRONMENT: dict[str, str] = MANIFEST["server"]["mcp_config"]["env"]


def test_its_versions_are_that_of_the_package():
    assert (MANIFEST["version"], PROJECT["project"]["version"]) == (VERSION, VERSION)
    assert PROJECT["tool"]["uv"]["sources"] == {"mcp-subagents": {"path": WHEEL}}


def test_it_needs_what_the_package_needs():
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert PROJECT["project"]["requires-python"] == package["requires-python"]
    assert MANIFEST["compatibility"]["runtimes"] == {"python": package["requires-python"]}


def test_it_shows_the_tools_that_there_are():
    assert MANIFEST["tools"] == [{"name": name, "description": face.title} for name, face in FACES.items()]


def test_every_setting_reaches_the_server_and_may_be_left_empty():
    used = {name for value in ENVIRONMENT.values() for name in re.findall(r"\$\{user_config\.(\w+)\}", value)}
    assert used == set(SETTINGS)
    # An app puts nothing in the place of a setting without a default: the server would read `${user_config.…}`.
    assert {name: (each["required"], each["default"]) for name, each in SETTINGS.items()} == dict.fromkeys(
        SETTINGS, (False, "")
    )


def test_keys_are_asked_for_as_secrets_and_their_providers_are_installed():
    keys = {name for name in ENVIRONMENT if name.endswith("_KEY")}
    secret = {name for name, value in ENVIRONMENT.items() if SETTINGS[value[14:-1]].get("sensitive")}
    assert secret == keys
    extras = sorted(each.extra for each in PROVIDERS if each.variable in keys)
    assert PROJECT["project"]["dependencies"] == [f"mcp-subagents[{','.join(extras)}]"]


@pytest.fixture(scope="module")
def bundle(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle, as `make bundle` makes it."""
    [wheel] = dist.glob("*.whl")
    made = tmp_path_factory.mktemp("bundle") / "mcp-subagents.mcpb"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests/conformance")}
    run(sys.executable, BUNDLE / "pack.py", "--wheel", wheel, "--output", made, env=env)
    return made


@pytest.mark.slow
def test_it_holds_the_server_and_nothing_else(bundle: Path):
    with zipfile.ZipFile(bundle) as packed:
        assert sorted(packed.namelist()) == sorted(["LICENSE", "manifest.json", "pyproject.toml", "server.py", WHEEL])


@pytest.mark.slow
def test_a_manifest_that_is_wrong_is_not_packed(dist: Path, tmp_path: Path):
    wrong = tmp_path / "manifest.json"
    wrong.write_text(json.dumps({**MANIFEST, "manifest_version": "0.3"}), encoding="utf-8")
    program = install(BUNDLE / "npm") / "@anthropic-ai/mcpb/dist/cli/cli.js"
    run(BIN / "node", program, "validate", BUNDLE / "manifest.json")
    with pytest.raises(AssertionError, match=r"server\.type"):
        run(BIN / "node", program, "validate", wrong)


START = """
import { getMcpConfigForManifest } from "%(module)s";
import { readFileSync } from "node:fs";
const manifest = JSON.parse(readFileSync("%(folder)s/manifest.json", "utf8"));
const given = { manifest, extensionPath: "%(folder)s", systemDirs: {}, userConfig: {}, pathSeparator: "/" };
console.log(JSON.stringify(await getMcpConfigForManifest(given)));
"""


@pytest.mark.slow
async def test_unpacked_it_answers_an_app_in_which_nothing_was_set(bundle: Path, tmp_path: Path):
    """The command is what the format's own library makes of the manifest, as apps do."""
    package = install(BUNDLE / "npm") / "@anthropic-ai/mcpb/dist"
    folder, home = tmp_path / "unpacked", tmp_path / "home"
    home.mkdir()
    run(BIN / "node", package / "cli/cli.js", "unpack", bundle, folder)
    script = START % {"module": (package / "shared/config.js").as_uri(), "folder": folder.as_posix()}
    start = json.loads(run(BIN / "node", "--input-type=module", "--eval", script))
    assert start["env"] == dict.fromkeys(ENVIRONMENT, "")

    uv = find_uv_bin()
    env = {**start["env"], "UV_CACHE_DIR": run(uv, "cache", "dir").strip()}
    assert start["command"] == "uv"
    answer = await listed(uv, *start["args"], home=home, env=env)
    assert {tool.name for tool in answer.tools} == TOOLS
