"""The two wire formats: OpenAI's Chat Completions and Anthropic's Messages."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol
from uuid import uuid4

from mcp_subagents.testing.script import Answer, ErrorKind, ToolCall, WireName

Split = Callable[[str], Iterable[str]]
Request = Mapping[str, Any]

_TOLD = "The gateway was told to fail."


class Wire(Protocol):
    """How one provider writes answers and errors. Each method is told the JSON body of the request."""

    def message(self, answer: Answer, request: Request) -> dict[str, Any]:
        """The answer in one piece."""
        ...

    def events(self, answer: Answer, request: Request, split: Split) -> Iterator[bytes]:
        """The answer as server-sent events; texts and arguments come as `split` cuts them."""
        ...

    def error(self, error_type: str) -> dict[str, Any]:
        """An error of this type, as the body of a response or as an event in a stream."""
        ...

    def status_error(self, status: int) -> dict[str, Any]:
        """The error that usually comes with this status."""
        ...

    def provider_error(self, kind: ErrorKind) -> tuple[int, dict[str, Any]]:
        """The status and the body by which this provider reports it."""
        ...


def in_tokens(text: str) -> Iterable[str]:
    """Cut as a model would: some four characters a piece, but some fifty pieces at most."""
    size = max(4, len(text) // 50)
    return (text[start : start + size] for start in range(0, len(text), size))


class OpenAI:
    """Chat Completions."""

    def message(self, answer: Answer, request: Request) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None, "annotations": []}
        if answer.calls:
            message["content"] = answer.text or None
            message["tool_calls"] = [self._call(call, _arguments(call)) for call in answer.calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish}
        return self._stamp("chat.completion", request) | {"choices": [choice], "usage": self._usage(answer)}

    def events(self, answer: Answer, request: Request, split: Split) -> Iterator[bytes]:
        stamp = self._stamp("chat.completion.chunk", request)

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return event(stamp | {"choices": [choice]})

        yield chunk({"role": "assistant", "content": None if answer.calls else "", "refusal": None})
        for piece in split(answer.text):
            yield chunk({"content": piece})
        for index, call in enumerate(answer.calls):
            yield chunk({"tool_calls": [{"index": index, **self._call(call, "")}]})
            for piece in split(_arguments(call)):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, answer.finish)
        options: Mapping[str, Any] = request.get("stream_options") or {}
        if options.get("include_usage"):
            yield event(stamp | {"choices": [], "usage": self._usage(answer)})
        yield b"data: [DONE]\n\n"

    def error(self, error_type: str, message: str = _TOLD, code: str | None = None) -> dict[str, Any]:
        return {"error": {"message": message, "type": error_type, "param": None, "code": code}}

    def status_error(self, status: int) -> dict[str, Any]:
        error_type, code = {
            401: ("invalid_request_error", "invalid_api_key"),
            404: ("invalid_request_error", "model_not_found"),
            429: ("requests", "rate_limit_exceeded"),
        }.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
        return self.error(error_type, code=code)

    def provider_error(self, kind: ErrorKind) -> tuple[int, dict[str, Any]]:
        status, error_type, message = _OPENAI_ERRORS[kind]
        return status, self.error(error_type, message, kind)

    def _stamp(self, kind: str, request: Request) -> dict[str, Any]:
        stamp = {"id": _fresh("chatcmpl-"), "object": kind, "created": int(time.time())}
        return stamp | {"model": request["model"], "service_tier": "default"}

    def _call(self, call: ToolCall, arguments: str) -> dict[str, Any]:
        function = {"name": call.name, "arguments": arguments}
        return {"id": call.id or _fresh("call_"), "type": "function", "function": function}

    def _usage(self, answer: Answer) -> dict[str, int]:
        tokens_in, tokens_out = answer.usage
        return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}


class Anthropic:
    """Messages."""

    def message(self, answer: Answer, request: Request) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
        content += [{**self._call(call), "input": self._input(call)} for call in answer.calls]
        return self._opening(answer, request) | {
            "content": content,
            "stop_reason": _STOP_REASONS[answer.finish],
            "usage": self._usage(answer.usage[0], answer.usage[1]),
        }

    def events(self, answer: Answer, request: Request, split: Split) -> Iterator[bytes]:
        blocks: list[tuple[dict[str, Any], str, str, str]] = []
        if answer.text:
            blocks.append(({"type": "text", "text": ""}, "text_delta", "text", answer.text))
        for call in answer.calls:
            blocks.append(({**self._call(call), "input": {}}, "input_json_delta", "partial_json", _arguments(call)))

        yield event({"type": "message_start", "message": self._opening(answer, request)})
        for index, (block, delta_type, key, content) in enumerate(blocks):
            yield event({"type": "content_block_start", "index": index, "content_block": block})
            for piece in split(content):
                yield event({"type": "content_block_delta", "index": index, "delta": {"type": delta_type, key: piece}})
            yield event({"type": "content_block_stop", "index": index})
        delta = {"stop_reason": _STOP_REASONS[answer.finish], "stop_sequence": None}
        yield event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": answer.usage[1]}})
        yield event({"type": "message_stop"})

    def error(self, error_type: str, message: str = _TOLD) -> dict[str, Any]:
        return {"type": "error", "error": {"type": error_type, "message": message}, "request_id": _fresh("req_")}

    def status_error(self, status: int) -> dict[str, Any]:
        types = {code: error_type for error_type, code in _STATUS_OF_TYPE.items()}
        error_type = types.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return self.error(error_type)

    def provider_error(self, kind: ErrorKind) -> tuple[int, dict[str, Any]]:
        status, error_type, message = _ANTHROPIC_ERRORS[kind]
        return status, self.error(error_type, message)

    def _opening(self, answer: Answer, request: Request) -> dict[str, Any]:
        opening = {"id": _fresh("msg_"), "type": "message", "role": "assistant", "model": request["model"]}
        usage = self._usage(answer.usage[0], 1)
        return {**opening, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}

    def _call(self, call: ToolCall) -> dict[str, Any]:
        return {"type": "tool_use", "id": call.id or _fresh("toolu_"), "name": call.name}

    def _input(self, call: ToolCall) -> object:
        # Broken JSON has no place in an object; as a string it still reaches the agent as it is.
        try:
            return json.loads(_arguments(call))
        except ValueError:
            return call.args

    def _usage(self, tokens_in: int, tokens_out: int) -> dict[str, int]:
        cache = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        return {"input_tokens": tokens_in, "output_tokens": tokens_out} | cache


WIRES: Final[Mapping[WireName, Wire]] = {"openai": OpenAI(), "anthropic": Anthropic()}

_OPENAI_ERRORS: Mapping[ErrorKind, tuple[int, str, str]] = {
    "insufficient_quota": (429, "insufficient_quota", "You exceeded your current quota, please check your plan."),
    "context_length_exceeded": (400, "invalid_request_error", "This model's maximum context length is 128000 tokens."),
    "invalid_api_key": (401, "invalid_request_error", "Incorrect API key provided."),
}
# Anthropic has one type for the first two; the words tell them apart.
_ANTHROPIC_ERRORS: Mapping[ErrorKind, tuple[int, str, str]] = {
    "insufficient_quota": (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    "context_length_exceeded": (400, "invalid_request_error", "prompt is too long: 212345 tokens > 200000 maximum"),
    "invalid_api_key": (401, "authentication_error", "invalid x-api-key"),
}
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool_use"}
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def status_of(error_type: str) -> int:
    """The status a provider would have sent, had it known before the stream began."""
    return _STATUS_OF_TYPE.get(error_type, 500)


def event(data: Mapping[str, Any]) -> bytes:
    """One server-sent event; Anthropic's are named by their type, OpenAI's have neither."""
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()


def _arguments(call: ToolCall) -> str:
    return call.args if isinstance(call.args, str) else json.dumps(call.args)


def _fresh(prefix: str) -> str:
    return prefix + uuid4().hex[:24]
