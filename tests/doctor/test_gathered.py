"""What there is to examine, as it is gathered."""

import json
from pathlib import Path

import pytest

from mcp_subagents.doctor import Options, gathered


def test_what_the_configuration_would_log_is_found_and_not_logged(home: Path, caplog: pytest.LogCaptureFixture):
    server = {"command": "x", "env": {"TOKEN": "ghp_" + "x1" * 12}}
    said = {"subagents": [{"name": "a", "mcp_servers": [{"issues": server}]}]}
    (home / "subagents.yaml").write_text(json.dumps(said))
    there = gathered(Options(), {}, home=home)
    assert [each[:36] for each in there.remarks] == ["the tool server issues of the subage"]
    assert caplog.records == []
