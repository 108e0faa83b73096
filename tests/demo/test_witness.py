"""The gateway of the demo: it says its lines, fails when it is told to, and counts what it is asked."""

import os

import anyio
import httpx2
import pytest
from pydantic_ai import Agent
from pydantic_ai import exceptions as pai

from mcp_subagents.demo.ledger import Asked, Outcome
from mcp_subagents.demo.model import DemoModel
from mcp_subagents.demo.script import COMPLAINTS, FILES
from mcp_subagents.demo.witness import open_witness


def asker(url: str) -> Agent:
    agent = Agent(DemoModel(url))

    @agent.tool_plain
    def read_file(path: str) -> str:
        return FILES[path]

    return agent


def entry(turn: int, outcome: Outcome, task: str = COMPLAINTS) -> Asked:
    return Asked(task=task, turn=turn, process=os.getpid(), outcome=outcome)


async def test_it_says_its_lines_and_counts_them():
    with anyio.fail_after(5):
        async with open_witness() as witness:
            done = await asker(witness.url).run(COMPLAINTS)
    assert done.output == "Login is slow: 14 reports."
    assert witness.ledger == [entry(1, "answered"), entry(2, "answered")]


async def test_it_refuses_as_often_as_it_is_told_to():
    with anyio.fail_after(5):
        async with open_witness() as witness:
            witness.refuse(COMPLAINTS, 1, 503, 429)
            for status in (503, 429):
                with pytest.raises(pai.ModelHTTPError) as caught:
                    await asker(witness.url).run(COMPLAINTS)
                assert caught.value.status_code == status
            await asker(witness.url).run(COMPLAINTS)
    assert [each.outcome for each in witness.ledger] == ["refused", "refused", "answered", "answered"]


async def test_a_task_that_is_not_in_the_story_is_refused():
    with anyio.fail_after(5):
        async with open_witness() as witness:
            with pytest.raises(pai.ModelHTTPError) as caught:
                await asker(witness.url).run("Make tea.")
    assert caught.value.status_code == 404
    assert witness.ledger == [entry(1, "refused", "Make tea.")]


async def test_a_request_waits_at_its_gate_until_that_is_opened():
    with anyio.fail_after(5):
        async with open_witness() as witness, anyio.create_task_group() as group:
            gate = witness.hold(COMPLAINTS, 1)
            group.start_soon(asker(witness.url).run, COMPLAINTS)
            await gate.arrived.wait()
            assert (witness.in_flight, witness.ledger) == (1, [entry(1, "open")])
            gate.opened.set()
            await witness.until(lambda: len(witness.ledger) == 2)
            assert witness.ledger[0] == entry(1, "answered")
    assert witness.in_flight == 0


async def test_who_leaves_while_waiting_was_cut_off_and_not_answered():
    with anyio.fail_after(5):
        async with open_witness() as witness, anyio.create_task_group() as group:
            gate = witness.hold(COMPLAINTS, 1)
            group.start_soon(asker(witness.url).run, COMPLAINTS)
            await gate.arrived.wait()
            group.cancel_scope.cancel()
            with anyio.fail_after(5, shield=True):
                await gate.left.wait()
                await witness.until(lambda: witness.ledger == [entry(1, "cut off")])


@pytest.mark.parametrize("body", [b"", b"{}", b"<html>"], ids=["nothing", "an object", "a page"])
async def test_a_stranger_is_turned_away_and_not_counted(body: bytes):
    with anyio.fail_after(5):
        async with open_witness() as witness, httpx2.AsyncClient(verify=False, trust_env=False) as client:
            assert (await client.post(witness.url, content=body)).status_code == 400
    assert witness.ledger == []
