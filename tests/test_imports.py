"""Every module of the package can be imported: what is loaded late, by one command alone, too."""

import importlib
import pkgutil

import pytest

import mcp_subagents

MODULES = [
    each.name
    for each in pkgutil.walk_packages(mcp_subagents.__path__, "mcp_subagents.")
    if not each.name.endswith("__main__")  # which would run
]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_can_be_imported(module: str):
    importlib.import_module(module)
