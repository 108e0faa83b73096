"""What kind of answer came."""

from typing import Any


def kind_of(message: dict[str, Any]) -> str:
    """What kind of answer it is."""
    assert message["jsonrpc"] == "2.0"
    if "error" in message:
        return f"error {message['error']['code']}"
    if "result" in message:
        return "tool error" if message["result"].get("isError") else "result"
    return message["method"]
