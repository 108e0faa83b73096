"""A process dies between a tool's return and the next model request; another process takes the run on.

The first process saves every checkpoint to a file, lets the subagent send a letter, and kills itself when the model is
asked again. This one reads the file and resumes. The model is scripted.

Run it: python examples/resume_after_kill.py

Prints:

    the first process died: exit code 9
    its last checkpoint: 3 messages, the last one holds what send_letter returned
    resumed: The letter is out.
    letters sent: 1
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from pydantic_ai import Agent, ModelMessagesTypeAdapter, ToolCallPart

from mcp_subagents import Checkpoint, RetryConfig, run_with_retry
from mcp_subagents.testing import ScriptedModel


def secretary(folder: Path, model: ScriptedModel) -> Agent[None, str]:
    """A subagent whose one tool leaves a trace in `folder` each time it runs."""

    def send_letter() -> str:
        """Send the letter."""
        with (folder / "letters").open("a", encoding="utf-8") as letters:
            letters.write("Dear reader,\n")
        return "sent"

    return Agent(model, tools=[send_letter])


async def first_process(folder: Path) -> None:
    def save(checkpoint: Checkpoint) -> None:
        # Written aside and moved into place, so that a process that dies here leaves a whole file, old or new.
        (folder / "new").write_bytes(ModelMessagesTypeAdapter.dump_json(list(checkpoint.messages)))
        (folder / "new").replace(folder / "checkpoint")

    agent = secretary(folder, ScriptedModel(ToolCallPart("send_letter"), lambda: os._exit(9)))
    await run_with_retry(agent, "Write to them.", run_kwargs={}, retry=RetryConfig(), on_checkpoint=save)


async def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        died = await anyio.run_process([sys.executable, __file__, name], check=False)
        print(f"the first process died: exit code {died.returncode}")

        history = ModelMessagesTypeAdapter.validate_json((folder / "checkpoint").read_bytes())
        tool = getattr(history[-1].parts[0], "tool_name", "no tool")
        print(f"its last checkpoint: {len(history)} messages, the last one holds what {tool} returned")

        agent = secretary(folder, ScriptedModel("The letter is out."))
        result = await run_with_retry(agent, None, run_kwargs={"message_history": history}, retry=RetryConfig())
        print(f"resumed: {result.output}")
        print(f"letters sent: {len((folder / 'letters').read_text(encoding='utf-8').splitlines())}")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        anyio.run(first_process, Path(sys.argv[1]))
    else:
        anyio.run(main)
