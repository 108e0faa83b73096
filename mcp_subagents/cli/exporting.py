"""Sends the traces of this process where OpenTelemetry's own variables say, if it was asked to."""

from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from threading import Thread
from typing import TYPE_CHECKING

from mcp_subagents.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

LAST_SPANS = 1.0
"""Seconds for what is left to send when the process leaves: a collector that is gone must not keep us."""


@contextmanager
def exporting(asked: bool) -> Generator[None]:
    """Export the traces of the block, if `asked`. Raises: `ConfigError` without the packages that do it."""
    if not asked:
        yield
        return
    provider = _provider()
    try:
        yield
    finally:
        last = Thread(target=provider.shutdown, daemon=True, name="last spans")
        last.start()
        last.join(LAST_SPANS)


def _provider() -> "TracerProvider":
    from opentelemetry import trace

    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as exc:
        raise ConfigError(
            "MCP_SUBAGENTS_TELEMETRY is set, but what exports traces is not installed: "
            "pip install 'mcp-subagents[otel]', or unset it."
        ) from exc
    about = {"service.name": "mcp-subagents", "service.version": version("mcp-subagents")}
    provider = TracerProvider(resource=Resource.create(about))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider
