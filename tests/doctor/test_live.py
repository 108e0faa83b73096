"""Models are asked with `--live`, and never without."""

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import yaml

from mcp_subagents.cli import main
from mcp_subagents.testing import Gateway, Hang, Status, Text

KEY = "sk-" + "s3cretOfOurs" * 2


@pytest.fixture
def configured(home: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a configuration with two subagents on one model at a gateway, and a third on another one."""

    def write(gateway: Gateway) -> None:
        at: dict[str, Any] = {"base_url": f"{gateway.url}/v1", "api_key_env": "TEAM_KEY"}
        subagents = [
            {"name": "a", "model": "openai:gpt-4o-mini", **at},
            {"name": "b", "model": "openai:gpt-4o-mini", **at},
            {"name": "c", "model": "openai:house-model", **at},
        ]
        (home / "subagents.yaml").write_text(yaml.safe_dump({"subagents": subagents}))

    monkeypatch.setenv("TEAM_KEY", KEY)
    return write


async def examined(*arguments: str) -> int:
    with anyio.fail_after(20):
        return await anyio.to_thread.run_sync(main, ["doctor", "models", *arguments])


async def test_no_model_is_asked_unless_told_to(configured: Any, capsys: pytest.CaptureFixture[str]):
    async with Gateway([]) as gateway:
        configured(gateway)
        assert await examined() == 0
        assert (gateway.connections, gateway.requests) == (0, [])
    out = capsys.readouterr().out
    assert f"openai:gpt-4o-mini at {gateway.url}/v1 (a, b): TEAM_KEY is set; not asked, --live does." in out


async def test_every_model_is_asked_once_and_tells_its_time_and_its_price(
    configured: Any, capsys: pytest.CaptureFixture[str]
):
    async with Gateway([Text("ok"), Text("ok")]) as gateway:
        configured(gateway)
        assert await examined("--live") == 0
    assert sorted(each.body["model"] for each in gateway.requests) == ["gpt-4o-mini", "house-model"]
    assert {each.body["max_completion_tokens"] for each in gateway.requests} == {16}
    priced, unpriced = capsys.readouterr().out.splitlines()[:2]
    assert priced.startswith(
        f"\N{CHECK MARK} ok       models  openai:gpt-4o-mini at {gateway.url}/v1 (a, b): answered in "
    )
    assert priced.endswith(" s for $0.000006.")
    assert unpriced.endswith(" s for an unknown price.")


async def test_a_model_that_refuses_is_a_problem_with_its_cause_and_no_secret(
    configured: Any, capsys: pytest.CaptureFixture[str]
):
    async with Gateway(lambda request: Status(401, {}, f"Incorrect API key provided: {KEY}")) as gateway:
        configured(gateway)
        assert await examined("--live") == 1
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == (
        f"\N{BALLOT X} problem  models  openai:gpt-4o-mini at {gateway.url}/v1 (a, b): The model provider refused the "
        "credentials for 'gpt-4o-mini' (HTTP 401)."
    )
    assert lines[1] == "           fix     Check the provider's API key and its rights."
    assert KEY not in printed.out + printed.err


async def test_a_model_that_does_not_answer_is_not_waited_for(configured: Any, capsys: pytest.CaptureFixture[str]):
    async with Gateway(lambda request: Hang()) as gateway:
        configured(gateway)
        assert await examined("--live", "--patience", "0.2") == 1
    assert "(a, b): did not answer within 0.2 seconds" in capsys.readouterr().out
