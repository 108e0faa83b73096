"""Nothing that may be secret in the file of a host is shown, however it is written down."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mcp_subagents.hosts.known import HOSTS
from mcp_subagents.hosts.masking import masked
from mcp_subagents.hosts.plans import carry_out, plan_install
from mcp_subagents.hosts.receipts import Receipts

JSON = {
    "a text": ('{"mcpServers": {"a": {"env": {"T": "x"}}}}', '{"mcpServers": {"a": {"env": {"T": "***"}}}}'),
    "an escaped text": ('{"a": {"env": {"T": "hunter\\/2"}}}', '{"a": {"env": {"T": "***"}}}'),
    "a number": ('{"a": {"env": {"PIN": 123456 /* n */}}}', '{"a": {"env": {"PIN": "***" /* n */}}}'),
    "a header": ('{"a": {"headers": {"T": "x"}, "url": "y"}}', '{"a": {"headers": {"T": "***"}, "url": "y"}}'),
    "a list over lines": ('{"env": {"T": [\n"x",\n"y"]}}', '{"env": {"T": "***"\n\n}}'),
    "below": ('{"environment": {"T": {"U": "x"}}}', '{"environment": {"T": {"U": "***"}}}'),
    "twice": ('{"env": {"T": "x", "T": "y"}}', '{"env": {"T": "***", "T": "***"}}'),
    "elsewhere": ('{"command": "env", "x": {"y": "T"}}', '{"command": "env", "x": {"y": "T"}}'),
    "a reference": ('{"env": {"T": "${env:T}", "U": "$T"}}', '{"env": {"T": "${env:T}", "U": "***"}}'),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("text", "after"), JSON.values(), ids=JSON)
def test_in_json_this_is_masked(text: str, after: str) -> None:
    assert masked(text, HOSTS["cursor"]) == after


TOML = {
    "an inline table": (
        '[s.a]\nenv = { A = \'x\', "b=c" = "y\\"z", d.e = 12 } # T',
        '[s.a]\nenv = { A = "***", "b=c" = "***", d.e = "***" } # T',
    ),
    "a table": ("[s.a.env]\nA = 1979-05-27T07:32:00Z\n[s.b]\nA = 1", '[s.a.env]\nA = "***"\n[s.b]\nA = 1'),
    "dotted keys": ("s.a.http_headers.X = 'x'\ny = 'y'", "s.a.http_headers.X = \"***\"\ny = 'y'"),
    "a text over lines": ("[a.env]\nA = \"\"\"\n# x\ny\"\"\"\nB = '''\nz'''", '[a.env]\nA = "***"\n\n\nB = "***"\n'),
    "a list over lines": ('a = { env = { A = [\n "x", # y\n "z"] } }', 'a = { env = { A = [\n "***", # y\n "***"] } }'),
    "a list of tables": ("a = [{ env = { A = true } }]", 'a = [{ env = { A = "***" } }]'),
    "elsewhere": ("command = 'env'\nargs = ['x']", "command = 'env'\nargs = ['x']"),
}


@pytest.mark.parametrize(("text", "after"), TOML.values(), ids=TOML)
def test_in_toml_this_is_masked(text: str, after: str) -> None:
    assert masked(text, HOSTS["codex"]) == after


def test_that_a_secret_changes_is_shown_and_neither_of_its_values(tmp_path: Path) -> None:
    file, receipts = tmp_path / "mcp.json", Receipts(tmp_path / "kept")
    entry = {"command": "mcp-subagents", "env": {"A": "first"}}
    plan = plan_install(HOSTS["cursor"], file, "subagents", entry, receipts)
    assert plan is not None
    carry_out(plan, receipts, datetime.now(UTC))
    plan = plan_install(HOSTS["cursor"], file, "subagents", {**entry, "env": {"A": "second"}}, receipts)
    assert plan is not None
    assert plan.shown().splitlines()[5:8] == ['       "env": {', '-        "A": "***"', '+        "A": "***"']
