"""What no encoding takes does not get into the file of a host, and does not keep us from changing it."""

from typing import Any

import pytest

from mcp_subagents.config.mistakes import Mistake
from mcp_subagents.hosts.changes import Change, added
from mcp_subagents.hosts.known import HOSTS

ENTRY: dict[str, Any] = {"command": "mcp-subagents", "args": ["new"]}


def test_half_a_character_in_our_entry_stays_as_it_was_written() -> None:
    text = '{"mcpServers": {"subagents": {"command": "mcp-subagents", "note": "\\ud800 \\u00e9"}}}'
    change = added(text, HOSTS["cursor"], "subagents", ENTRY)
    assert isinstance(change, Change)
    assert '"note": "\\ud800 é"' in change.text
    change.text.encode("utf-8")


@pytest.mark.parametrize("host", HOSTS)
def test_an_entry_with_half_a_character_is_refused(host: str) -> None:
    mistake = added("", HOSTS[host], "subagents", {"command": "/opt/\udcff/mcp-subagents"})
    assert isinstance(mistake, Mistake)
    assert mistake.what == "cannot be written: a path or a value in it is not UTF-8 text; give it another"
