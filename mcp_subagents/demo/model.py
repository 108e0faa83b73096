"""The model `demo`: a script that stands in for a provider, so that everything else can be tried without one."""

import os
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any, assert_never

import anyio
import httpx2
from pydantic_ai import Tool
from pydantic_ai import exceptions as pai
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from mcp_subagents.config.providers import DEMO
from mcp_subagents.demo.conversation import conversation_of, texts_of, tokens_in
from mcp_subagents.demo.replies import ASK, STEP, Ask, Refuse, Reply, Say, Step, reply_to

PROCESS = "x-process"
"""The header in which a gateway reads which process asks."""
_TIMEOUT = 300.0
"""Seconds for one request to a gateway."""


async def take_step(note: str) -> str:
    """Go on with the next step of the work."""
    return "Go on."


STEP_TOOL = Tool[Any](take_step, name=STEP, metadata={"read_only": True})
"""What gives a task of this model several turns. It changes nothing, so it may run twice."""


class DemoModel(FunctionModel):
    """Answers by the rule of `replies`, or asks a gateway at `base_url` what to answer.

    Tokens are estimated. They cost nothing, and that is known: `cost_usd` is zero.
    """

    def __init__(self, base_url: str | None = None, *, sleep: Callable[[float], Awaitable[None]] = anyio.sleep) -> None:
        self._address = base_url
        self._sleep = sleep
        super().__init__(self._answer, model_name=DEMO)

    @property
    def system(self) -> str:
        return DEMO

    @property
    def base_url(self) -> str | None:
        return self._address

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        response = await super().request(messages, model_settings, model_request_parameters)
        response.usage.cost = Decimal(0)
        return response

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if self._address is not None:
            response = await _asked_at(self._address, messages)
        else:
            asked = conversation_of(messages)
            reply = reply_to(asked, {tool.name for tool in info.function_tools})
            if isinstance(reply, Step):
                await self._sleep(reply.seconds)
            if isinstance(reply, Say) and info.output_tools:
                # Any value that has the right shape: who asks for one, looks at the shape.
                shaped = await TestModel(call_tools=[]).request([], None, info.model_request_parameters)
                response = ModelResponse(parts=shaped.parts)
            else:
                response = response_of(reply, turn=asked.turns + 1)
        response.usage = RequestUsage(
            input_tokens=tokens_in(info.instructions or "", *texts_of(messages)),
            output_tokens=tokens_in(*texts_of([response])),
        )
        return response


def response_of(reply: Reply, *, turn: int) -> ModelResponse:
    """`reply` as a model gives it. Raises: `ModelHTTPError`, if it is a refusal."""
    match reply:
        case Say():
            return ModelResponse(parts=[TextPart(reply.text)])
        case Ask():
            return ModelResponse(parts=[_call(ASK, turn, question=reply.question)])
        case Step():
            return ModelResponse(parts=[TextPart(reply.text), _call(STEP, turn, note=reply.text)])
        case Refuse():
            raise pai.ModelHTTPError(
                reply.status, DEMO, {"error": {"message": "The task asked the demo model to fail."}}
            )
        case _:
            assert_never(reply)


def _call(tool: str, turn: int, **arguments: str) -> ToolCallPart:
    return ToolCallPart(tool, arguments, tool_call_id=f"turn-{turn}")


async def _asked_at(address: str, messages: list[ModelMessage]) -> ModelResponse:
    """What a gateway answers. Both ways goes pydantic-ai's own JSON.

    Raises:
        ModelAPIError: it refuses, or cannot be reached.
        UnexpectedModelBehavior: it talks nonsense.
    """
    headers = {"content-type": "application/json", PROCESS: str(os.getpid())}
    # To load certificates takes longer than a whole answer, and a plain connection has no use for them.
    encrypted = address.startswith("https:")
    try:
        async with httpx2.AsyncClient(timeout=_TIMEOUT, verify=encrypted, trust_env=encrypted) as client:
            answer = await client.post(address, content=ModelMessagesTypeAdapter.dump_json(messages), headers=headers)
    except httpx2.TransportError as why:
        raise pai.ModelConnectionError(DEMO, f"{type(why).__name__}: {why}") from why
    if answer.is_error:
        raise pai.ModelHTTPError(answer.status_code, DEMO, answer.text, headers=dict(answer.headers))
    try:
        [response] = ModelMessagesTypeAdapter.validate_json(answer.content)
    except ValueError as why:
        raise pai.UnexpectedModelBehavior("Invalid response from the gateway of the demo model") from why
    if not isinstance(response, ModelResponse):
        raise pai.UnexpectedModelBehavior("Invalid response from the gateway of the demo model")
    return response
