"""Tasks that outlive the process that took them on.

An engine takes on two tasks. The postman sends a letter and is then slow to report; the clerk asks a question. The
engine is stopped there, as when a host closes its server. Another engine on the same file goes on with both: the
question is still open, its answer reaches the clerk, and no second letter is sent. The models are scripted.

Run it: python examples/durable_tasks.py

Prints:

    accepted, and on disk: 2 tasks
    stopped; the store says: pending, waiting_for_answer
    the clerk asks: Black or blue ink?
    completed: The letter is out.
    completed: Signed in blue.
    letters sent: 1
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from pydantic_ai import Agent, Tool, ToolCallPart

from mcp_subagents import Roster, SubAgentConfig, Submission, open_sqlite, run_engine
from mcp_subagents.testing import ScriptedModel

letters: list[str] = []
reporting = anyio.Event()


def send_letter() -> str:
    """Send the letter."""
    letters.append("Dear reader,")
    return "sent"


async def report() -> str:
    """Report back. The first time, it takes for ever."""
    if not reporting.is_set():
        reporting.set()
        await anyio.sleep_forever()
    return "reported"


def subagent(name: str, model: ScriptedModel) -> SubAgentConfig:
    # A tool that says it may be run twice is run again if it was interrupted; one that does not, is not.
    agent = Agent(model, tools=[send_letter, Tool(report, metadata={"idempotent": True})])
    return SubAgentConfig(name=name, description=f"The {name}.", instructions="", agent=agent)


async def main() -> None:
    send, tell = ToolCallPart("send_letter"), ToolCallPart("report")
    ask = ToolCallPart("ask_parent", {"question": "Black or blue ink?"})
    roster = Roster(
        [
            subagent("postman", ScriptedModel(send, tell, "The letter is out.")),
            subagent("clerk", ScriptedModel(ask, "Signed in blue.")),
        ]
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tasks.db"

        async with open_sqlite(path) as store, run_engine(store, roster) as engine:
            letter = await engine.submit(Submission(description="Send the letter.", subagent="postman"))
            form = await engine.submit(Submission(description="Sign the form.", subagent="clerk"))
            print("accepted, and on disk: 2 tasks")
            await reporting.wait()
            await engine.wait([form.task_id])

        async with open_sqlite(path) as store:
            stand = [(await store.read(task.task_id)).handle.status for task in (letter, form)]
            print(f"stopped; the store says: {', '.join(stand)}")

            async with run_engine(store, roster) as engine:
                asking = await engine.check(form.task_id)
                print(f"the clerk asks: {asking.pending_question}")
                await engine.answer(form.task_id, "Blue.")
                for task in (await engine.wait([letter.task_id, form.task_id])).tasks:
                    print(f"{task.status}: {task.result}")
        print(f"letters sent: {len(letters)}")


if __name__ == "__main__":
    anyio.run(main)
