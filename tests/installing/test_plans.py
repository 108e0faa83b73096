"""A change that was planned is done as it was planned, or not at all."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mcp_subagents.errors import ConfigError
from mcp_subagents.hosts.known import HOSTS
from mcp_subagents.hosts.plans import carry_out, plan_install, plan_uninstall
from mcp_subagents.hosts.receipts import Receipts

CURSOR = HOSTS["cursor"]
ENTRY: dict[str, Any] = {"command": "mcp-subagents", "args": []}


@pytest.fixture
def receipts(tmp_path: Path) -> Receipts:
    return Receipts(tmp_path / "kept")


@pytest.fixture
def file(tmp_path: Path, receipts: Receipts) -> Path:
    """A file that an installation has made, with its folder."""
    path = tmp_path / "cursor" / "mcp.json"
    plan = plan_install(CURSOR, path, "subagents", ENTRY, receipts)
    assert plan is not None
    carry_out(plan, receipts, datetime.now(UTC))
    return path


def test_a_file_that_is_to_go_stays_if_somebody_has_changed_it_meanwhile(file: Path, receipts: Receipts) -> None:
    plan = plan_uninstall(CURSOR, file, "subagents", receipts)
    assert plan is not None
    assert plan.after is None
    theirs = file.read_text().replace('"args"', '"disabled": true, "args"')
    file.write_text(theirs)
    with pytest.raises(ConfigError, match="it has just been changed by somebody else"):
        carry_out(plan, receipts, datetime.now(UTC))
    assert file.read_text() == theirs
    assert receipts.read(file, "subagents") is not None


def test_a_renewal_that_fails_leaves_what_is_known_of_the_installation(file: Path, receipts: Receipts) -> None:
    known = receipts.read(file, "subagents")
    assert known is not None
    theirs = '{"mcpServers": {"subagents": {"command": "npx"}}}'
    file.write_text(theirs)
    plan = plan_install(CURSOR, file, "subagents", ENTRY, receipts, force=True)
    assert plan is not None
    assert plan.receipt != known
    file.chmod(0o444)
    with pytest.raises(ConfigError, match="it may not be written"):
        carry_out(plan, receipts, datetime.now(UTC))
    assert file.read_text() == theirs
    assert receipts.read(file, "subagents") == known
