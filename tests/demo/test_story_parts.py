"""The parts of the demo: its ledger, its lines, its printing."""

import io

import anyio
import pytest
from pydantic_ai.messages import TextPart, ToolCallPart
from rich.console import Console

from mcp_subagents.demo.conversation import Conversation
from mcp_subagents.demo.ledger import Asked, Outcome, count, paid_twice
from mcp_subagents.demo.narration import PLAIN, Marks, Narrator, columns, marks_for
from mcp_subagents.demo.promises import BrokenPromise, Proof, require
from mcp_subagents.demo.script import ANNOUNCE, COMPARE, FILES, LINES, PLAN, REPORT, line_for, spoken


def asked(turn: int, outcome: Outcome, task: str = "a", process: int = 1) -> Asked:
    return Asked(task=task, turn=turn, process=process, outcome=outcome)


LEDGERS: dict[str, tuple[list[Asked], list[tuple[str, int]]]] = {
    "nothing was asked": ([], []),
    "each turn once": ([asked(1, "answered"), asked(2, "answered")], []),
    "one turn of two tasks": ([asked(1, "answered"), asked(1, "answered", "b")], []),
    "a turn that was refused first": ([asked(1, "refused"), asked(1, "answered")], []),
    "a turn that was cut off first": ([asked(1, "cut off"), asked(1, "answered", process=2)], []),
    "a turn that was answered to two processes": (
        [asked(1, "answered"), asked(2, "answered"), asked(1, "answered", process=2)],
        [("a", 1)],
    ),
}


@pytest.mark.parametrize(("ledger", "twice"), LEDGERS.values(), ids=LEDGERS)
def test_a_turn_is_paid_twice_if_it_was_answered_twice(ledger: list[Asked], twice: list[tuple[str, int]]):
    assert paid_twice(ledger) == twice


def test_requests_are_counted_by_how_they_ended():
    ledger = [asked(1, "refused"), asked(1, "answered"), asked(2, "open"), asked(2, "refused")]
    assert [count(ledger, each) for each in ("answered", "refused", "cut off", "open")] == [1, 2, 0, 1]


def test_a_promise_is_broken_by_anything_else():
    require("two and two are four", 2 + 2, 4)
    with pytest.raises(BrokenPromise) as caught:
        require("two and two are four", 5, 4)
    assert (caught.value.promised, caught.value.found) == ("two and two are four", "5, and not 4")


CLIENT_READ = tuple(("read_file", FILES[name]) for name in ("wishes.md", "complaints.md"))
SPOKEN: dict[str, tuple[Conversation, list[TextPart | ToolCallPart]]] = {
    "the first turn of a comparison": (
        Conversation(task=COMPARE),
        [TextPart("I read the wishes."), ToolCallPart("read_file", {"path": "wishes.md"}, tool_call_id="turn-1")],
    ),
    "its last turn has what was read": (
        Conversation(task=COMPARE, turns=2, returned=CLIENT_READ),
        [TextPart("Wish: Export as CSV: 21 votes. Complaint: Login is slow: 14 reports.")],
    ),
    "a question": (
        Conversation(task=ANNOUNCE),
        [ToolCallPart("ask_parent", {"question": "Who will read it, users or developers?"}, tool_call_id="turn-1")],
    ),
    "a result has the answer": (
        Conversation(task=ANNOUNCE, turns=1, returned=(("ask_parent", "All."),)),
        [TextPart('Release 2 is out. (Written for: "All.")')],
    ),
    "who was told something comes to the end": (
        Conversation(task=REPORT, turns=1, returned=(("read_file", "- One\n- Two\n"),), told=("Stop.",)),
        [TextPart('One. (You said: "Stop.")')],
    ),
}


@pytest.mark.parametrize(("conversation", "parts"), SPOKEN.values(), ids=SPOKEN)
def test_a_line_is_spoken(conversation: Conversation, parts: list[TextPart | ToolCallPart]):
    assert spoken(line_for(conversation), conversation).parts == parts


