"""Asking the user of a host what a subagent asks: by a call back, or by an answer that asks, as the protocol has it."""

import logging
from contextlib import suppress
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import ValidationError

from mcp_subagents.arguments import LONGEST_TEXT
from mcp_subagents.errors import NotWaiting, SubagentsError
from mcp_subagents.server.calls import Call
from mcp_subagents.texts import brief
from mcp_subagents.types import TaskHandle
from mcp_subagents.views import QuestionView, open_questions

logger = logging.getLogger(__name__)

_FORM = {"type": "object", "properties": {"answer": {"type": "string", "title": "Answer"}}, "required": ["answer"]}


async def ask_now(call: Call, task: TaskHandle, seconds: float) -> None:
    """Ask the user, one question after another, and pass the answers on.

    That ends when there is nothing more to ask: the task was answered elsewhere, cancelled, or has waited too long.
    """
    trouble: SubagentsError | None = None
    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as group:

            async def heed_others() -> None:
                with suppress(SubagentsError):
                    await call.engine.answered(task.task_id, owner=call.owner)
                    group.cancel_scope.cancel()

            group.start_soon(heed_others, name="answers from elsewhere")
            try:
                await _ask(call, task)
            except SubagentsError as exc:
                trouble = exc  # raised outside, or the task group would wrap it
            group.cancel_scope.cancel()
    if trouble is not None:
        raise trouble


async def _ask(call: Call, task: TaskHandle) -> None:
    for question in open_questions(task):
        said = await _said(call, _message(task, question))
        if not await pass_on(call, task.task_id, question.question_id, said):
            return


async def _said(call: Call, message: str) -> ElicitResult | None:
    request = call.context.request_context
    try:
        return await request.session.elicit_form(message, _FORM, related_request_id=request.request_id)
    except (MCPError, ValidationError) as exc:
        # It said that it could, but did not: the model gets the question then.
        logger.warning("the host could not ask its user: %s", brief(str(exc)))
        return None


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
    if not isinstance(answer, str) or not answer.strip() or len(answer) > LONGEST_TEXT:
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
