"""What holds around every command: readers that leave, Ctrl-C, and JSON that a terminal can bear."""

import json
import os
import signal
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
import pytest
from terminal import command

from mcp_subagents.cli import main
from mcp_subagents.cli.printing import politely


def interrupted() -> int:
    raise BaseExceptionGroup("of a task group", [KeyboardInterrupt()])


def test_ctrl_c_has_an_exit_code_and_no_traceback():
    assert politely(interrupted) == 130


@pytest.mark.usefixtures("home")
def test_json_of_agents_has_nothing_that_a_terminal_obeys(home: Path, capsys: pytest.CaptureFixture[str]):
    team = {"model": "test", "subagents": [{"name": "helper", "description": "Helps\x9b31m \u202ealways."}]}
    (home / "subagents.yaml").write_text(json.dumps(team))
    assert main(["agents", "list", "--json"]) == 0
    out = capsys.readouterr().out
    assert "\\u009b31m \\u202ealways." in out
    assert json.loads(out)[0]["description"] == "Helps\x9b31m \u202ealways."


@pytest.mark.slow
@pytest.mark.parametrize("words", ["agents list", "schema", "completion bash", "doctor python", "doctor python --json"])
@pytest.mark.usefixtures("home")
async def test_a_reader_that_has_left_is_no_mistake(words: str):
    reader, ours = os.pipe()
    os.close(reader)
    with anyio.fail_after(60):
        argv = [sys.executable, "-m", "mcp_subagents", *words.split()]
        async with await anyio.open_process(argv, stdin=DEVNULL, stdout=ours, stderr=PIPE) as process:
            os.close(ours)
            assert process.stderr
            told = b"".join([each async for each in process.stderr])
    assert (process.returncode, told) == (0, b"")


@pytest.mark.slow
@pytest.mark.usefixtures("home")
async def test_ctrl_c_ends_doctor_without_a_traceback():
    with anyio.fail_after(60):
        async with command("doctor") as running:
            await running.printed("python")
            running.process.send_signal(signal.SIGINT)
            code, _, err = await running.ended()
    assert (code, err) == (130, "")