def test_after_the_last_line_it_is_said_again():
    assert line_for(Conversation(task=PLAN, turns=9)) == LINES[PLAN][-1]


def test_a_task_that_is_not_in_the_story_has_no_line():
    with pytest.raises(KeyError):
        line_for(Conversation(task="Make tea."))


@pytest.mark.parametrize(
    ("encoding", "marks"), [("utf-8", Marks()), ("cp1252", PLAIN), ("ascii", PLAIN), ("no such", PLAIN)]
)
def test_only_signs_are_used_that_can_be_written(encoding: str, marks: Marks):
    assert marks_for(encoding) == marks
    "".join((PLAIN.kept, PLAIN.broken, PLAIN.dash, PLAIN.arrow)).encode("ascii")


def test_columns_are_aligned_and_the_first_gives_way():
    names, rows = ["task", "status", "n"], [["Make tea.", "done", "1"], ["Drink it up", "open", "12"]]
    assert columns(names, rows, 40) == [
        "task         status   n",
        "Make tea.    done     1",
        "Drink it up  open    12",
    ]
    assert columns(names, rows, 18) == [
        "task    status   n",
        "Make t  done     1",
        "Drink   open    12",
    ]


async def test_what_a_stream_cannot_write_does_not_stop_the_story():
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii", write_through=True) as out, anyio.fail_after(5):
        narrator = Narrator(Console(file=out, width=40), pace=0.0)
        await narrator.scene("A scene")
        await narrator.say("server", f"in /home/me/d\u00e9mo {narrator.marks.arrow} gone")
        assert raw.getvalue().decode("ascii").splitlines() == [
            "",
            "1 - A scene",
            "  server    in /home/me/d?mo -> gone",
        ]


async def told(width: int, *, pace: float, work: float = 0.0) -> tuple[list[str], list[float]]:
    """Something of every kind, and the pauses. Between two looks at the clock, `work` takes so many seconds."""
    now, slept = 0.0, list[float]()

    def clock() -> float:
        nonlocal now
        now += work
        return now

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        slept.append(seconds)

    out = io.StringIO()
    console = Console(file=out, width=width, markup=False, highlight=False)
    narrator = Narrator(console, pace=pace, clock=clock, sleep=sleep)
    with anyio.fail_after(5):
        await narrator.title("A title")
        await narrator.text("A text that is long enough to go on in the next line, and even further.")
        await narrator.scene("A scene")
        await narrator.say("host", "Something that a host says, which does not fit.")
        await narrator.proofs([Proof("well", "It was [seen] so."), Proof("very well", "It was.")])
        await narrator.table(["task", "status", "n"], [["Make tea.", "done", "1"]])
        await narrator.commands([("do", "does it"), ("do not", "does not")])
        await narrator.broken("all is well", "it is not")
    return out.getvalue().splitlines(), slept


async def test_everything_keeps_to_its_column():
    lines, _ = await told(40, pace=0.0)
    assert lines == [
        "A title",
        "A text that is long enough to go on in",
        "the next line, and even further.",
        "",
        "1 · A scene",
        "  host      Something that a host says,",
        "            which does not fit.",
        "  ✓ well       It was [seen] so.",
        "  ✓ very well  It was.",
        "  task       status  n",
        "  Make tea.  done    1",
        "  do      does it",
        "  do not  does not",
        "",
        "  ✗ broken  Promised: all is well.",
        "            Found: it is not.",
    ]


async def test_lines_do_not_get_longer_than_one_can_read():
    lines, _ = await told(200, pace=0.0)
    assert max(map(len, lines)) <= 100


async def test_readers_get_time_unless_nobody_reads():
    _, slept = await told(80, pace=1.0)
    assert len(slept) == 11
    assert all(0.1 < seconds < 1 for seconds in slept)
    assert (await told(80, pace=0.0))[1] == []


async def test_what_took_its_time_is_not_waited_for_again():
    _, slept = await told(80, pace=1.0, work=1.0)
    assert slept == []
