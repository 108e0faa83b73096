"""Whether a model answers: one tiny request, how long it took and what it cost."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import anyio
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from mcp_subagents.faults import classify
from mcp_subagents.verdicts import Fault

_QUESTION = "Reply with the word ok."
_MOST_TOKENS = 16
"""The least that every provider accepts as a limit; an answer that is cut off there is as good as any."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The model answered."""

    seconds: float
    cost_usd: Decimal | None
    """`None` if its price is not known."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It did not."""

    why: str
    remedy: str


async def ask(model: Model, *, patience: float, clock: Callable[[], float] = time.perf_counter) -> Answered | Refused:
    """Ask `model` once, for no more than `patience` seconds. What goes wrong is told, and not raised."""
    began = clock()
    try:
        with anyio.fail_after(patience):
            response = await model_request(
                model,
                [ModelRequest.user_text_prompt(_QUESTION)],
                model_settings=ModelSettings(max_tokens=_MOST_TOKENS),
            )
    except TimeoutError:
        return Refused(f"did not answer within {patience:g} seconds", "Look whether its provider is up, and try again.")
    except Exception as exc:
        fault = classify(exc)
        return Refused(fault.message, _for_a_person(fault))
    return Answered(clock() - began, _cost(response))


def _cost(response: ModelResponse) -> Decimal | None:
    if response.usage.cost is not None:
        return response.usage.cost
    try:
        return response.cost().total_price
    except LookupError:
        return None


_TO_A_MODEL = "Tell the user to "


def _for_a_person(fault: Fault) -> str:
    """What would help, said to the user and not to a model that has one."""
    if fault.remedy.startswith(_TO_A_MODEL):
        told = fault.remedy.removeprefix(_TO_A_MODEL)
        return f"{told[0].upper()}{told[1:]}"
    if fault.is_transient:
        return "Try again in a while; if it stays so, look whether the provider is up and its address is right."
    return "Look at the model and the settings of the subagents that use it."
