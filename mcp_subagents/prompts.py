"""The words that models read: what a subagent is told, and what a host is told about delegating.

The `*_DESCRIPTION` texts become descriptions of MCP tools. Some hosts cut those at 2 KB, so each stays below.
"""

from collections.abc import Sequence

from mcp_subagents.config.subagent import SubAgentConfig

SUBAGENT_SYSTEM_PROMPT = """\
You are a subagent: another agent, your parent, has handed you one task to carry out on your own.

- Everything you know of the task is in its description. You do not see your parent's conversation, and your parent \
sees nothing of your work but your final answer. Put all that matters into it.
- Stay with the task. Finish all of it; do not start on others.
- Prefer a sensible assumption, stated in your answer, to a question. If a wrong guess would spoil the work, ask with \
`ask_parent`: one specific question, with the choices you see.
- If you cannot finish, say so plainly: what you tried, what stopped you, and what you found out until then. A partial \
answer that says it is partial is worth more than a whole one that is made up.
"""

DUAL_MODE_SYSTEM_PROMPT = """\
## Waiting, or working in the background

A task runs in one of two ways:

- `sync` (the default): you wait and get the result. For short tasks, for a result your very next step needs, and for \
work with a lot of back and forth.
- `async`: you get a task id at once and the subagent works on by itself. For long tasks, and for several tasks side \
by side. Collect the results with `wait_tasks` or look in with `check_task`.

With `auto`, the choice is made from what you say about the task. A result is never lost: it stays readable under its \
task id, whichever way you chose.
"""

DEFAULT_GENERAL_PURPOSE_DESCRIPTION = """\
Takes on any self-contained piece of work: looking things up, analysing, writing, solving a problem step by step. \
Choose it when no subagent with a narrower purpose fits.\
"""

TASK_TOOL_DESCRIPTION = """\
Hand a piece of work to a subagent, which carries it out on its own and reports back.

Use it for work with several steps that can be described once and needs no supervision; to explore or research \
something without filling your own context; and for independent pieces of work side by side: make several calls in \
one turn, with mode "async".

Do not use it for what takes you a single step, for work that depends on this whole conversation, or to pass on a \
question only the user can answer.

The subagent sees nothing but `description`. Write it like a letter to a stranger: the goal, every name, path, \
number and constraint it needs, and the form the answer should have. Pick `subagent_type` by what it is good for.

`mode`:
- "sync" (default): wait for the result. If it takes longer than your app can wait, you get the task id instead and \
the work goes on.
- "async": get the task id at once and go on with something else.
- "auto": chosen from `complexity` and the other hints.

Next: with a result, check it before you rely on it. With a task id, `wait_tasks` (several at once) or \
`check_task`. If the task asks something, `answer_subagent`. If it failed, `failure` says whether trying again helps, \
what was found until then, and what else you could do.
"""

CHECK_TASK_DESCRIPTION = """\
Say where a task stands, without waiting: its status, what it is doing, what it has cost, the questions it asks, and \
its result or failure once it has ended. Results stay readable, so ask as often as you like; but to wait for a task, \
call `wait_tasks` once instead of calling this again and again.\
"""

ANSWER_SUBAGENT_DESCRIPTION = """\
Answer the question of a task whose status is `waiting_for_answer`, so that it can go on. Answer from what you know; \
ask the user first if only they can tell. When a task has several questions open, name the one you mean with \
`question_id`; it goes on when all are answered. For a sync task this call then waits for the result, like `task` \
does. To tell a running task something it did not ask for, use `send_message_to_subagent`.\
"""

SEND_MESSAGE_DESCRIPTION = """\
Tell a running task something it did not ask for: a correction, a new fact, a change of course. It reads the message \
with its next turn and goes on from there; nothing it has done is lost. To answer its question, use `answer_subagent`; \
to stop it, `soft_cancel_task`. A task that has ended takes no more messages.\
"""

LIST_ACTIVE_TASKS_DESCRIPTION = """\
List the tasks that have not ended: waiting in the queue, running, retrying, or waiting for an answer from you. Use \
it to find task ids again, or to see whether anything needs you. Ended tasks are not listed; `check_task` still \
shows them.\
"""

WAIT_TASKS_DESCRIPTION = """\
Wait for tasks to end (completed, failed or cancelled) and get all they have to say.

- mode "all" (default): return when every task has ended. For when you need the results together.
- mode "any": return as soon as one has ended. For acting on each result as it comes: use it, then wait for the rest.

It returns earlier when a task asks something, since that task waits for you (`answer_subagent`), and when `timeout` \
seconds or your app's patience are over. Nothing is lost or stopped by that: the tasks go on, and you can wait again.

The answer has every task you named, as it stands now, and how many of them have ended.
"""

SOFT_CANCEL_TASK_DESCRIPTION = """\
Ask a task to stop at its next turn. What it is doing right now is finished and kept; a task that is queued, waiting \
for an answer or between retries stops at once. What it found until then comes back as partial results. This is the \
usual way to stop a task.\
"""

HARD_CANCEL_TASK_DESCRIPTION = """\
Stop a task now, in the middle of whatever it is doing. A tool call under way is abandoned and may have taken effect \
halfway. Finished turns are kept as partial results. Use it when `soft_cancel_task` takes too long or the task is \
doing harm.\
"""


def get_subagent_system_prompt(configs: Sequence[SubAgentConfig], include_dual_mode: bool = True) -> str:
    """The section of a host's prompt that lists the subagents it can delegate to."""
    roster = ["## Subagents", ""]
    if configs:
        roster += ["Delegate work with the `task` tool; its `subagent_type` is one of these names:", ""]
        roster += [_roster_line(config) for config in configs]
    else:
        roster.append("There is none to delegate to: do all the work yourself.")
    if include_dual_mode:
        roster += ["", DUAL_MODE_SYSTEM_PROMPT.rstrip()]
    return "\n".join(roster)


def get_task_instructions_prompt(
    task_description: str, can_ask_questions: bool = True, max_questions: int | None = None
) -> str:
    """What a subagent is told when it is given a task."""
    return "\n".join(["## Your task", "", task_description, "", *_about_questions(can_ask_questions, max_questions)])


def first_prompt(config: SubAgentConfig, task_description: str) -> str:
    """The prompt with which the subagent is given a task."""
    may_ask = config.get("can_ask_questions", True)
    return get_task_instructions_prompt(task_description, may_ask, config.get("max_questions"))


def _roster_line(config: SubAgentConfig) -> str:
    purpose = _in_one_line(config.get("description")) or "(no description)"
    silent = " (asks no questions)" if config.get("can_ask_questions") is False else ""
    return f"- **{_in_one_line(config.get('name'))}**: {purpose}{silent}"


def _in_one_line(text: str | None) -> str:
    # A line of its own would read like another subagent.
    return " ".join((text or "").split())


def _about_questions(allowed: bool, most: int | None) -> list[str]:
    if not allowed or (most is not None and most <= 0):
        return [
            "## No questions",
            "",
            "Nobody can answer questions now. Decide for yourself, and state in your answer what you assumed.",
        ]
    lines = ["## If something is unclear", "", "Ask with `ask_parent`, and only what you cannot decide for yourself."]
    if most is not None:
        lines.append(f"You can ask {most} {'question' if most == 1 else 'questions'} at most.")
    return lines
