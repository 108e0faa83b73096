"""A run that meets a 502, a rate limit and a broken stream, and still does nothing twice.

The real OpenAI client talks to a gateway on loopback that plays a script: the model calls a tool, then a proxy answers
502, then the rate limit is reached for a fifth of a second, then the answer breaks off in mid-stream, then it arrives
whole. It needs no network and no key, only the extra `openai`.

Run it: python examples/retry_and_resume.py

Prints:

    retry 1 after 0.05 s: ModelServerError
    retry 2 after 0.20 s: ModelRateLimitError
    retry 3 after 0.05 s: ModelConnectionError
    answer: There are 12 open invoices.
    HTTP requests: 5
    the tool ran: 1 time
    the prompt is in the last request: 1 time
    tokens in: 50 + 80 = 130
"""

from collections.abc import AsyncIterable

import anyio
from pydantic_ai import Agent, AgentStreamEvent, RunContext

from mcp_subagents import RetryConfig, run_with_retry
from mcp_subagents.testing import CutStream, Gateway, Status, Text, ToolCall, ToolCalls, rate_limited

PROMPT = "How many invoices are open?"
ANSWER = Text("There are 12 open invoices.", usage=(80, 9))

SCRIPT = [
    ToolCalls([ToolCall("count_invoices", {"status": "open"})], usage=(50, 6)),
    Status(502, html=True),
    rate_limited(ms=200),
    CutStream(ANSWER, after_events=3),
    ANSWER,
]


async def main() -> None:
    ran: list[str] = []

    def count_invoices(status: str) -> int:
        """Count the invoices that have this status."""
        ran.append(status)
        return 12

    async def watch(_: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
        # With a handler the answers are streamed, as a host that shows progress would do it.
        async for _event in events:
            pass

    def say(attempt: int, exc: BaseException, delay: float) -> None:
        print(f"retry {attempt} after {delay:.2f} s: {type(exc).__name__}")

    async with Gateway(SCRIPT) as gateway:
        result = await run_with_retry(
            Agent(gateway.openai_model(), tools=[count_invoices]),
            PROMPT,
            run_kwargs={},
            retry=RetryConfig(initial_delay=0.05, max_delay=0.05, jitter=False),
            on_retry=say,
            event_stream_handler=watch,
        )

    last = gateway.requests[-1].body["messages"]
    print(f"answer: {result.output}")
    print(f"HTTP requests: {len(gateway.requests)}")
    print(f"the tool ran: {len(ran)} time")
    print(f"the prompt is in the last request: {str(last).count(PROMPT)} time")
    print(f"tokens in: 50 + 80 = {result.usage.input_tokens}")


if __name__ == "__main__":
    anyio.run(main)
