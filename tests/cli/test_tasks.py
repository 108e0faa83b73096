"""`mcp-subagents tasks`: what it prints, what it changes, and with which exit code it leaves. It never runs a task."""

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from samples import (
    ASKING,
    CHILD,
    DASHED,
    DONE,
    FAILED,
    RESULT,
    RUNNING,
    STOPPED,
    TORN,
    fill,
    put,
    statuses,
    with_store,
)

from mcp_subagents.cli import main
from mcp_subagents.errors import UnknownTask
from mcp_subagents.store import Query, Store
from mcp_subagents.types import TaskStatus

Tasks = Callable[..., tuple[int, str, str]]


@pytest.fixture
def path(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a task in every state."""
    path = home / "tasks.db"
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("MCP_SUBAGENTS_STORE", f"sqlite:///{path}")
    with_store(path, fill)
    return path


@pytest.fixture
def tasks(path: Path, capsys: pytest.CaptureFixture[str]) -> Tasks:
    """Runs the command: exit code, standard output, standard error."""
    assert path.exists()

    def call(*words: str) -> tuple[int, str, str]:
        code = main(["tasks", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def of_store(path: Path, task_id: str) -> Any:
    async def read(store: Store) -> Any:
        return await store.read(task_id)

    return with_store(path, read)


LISTED = """\
ID        STATUS     SUBAGENT         TURN  AGE     COST  TASK
run4xYz0  running    researcher          1   3d  $0.0123  Compare caching libra…
                                                          asking the model
chi4xYz0  pending    └ helper            -   3d        -  Read the first one.
                                                          number 1 in the queue
ask4xYz0  asks ?     general-purpose     1   3d  $0.0123  Compare the prices of…
                                                          ? Which region?
two4xYz0  asks ?     general-purpose     1   3d  $0.0123  Compare the prices of…
                                                          ? First?
don4xYz0  completed  researcher          1   3d  $0.0123  Clean up the title
-ds4xYz0  completed  researcher          1   3d  $0.0123  Begin with a dash.
can4xYz0  cancelled  reviewer            -   3d        -  Review some of it.
fai4xYz0  failed     reviewer            1   3d  $0.0123  Review everything.
                                                          It has used up its 2 …
1 running · 1 pending · 2 asking
answer: mcp-subagents tasks answer ask4xYz0
"""


def test_list_shows_the_fleet_as_a_table_that_fits_80_columns(tasks: Tasks):
    code, out, err = tasks("list")
    assert (code, lines(out), err) == (0, LISTED.splitlines(), "")
    assert max(map(len, out.splitlines())) <= 80


def test_on_a_wide_terminal_what_they_do_has_a_column_of_its_own(tasks: Tasks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "120")
    _, out, _ = tasks("list")
    assert len(out.splitlines()) == 11
    assert re.search(r"^run4xYz0 .* Compare caching libraries\. +asking the model", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "shown", "omitted"),
    [
        (["--limit", "3"], [CHILD, RUNNING, ASKING], 5),
        (["--limit", 30 * "9"], [CHILD, RUNNING, ASKING, TORN, DONE, DASHED, STOPPED, FAILED], 0),
        (["--limit", "5"], [CHILD, RUNNING, ASKING, TORN, DONE], 3),
        (["--limit", "3", "--all"], [CHILD, RUNNING, ASKING, TORN, DONE, DASHED, STOPPED, FAILED], 0),
        (["--status", "failed", "--status", "running"], [RUNNING, FAILED], 0),
        (["--status", "retrying"], [], 0),
    ],
    ids=["open ones first", "more than there are", "then the last that ended", "all", "of two states", "none"],
)
def test_list_chooses(tasks: Tasks, words: list[str], shown: list[str], omitted: int):
    code, out, _ = tasks("list", "--json", *words)
    found = json.loads(out)
    assert (code, [each["task_id"] for each in found["tasks"]], found["omitted"]) == (0, shown, omitted)


def test_list_says_what_it_leaves_out(tasks: Tasks):
    assert lines(tasks("list", "--limit", "3")[1])[-2:] == [
        "1 running · 1 pending · 1 asking · 1 open and 4 ended not shown (--all)",
        "answer: mcp-subagents tasks answer ask4xYz0",
    ]


def test_very_many_tasks_are_listed_in_a_line_each(path: Path, tasks: Tasks):
    async def add(store: Store) -> None:
        for number in range(500):
            await put(store, f"many{number:04}aaaaaaaaaaaaaa", "helper", "One of many.")

    with_store(path, add)
    _, out, _ = tasks("list", "--all")
    assert len(lines(out)) == 510
    assert lines(out)[0] == "many0499  pending    helper              3d          -  One of many."
    assert lines(out)[-2:] == ["501 pending · 1 running · 2 asking", "answer: mcp-subagents tasks answer ask4xYz0"]


def test_list_says_so_if_there_is_none_of_that_kind(tasks: Tasks):
    assert tasks("list", "--status", "retrying") == (0, "No task is retrying.\n", "")


def test_a_store_without_tasks_says_what_to_do(home: Path, capsys: pytest.CaptureFixture[str]):
    async def nothing(store: Store) -> int:
        return await store.count(Query())

    assert with_store(home / "empty.db", nothing) == 0
    assert main(["tasks", "list", "--store", f"sqlite:///{home}/empty.db"]) == 0
    assert capsys.readouterr().out.startswith("There are no tasks. Delegate one from your app, or with")


@pytest.mark.usefixtures("home")
def test_a_new_machine_has_no_tasks_yet_which_is_no_mistake(capsys: pytest.CaptureFixture[str]):
    assert main(["tasks", "list"]) == 0
    assert capsys.readouterr().out.startswith("There are no tasks yet.")
    assert main(["tasks", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"tasks": []}


@pytest.mark.parametrize("action", ["list", "show x", "watch", "answer x y", "send x y", "cancel x", "result x"])
def test_a_missing_store_is_named_and_not_made(home: Path, action: str, capsys: pytest.CaptureFixture[str]):
    path = home / "nowhere" / "tasks.db"
    assert main(["tasks", *action.split(), "--store", f"sqlite:///{path}"]) == 2
    out, err = capsys.readouterr()
    assert (out, f"there is no store at {path}." in err) == ("", True)
    assert not path.parent.exists()


def test_a_broken_configuration_does_not_matter_if_the_store_is_named(
    home: Path, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
):
    (home / "subagents.yaml").write_text("modle: x\n")
    assert tasks("list")[0] == 0
    monkeypatch.delenv("MCP_SUBAGENTS_STORE")
    assert tasks("list")[0] == 2


def test_the_store_of_the_configuration_is_looked_into(home: Path, tasks: Tasks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MCP_SUBAGENTS_STORE")
    (home / "subagents.yaml").write_text("store: tasks.db\n")
    assert tasks("list", "--limit", "1", "--json")[0] == 0


MISTAKEN: dict[str, tuple[list[str], str]] = {
    "an id that nobody has": (["show", "zzz"], "There is no task whose id begins with 'zzz'. `mcp-subagents tasks l"),
    "no id at all": (["show", ""], "There is no task whose id begins with ''"),
    "an answer nobody waits for": (["answer", "don", "x"], f"Task '{DONE}' asks nothing: it is completed."),
    "two questions and none named": (
        ["answer", "two", "x"],
        f"Task '{TORN}' has several questions open. Name one with --question and its number: 1: First?; 2: Second?",
    ),
    "a question that is not open": (["answer", "two", "x", "--question", "3"], "has no open question '3'. Name one"),
    "no answer": (["answer", "ask"], "There is no answer. Give it as text: mcp-subagents tasks answer ask4xYz0"),
    "a message to one that has ended": (["send", "don", "x"], f"Task '{DONE}' is completed; it takes no more messages"),
    "no message": (["send", "run"], "There is no message. Give it as text, or - to read it from standard input."),
    "nobody to agree": (["prune", "--older-than", "0s"], "Nobody is here to agree to that: add --yes, or look with"),
}


@pytest.mark.parametrize("case", MISTAKEN)
def test_a_mistake_is_told_and_changes_nothing(path: Path, tasks: Tasks, case: str):
    before = with_store(path, statuses)
    words, told = MISTAKEN[case]
    code, out, err = tasks(*words)
    assert (code, out) == (2, "")
    assert told in err
    assert with_store(path, statuses) == before


def test_an_id_may_be_cut_short_until_it_is_ambiguous(path: Path, tasks: Tasks):
    async def add(store: Store) -> None:
        for number in range(6):
            await put(store, f"run5{number}aaaaaaaaaaaaaaaa", "a", "b")

    assert json.loads(tasks("show", "run", "--json")[1])["task_id"] == RUNNING
    with_store(path, add)
    assert json.loads(tasks("show", "run4", "--json")[1])["task_id"] == RUNNING
    code, out, err = tasks("show", "run")
    assert (code, out) == (2, "")
    assert err.startswith(
        f"mcp-subagents: The ids of several tasks begin with 'run': {RUNNING}, run50aaaaaaaaaaaaaaaa, "
    )
    assert err.endswith(", and more. Give more of the one you mean.\n")


@pytest.mark.parametrize("given", [DASHED, DASHED[:8]])
def test_an_id_may_begin_with_a_dash(tasks: Tasks, given: str):
    assert json.loads(tasks("show", given, "--json")[1])["task_id"] == DASHED


def test_a_text_with_a_word_that_begins_with_a_dash_is_kept_as_it_is(path: Path, tasks: Tasks):
    assert tasks("send", DASHED[:8], "x")[0] == 2  # it has ended, but it was found
    assert tasks("send", "run", "from", "5", "to", "-1234567", "-", "please")[0] == 0
    assert [mail.text for mail in of_store(path, RUNNING).mail] == ["from 5 to -1234567 - please"]


def test_a_wrong_option_that_looks_like_an_id_is_named_as_it_was_given(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["tasks", "list", "--limit", "-1234567"])
    told = capsys.readouterr().err
    assert "'-1234567' is not a number from 1 on" in told


def test_show_says_all_but_the_end_of_the_result(path: Path, tasks: Tasks):
    code, out, err = tasks("show", "don")
    shown = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "THEN", line) for line in lines(out)]
    assert (code, err) == (0, "")
    assert shown == [
        f"task       {DONE}",
        "status     completed",
        "subagent   researcher",
        "asked for  Clean up the",
        "            title",
        "delegated  THEN",
        "ended      THEN",
        "used       1 turn · 1 tool call · 4.2k tokens · $0.0123 · 0 s",
        "",
        "result",
        "# Report",
        "",
        "All is well.",
        "",
        "All of it: mcp-subagents tasks result don4xYz0",
    ]
    assert of_store(path, DONE).unread


def test_show_has_the_questions_with_their_numbers(tasks: Tasks):
    shown = lines(tasks("show", "two")[1])
    assert shown[-4:] == [
        "asks 1     First?",
        "asks 2     Second?",
        "",
        'Answer it: mcp-subagents tasks answer two4xYz0 "..."',
    ]


def test_show_says_what_is_below(tasks: Tasks):
    assert "below it   chi4xYz0 (pending)" in lines(tasks("show", "run")[1])
    assert f"above it   {RUNNING}" in lines(tasks("show", "chi")[1])


def test_show_says_why_it_failed(tasks: Tasks):
    assert lines(tasks("show", "fai")[1])[-5:] == [
        "Limit: It has used up its 2 requests.",
        "Tried: 2 turns.",
        "You could: Ask for less.",
        "",
        "All of it: mcp-subagents tasks result fai4xYz0",
    ]


def test_result_prints_the_result_alone_and_counts_as_reading(path: Path, tasks: Tasks):
    assert of_store(path, DONE).unread
    assert tasks("result", "don") == (0, "# Report\n\nAll is well.\n", "")
    assert not of_store(path, DONE).unread


def test_as_json_nothing_of_a_result_is_lost_and_nothing_in_it_is_obeyed(tasks: Tasks):
    _, out, _ = tasks("result", "don", "--json")
    assert json.loads(out)["result"] == RESULT
    assert json.loads(out)["description"].endswith("\u202etitle\x9b31m")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out)


def test_result_of_one_that_failed_is_what_there_is_on_standard_error(tasks: Tasks):
    code, out, err = tasks("result", "fai")
    assert (code, out) == (1, "")
    assert lines(err)[-3:] == ["What it had found until then:", "Half of", "the answer."]


def test_result_of_one_that_has_not_ended_says_how_to_wait(path: Path, tasks: Tasks):
    code, out, err = tasks("result", "ask")
    assert (code, out) == (3, "")
    assert "has no result yet: it is waiting_for_answer." in err
    assert of_store(path, ASKING).unread


@pytest.mark.parametrize("action", ["list", "show don", "transcript don", "watch don"])
def test_looking_is_not_reading(path: Path, tasks: Tasks, action: str):
    for more in ([], ["--json"]):
        assert tasks(*action.split(), *more)[0] == 0
    assert of_store(path, DONE).unread


def test_transcript_is_markdown(tasks: Tasks):
    code, out, err = tasks("transcript", "don")
    assert (code, err) == (0, "")
    assert out.startswith(f"# researcher: completed\n\nTask `{DONE}`\n\n## Turn 1")
    found = json.loads(tasks("transcript", "don", "--json")[1])
    assert found == {"task_id": DONE, "transcript": out}


def test_an_answer_makes_the_task_due_and_nobody_runs_it_here(path: Path, tasks: Tasks):
    code, out, err = tasks("answer", "ask", "The", "EU.")
    assert (code, out) == (0, "Answered.\n")
    assert err == (
        "No server seems to be at work here; the next one, which your app starts or `mcp-subagents serve`, "
        "goes on with it.\n"
    )
    handle = of_store(path, ASKING).handle
    assert (handle.status, handle.attempt, handle.questions[0].answer) == (TaskStatus.PENDING, 1, "The EU.")


def test_several_questions_are_answered_one_by_one(path: Path, tasks: Tasks):
    assert tasks("answer", "two", "--question", "2", "Later.") == (0, "Answered. 1 more question is open.\n", "")
    assert tasks("answer", "two", "Sooner.")[:2] == (0, "Answered.\n")
    assert [each.answer for each in of_store(path, TORN).handle.questions] == ["Sooner.", "Later."]


def test_a_question_can_be_named_by_its_id(path: Path, tasks: Tasks):
    assert tasks("answer", "two", "--question", "call_1", "Later.")[0] == 0
    assert of_store(path, TORN).handle.questions[1].answer == "Later."


def test_an_answer_can_come_from_standard_input(path: Path, tasks: Tasks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("The EU,\nall of it.\n"))
    assert tasks("answer", "ask", "-", "--json")[0] == 0
    assert of_store(path, ASKING).handle.questions[0].answer == "The EU,\nall of it."


def test_a_message_is_for_the_next_turn(path: Path, tasks: Tasks):
    assert tasks("send", "run", "Hurry", "up.") == (0, "Sent; it reads it with its next turn.\n", "")
    assert [mail.text for mail in of_store(path, RUNNING).mail] == ["Hurry up."]


@pytest.mark.parametrize(
    ("words", "said", "becomes"),
    [
        (["run"], ["run4xYz0  stops at its next turn; --hard stops it now"], TaskStatus.RUNNING),
        (["run", "--hard"], ["run4xYz0  cancelled"], TaskStatus.CANCELLED),
        (
            ["run", "don"],
            ["run4xYz0  stops at its next turn; --hard stops it now", "don4xYz0  had ended already: completed"],
            TaskStatus.RUNNING,
        ),
    ],
    ids=["softly", "hard", "several"],
)
def test_cancel_stops_a_task_and_all_below_it(
    path: Path, tasks: Tasks, words: list[str], said: list[str], becomes: TaskStatus
):
    code, out, err = tasks("cancel", *words)
    assert (code, lines(out), err) == (0, said, "")
    found = with_store(path, statuses)
    assert (found[RUNNING], found[CHILD], found[DONE]) == (becomes, TaskStatus.CANCELLED, TaskStatus.COMPLETED)
    assert of_store(path, RUNNING).handle.cancel_requested is not None


def test_everything_can_be_stopped_at_once(path: Path, tasks: Tasks):
    code, out, err = tasks("cancel", "--all", "--hard")
    assert (code, err, {line.split()[1] for line in lines(out)}) == (0, "", {"cancelled"})
    found = with_store(path, statuses)
    assert {found[each] for each in (RUNNING, CHILD, ASKING, TORN)} == {TaskStatus.CANCELLED}
    assert found[DONE] is TaskStatus.COMPLETED
    assert tasks("cancel", "--all") == (0, "No task is open.\n", "")


@pytest.mark.parametrize("words", [[], ["run", "--all"]], ids=["nothing", "both"])
def test_what_to_cancel_is_said_in_one_way(path: Path, tasks: Tasks, words: list[str]):
    code, out, err = tasks("cancel", *words)
    assert (code, out) == (2, "")
    assert "Say which tasks to cancel by their ids, or --all of them, not both." in err
    assert TaskStatus.CANCELLED not in {with_store(path, statuses)[each] for each in (RUNNING, CHILD)}


def test_prune_deletes_what_ended_when_somebody_agrees(path: Path, tasks: Tasks):
    assert tasks("prune", "--older-than", "1h", "--yes")[1].startswith("There is nothing to delete: no task ended bef")
    code, out, _ = tasks("prune", "--older-than", "0s", "--dry-run")
    assert (code, out.startswith("Would delete 4 tasks that ended before ")) == (0, True)
    assert len(with_store(path, statuses)) == 8
    code, out, _ = tasks("prune", "--older-than", "0s", "--yes")
    assert (code, out.startswith("Deleted 4 tasks that ended before ")) == (0, True)
    assert set(with_store(path, statuses)) == {RUNNING, CHILD, ASKING, TORN}
    with pytest.raises(UnknownTask):
        of_store(path, DONE)


@pytest.mark.parametrize(("days", "due"), [("0", 4), ("1.0e+300", 0)])
def test_prune_goes_by_the_retention_of_the_configuration(home: Path, tasks: Tasks, days: str, due: int):
    (home / "subagents.yaml").write_text(f"store: tasks.db\nretention_days: {days}\n")
    found = json.loads(tasks("prune", "--dry-run", "--json", "--config", "subagents.yaml")[1])
    assert (found["found"], found["deleted"]) == (due, 0)


@pytest.mark.parametrize(
    "action", ["show run", "cancel run", "answer ask x", "send run x", "list", "watch don", "result don"]
)
def test_as_json_a_task_is_what_hosts_get_of_it(tasks: Tasks, action: str):
    _, out, _ = tasks(*action.split(), "--json")
    found: Any = json.loads(out)
    if action == "list":
        found = found["tasks"]
    task: dict[str, Any] = found[0] if action in ("list", "cancel run") else found
    assert {"task_id", "status", "questions", "failure", "usage", "activity", "parent_id", "unread"} <= task.keys()


WRONG: dict[str, tuple[list[str], str]] = {
    "no action": ([], "the following arguments are required: ACTION"),
    "an unknown action": (["lst"], "invalid choice: 'lst'"),
    "an unknown state": (["list", "--status", "done"], "invalid choice: 'done'"),
    "a limit that is none": (["list", "--limit", "0"], "'0' is not a number from 1 on"),
    "an age that is none": (["prune", "--older-than", "soon"], "'soon' is not a duration such as 12h, 30d or 2w"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_refused(case: str, capsys: pytest.CaptureFixture[str]):
    words, told = WRONG[case]
    with pytest.raises(SystemExit) as left:
        main(["tasks", *words])
    assert left.value.code == 2
    assert told in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("words", [["tasks"], ["run"], *(["tasks", each] for each in ("list", "answer", "prune"))])
def test_help_fits_80_columns(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
