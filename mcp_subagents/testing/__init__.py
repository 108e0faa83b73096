"""What you need to test your own subagents without a model provider."""

from mcp_subagents.testing.gateway import Gateway
from mcp_subagents.testing.host import Host, host
from mcp_subagents.testing.models import Line, ScriptedModel
from mcp_subagents.testing.script import (
    CloseEarly,
    CutBody,
    CutStream,
    Drip,
    Hang,
    ProviderError,
    Raw,
    Received,
    Reply,
    Reset,
    Script,
    Status,
    StreamError,
    Text,
    ToolCall,
    ToolCalls,
    rate_limited,
)

__all__ = [
    "CloseEarly",
    "CutBody",
    "CutStream",
    "Drip",
    "Gateway",
    "Hang",
    "Host",
    "Line",
    "ProviderError",
    "Raw",
    "Received",
    "Reply",
    "Reset",
    "Script",
    "ScriptedModel",
    "Status",
    "StreamError",
    "Text",
    "ToolCall",
    "ToolCalls",
    "host",
    "rate_limited",
]
