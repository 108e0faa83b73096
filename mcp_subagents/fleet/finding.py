"""From what somebody types to the task that is meant."""

from contextlib import suppress

from mcp_subagents.errors import NoSuchQuestion, NoTaskLike, SeveralTasksLike, UnknownTask
from mcp_subagents.records import TaskRecord
from mcp_subagents.store import Query, Store
from mcp_subagents.texts import encodable, first_line
from mcp_subagents.types import Question, TaskHandle, TaskStatus

_MOST_NAMED = 5
SHORT = 8
"""Characters of an id that tell it from all others, unless somebody has tasks by the billion."""


async def find(store: Store, given: str) -> TaskRecord:
    """The task whose id is `given`, or else the only one whose id begins with it.

    Raises: `NoTaskLike`, `SeveralTasksLike`.
    """
    given = encodable(given)
    with suppress(UnknownTask):
        return await store.read(given)
    found = await store.select(Query(prefix=given, limit=_MOST_NAMED + 1))
    if not found or not given:
        raise NoTaskLike(given)
    if len(found) == 1:
        return found[0]
    named = [record.task_id for record in found[:_MOST_NAMED]]
    raise SeveralTasksLike(given, named, more=len(found) > _MOST_NAMED)


def waiting_questions(task: TaskHandle) -> list[Question]:
    """What the task waits to be told."""
    if task.status is not TaskStatus.WAITING_FOR_ANSWER:
        return []
    return [each for each in task.questions if each.answer is None]


def question_meant(task: TaskHandle, given: str) -> Question:
    """The open question that `given` means: by its id, or by its number from 1 on; the only one if nothing is given.

    Raises: `NoSuchQuestion`.
    """
    waiting = waiting_questions(task)
    numbered = {str(number): each for number, each in enumerate(waiting, start=1)}
    meant = waiting if not given else [each for each in waiting if each.question_id == given]
    if given in numbered and not meant:
        meant = [numbered[given]]
    if len(meant) != 1:
        raise NoSuchQuestion(task.task_id, task.status, given, [first_line(each.text) for each in waiting])
    return meant[0]
