"""One trace for each delegation: from the call that asked for it, through its attempts, to their turns and tools.

Spans go to whatever tracer provider the process has. Without one, which is the default, nothing is recorded and
hardly anything is done.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mcp_subagents.records import TaskRecord
from mcp_subagents.types import TaskStatus

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_SILENT = (trace.ProxyTracerProvider, trace.NoOpTracerProvider)
_CARRIER = "traceparent"
_propagator = TraceContextTextMapPropagator()


def is_on() -> bool:
    """Whether anybody takes spans."""
    return not isinstance(trace.get_tracer_provider(), _SILENT)


def current_trace() -> str:
    """Where we are in a trace, to be stored with a task; empty outside one."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get(_CARRIER, "")


def note_status(span: "Span", status: TaskStatus) -> None:
    """Say on the span of an attempt how the task stands after it."""
    span.set_attribute("mcp_subagents.task.status", status)
    if status is TaskStatus.FAILED:
        span.set_status(trace.StatusCode.ERROR)


@contextmanager
def attempt_span(record: TaskRecord) -> "Generator[Span]":
    """The span of an attempt, in the trace of the call that delegated the task, whichever process took that."""
    handle = record.handle
    with trace.get_tracer("mcp-subagents").start_as_current_span(
        f"attempt {handle.subagent_name}",
        context=_propagator.extract({_CARRIER: record.trace}),
        attributes={
            "mcp_subagents.task.id": handle.task_id,
            "mcp_subagents.subagent": handle.subagent_name,
            "mcp_subagents.attempt": handle.attempt,
        },
    ) as span:
        yield span
