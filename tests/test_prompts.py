"""The words that models read: what the builders say, and that every text is short and useful."""

import re
from typing import Any

import pytest

from mcp_subagents import prompts
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.prompts import DUAL_MODE_SYSTEM_PROMPT, get_subagent_system_prompt, get_task_instructions_prompt

TEXTS: dict[str, str] = {name: value for name, value in vars(prompts).items() if name.isupper()}
DESCRIPTIONS = {name: text for name, text in TEXTS.items() if name.endswith("_DESCRIPTION")}
TOOLS = {
    *("task", "check_task", "wait_tasks", "answer_subagent", "send_message_to_subagent", "list_active_tasks"),
    *("soft_cancel_task", "hard_cancel_task", "ask_parent"),
}

REVIEWER = SubAgentConfig(name="reviewer", description="Reviews code.", can_ask_questions=True)
WRITER = SubAgentConfig(name="writer", description="Writes\n  prose.", can_ask_questions=False)
NAMELESS = SubAgentConfig(name="helper")

ROSTER = """\
## Subagents

Delegate work with the `task` tool; its `subagent_type` is one of these names:

- **writer**: Writes prose. (asks no questions)
- **reviewer**: Reviews code.
- **helper**: (no description)"""


# The roster


def test_the_roster_lists_the_subagents_in_their_order():
    assert get_subagent_system_prompt([WRITER, REVIEWER, NAMELESS], include_dual_mode=False) == ROSTER


def test_the_two_modes_are_explained_when_asked_for():
    explained = get_subagent_system_prompt([WRITER, REVIEWER, NAMELESS], include_dual_mode=True)
    assert explained == f"{ROSTER}\n\n{DUAL_MODE_SYSTEM_PROMPT.rstrip()}"


def test_the_two_modes_are_explained_by_default():
    assert get_subagent_system_prompt([WRITER]) == get_subagent_system_prompt([WRITER], True)


@pytest.mark.parametrize(
    ("config", "line"),
    [
        pytest.param({"name": "a**\n- **b", "description": "x\ny"}, "- **a** - **b**: x y", id="line feeds"),
        pytest.param({"name": "a\u2028b\r\x85c", "description": "x\x0by"}, "- **a b c**: x y", id="other line ends"),
        pytest.param({"name": "a", "description": None}, "- **a**: (no description)", id="no description"),
    ],
)
def test_a_subagent_is_one_line_of_the_roster(config: Any, line: str):
    told = get_subagent_system_prompt([config], include_dual_mode=False)
    assert told.splitlines()[4:] == [line]


def test_a_roster_without_subagents_says_so():
    nobody = "## Subagents\n\nThere is none to delegate to: do all the work yourself."
    assert get_subagent_system_prompt([], include_dual_mode=False) == nobody
    assert get_subagent_system_prompt([]) == f"{nobody}\n\n{DUAL_MODE_SYSTEM_PROMPT.rstrip()}"


# The task

ASK = "## If something is unclear\n\nAsk with `ask_parent`, and only what you cannot decide for yourself."
DECIDE = (
    "## No questions\n\n"
    "Nobody can answer questions now. Decide for yourself, and state in your answer what you assumed."
)


@pytest.mark.parametrize(
    ("can_ask", "most", "about_questions"),
    [
        pytest.param(True, None, ASK, id="any number of questions"),
        pytest.param(True, 3, f"{ASK}\nYou can ask 3 questions at most.", id="three questions"),
        pytest.param(True, 1, f"{ASK}\nYou can ask 1 question at most.", id="one question, in the singular"),
        pytest.param(True, 0, DECIDE, id="a maximum of zero is no questions"),
        pytest.param(True, -1, DECIDE, id="a maximum below zero as well"),
        pytest.param(False, None, DECIDE, id="no questions"),
        pytest.param(False, 3, DECIDE, id="no questions, whatever the maximum"),
    ],
)
def test_a_task_says_what_may_be_asked(can_ask: bool, most: int | None, about_questions: str):
    told = get_task_instructions_prompt("Review\n\nit.", can_ask, most)
    assert told == f"## Your task\n\nReview\n\nit.\n\n{about_questions}"


def test_a_subagent_may_ask_by_default():
    assert get_task_instructions_prompt("Go.") == get_task_instructions_prompt("Go.", True, None)


# Every text


def test_the_texts_are_the_ones_the_seeds_name():
    assert sorted(TEXTS) == [
        "ANSWER_SUBAGENT_DESCRIPTION",
        "CHECK_TASK_DESCRIPTION",
        "DEFAULT_GENERAL_PURPOSE_DESCRIPTION",
        "DUAL_MODE_SYSTEM_PROMPT",
        "HARD_CANCEL_TASK_DESCRIPTION",
        "LIST_ACTIVE_TASKS_DESCRIPTION",
        "SEND_MESSAGE_DESCRIPTION",
        "SOFT_CANCEL_TASK_DESCRIPTION",
        "SUBAGENT_SYSTEM_PROMPT",
        "TASK_TOOL_DESCRIPTION",
        "WAIT_TASKS_DESCRIPTION",
    ]


@pytest.mark.parametrize("name", sorted(DESCRIPTIONS))
def test_a_description_is_under_two_kilobytes(name: str):
    assert 0 < len(DESCRIPTIONS[name].encode()) < 2048


@pytest.mark.parametrize(
    ("name", "tools"),
    [
        pytest.param("SUBAGENT_SYSTEM_PROMPT", {"ask_parent"}, id="a subagent asks its parent"),
        pytest.param("DUAL_MODE_SYSTEM_PROMPT", {"wait_tasks", "check_task"}, id="background work is collected"),
        pytest.param("DEFAULT_GENERAL_PURPOSE_DESCRIPTION", set[str](), id="a subagent is described without tools"),
        pytest.param(
            "TASK_TOOL_DESCRIPTION",
            {"wait_tasks", "check_task", "answer_subagent"},
            id="a task is waited for, looked at, answered",
        ),
        pytest.param("CHECK_TASK_DESCRIPTION", {"wait_tasks"}, id="to wait, do not poll"),
        pytest.param("ANSWER_SUBAGENT_DESCRIPTION", {"send_message_to_subagent", "task"}, id="unasked, send a message"),
        pytest.param("LIST_ACTIVE_TASKS_DESCRIPTION", {"check_task"}, id="an ended task is looked at"),
        pytest.param("WAIT_TASKS_DESCRIPTION", {"answer_subagent"}, id="a question that comes up is answered"),
        pytest.param("SOFT_CANCEL_TASK_DESCRIPTION", set[str](), id="a soft cancel comes first"),
        pytest.param("HARD_CANCEL_TASK_DESCRIPTION", {"soft_cancel_task"}, id="a hard cancel comes after a soft one"),
    ],
)
def test_a_text_names_the_tools_that_come_next(name: str, tools: set[str]):
    assert set(re.findall(r"`(\w+)`", TEXTS[name])) & TOOLS == tools


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_text_names_no_tool_that_there_is_not(name: str):
    like_a_tool = re.findall(r"`(\w+_(?:tasks?|subagent|parent))`", TEXTS[name])
    assert set(like_a_tool) <= TOOLS
