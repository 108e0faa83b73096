"""Asking the user of a host what a subagent asks: by a call back, or by an answer that asks, as the protocol has it."""

from typing import Any

import anyio
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from mcp_subagents.errors import NotWaiting
from mcp_subagents.server.calls import Call
from mcp_subagents.types import TaskHandle
from mcp_subagents.views import QuestionView, open_questions

_FORM = {"type": "object", "properties": {"answer": {"type": "string", "title": "Answer"}}, "required": ["answer"]}


async def ask_now(call: Call, task: TaskHandle, seconds: float) -> bool:
    """Ask the user, one question after another, and pass the answers on. False if one stays open."""
    session = call.context.request_context.session
    with anyio.move_on_after(seconds):
        for question in open_questions(task):
            said = await session.elicit_form(
                _message(task, question), _FORM, related_request_id=call.context.request_context.request_id
            )
            if not await pass_on(call, task.task_id, question.question_id, said):
                return False
        return True
    return False


def ask_by_return(task: TaskHandle) -> InputRequiredResult:
    """What to return so that the host asks its user and calls again."""
    return InputRequiredResult(
        input_requests={question.question_id: _request(task, question) for question in open_questions(task)},
        request_state=task.task_id,
    )


async def answers_by_return(call: Call, task_id: str) -> bool:
    """Pass on the answers that the host has come back with, if it has. False if it came back without one."""
    if call.context.request_state is None:
        return True
    said = call.context.input_responses or {}
    passed = [await pass_on(call, task_id, question_id, answer) for question_id, answer in said.items()]
    return bool(passed) and all(passed)


async def pass_on(call: Call, task_id: str, question_id: str, said: object) -> bool:
    """Tell the task what the user said. False if that is no answer."""
    if not isinstance(said, ElicitResult) or said.action != "accept":
        return False
    answer = (said.content or {}).get("answer")
    if not isinstance(answer, str) or not answer.strip():
        return False
    try:
        await call.engine.answer(task_id, answer, question_id=question_id, owner=call.owner)
    except NotWaiting:
        # Somebody else was faster, or the question has run out: how the task stands now says it all.
        return True
    return True


def form_request(task: TaskHandle, question: QuestionView) -> dict[str, Any]:
    """The question as a request that a client can put to its user."""
    return _request(task, question).model_dump(by_alias=True, mode="json", exclude_none=True)


def _request(task: TaskHandle, question: QuestionView) -> ElicitRequest:
    form = ElicitRequestFormParams(message=_message(task, question), requested_schema=_FORM)
    return ElicitRequest(params=form)


def _message(task: TaskHandle, question: QuestionView) -> str:
    return f"The subagent {task.subagent_name!r} asks: {question.question}"
