"""Read a failure: what kind it is, what was done until then, and what to do instead.

A scripted model says something, calls a tool, and then meets one of four bad ends: an overloaded provider, an empty
account, an answer that is cut off, the limit on its requests. `failure_of` turns each exception into a `TaskFailure`.

Run it: python examples/structured_failure.py

Prints:

    transient: The model provider is unavailable (HTTP 503).
      retries: 2; worth delegating again: yes
      attempted: 1 turn, tools called: search. Last: asking the model, with what search returned.
      partial results: First, the studies.
      or: Delegate the same task again later.
      or: Give it to another subagent: librarian.
    permanent: The account with the model provider has no quota or credit left (HTTP 429).
      retries: 0; worth delegating again: no
      attempted: 1 turn, tools called: search. Last: asking the model, with what search returned.
      partial results: First, the studies.
      or: Tell the user to top up the account with the model provider, or to raise its spending limit.
      or: Give it to another subagent: librarian.
    limit: The answer was cut off at the model's output limit; raise `max_tokens`, or ask for less at a time.
      retries: 0; worth delegating again: no
      attempted: 1 turn, tools called: search. Last: asking the model, with what search returned.
      partial results: First, the studies. / The two studies disagree because
      or: Ask for less at a time, or have `max_tokens` raised.
      or: Give it to another subagent: librarian.
    limit: A usage limit was reached: at most 2 model requests.
      retries: 0; worth delegating again: no
      attempted: 2 turns, tools called: search x2. Last: asking the model, with what search returned.
      partial results: First, the studies.
      or: Ask for a smaller piece of the work, or have the limit raised.
      or: Give it to another subagent: librarian.
"""

import anyio
from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart, UsageLimits
from pydantic_ai.exceptions import ModelHTTPError

from mcp_subagents import RetryConfig, TaskFailure, failure_of, run_with_retry
from mcp_subagents.testing import ScriptedModel

FIRST_TURN = ModelResponse(parts=[TextPart("First, the studies."), ToolCallPart("search", {"query": "studies"})])

OVERLOADED = ModelHTTPError(503, "scripted")
OUT_OF_CREDIT = ModelHTTPError(429, "scripted", {"error": {"code": "insufficient_quota"}})
CUT_OFF = ModelResponse(parts=[TextPart("The two studies disagree because")], finish_reason="length")
SEARCH_AGAIN = ModelResponse(parts=[ToolCallPart("search", {"query": "a third study"})])

PARAGRAPH = "\n\n"


def search(query: str) -> str:
    """Search the library."""
    return f"two results for {query!r}"


async def failure_by(end: ModelResponse | ModelHTTPError) -> TaskFailure:
    model = ScriptedModel(FIRST_TURN, end, end, end)
    try:
        await run_with_retry(
            Agent(model, tools=[search]),
            "Compare the studies.",
            run_kwargs={"usage_limits": UsageLimits(request_limit=2)},
            retry=RetryConfig(max_retries=2, initial_delay=0.01),
        )
    except Exception as exc:
        return failure_of(exc, other_subagents=["librarian"])
    raise AssertionError("every end here is a bad one")


async def main() -> None:
    for end in (OVERLOADED, OUT_OF_CREDIT, CUT_OFF, SEARCH_AGAIN):
        failure = await failure_by(end)
        print(f"{failure.failure_type}: {failure.message}")
        print(f"  retries: {failure.retries}; worth delegating again: {'yes' if failure.is_retryable else 'no'}")
        print(f"  attempted: {failure.attempted}")
        print(f"  partial results: {' / '.join(failure.partial_results.split(PARAGRAPH))}")
        for alternative in failure.alternatives:
            print(f"  or: {alternative}")


if __name__ == "__main__":
    anyio.run(main)
