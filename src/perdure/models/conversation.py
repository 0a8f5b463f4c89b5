"""Our conversation as pydantic-ai's messages, and its response as our reply.

`native` keeps pydantic-ai's own JSON of a response, so that thinking and its signatures go back to the provider that
wrote them. Nothing else reads it: without it, or with one that this version cannot read, text and calls remain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from pydantic import ValidationError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import ModelRequest as NativeRequest
from pydantic_ai.usage import RequestUsage

from perdure.core.codec import Json
from perdure.models.port import Message, ToolCall, Usage

FORMAT = "pydantic-ai/2"

_CUT = ("length", "content_filter")
"""Reasons to end a reply wherever it is, in the arguments of a call for one."""

_COUNTED = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def to_native(messages: Sequence[Message]) -> list[ModelMessage]:
    """Return the conversation, what stands between two replies as one request."""
    native: list[ModelMessage] = []
    waiting: list[ModelRequestPart] = []
    for message in messages:
        match message.role:
            case "user":
                waiting.append(UserPromptPart(message.text))
            case "tool":
                outcome = "failed" if message.failed else "success"
                waiting.append(ToolReturnPart(message.tool_name, message.text, message.call_id, outcome=outcome))
            case "assistant":
                if waiting:
                    native.append(NativeRequest(waiting))
                    waiting = []
                native.append(_response(message))
    if waiting or not native or isinstance(native[-1], ModelResponse):
        native.append(NativeRequest(waiting))
    return native


def to_json(response: ModelResponse) -> Json:
    """Return the response as `native`: pydantic-ai's own JSON under the name of its format."""
    (plain,) = cast("list[Json]", ModelMessagesTypeAdapter.dump_python([response], mode="json"))
    return {"format": FORMAT, "response": plain}


def text(response: ModelResponse) -> str:
    """Return what the model said, without its thinking."""
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def tool_calls(response: ModelResponse) -> tuple[ToolCall, ...]:
    """Return the calls, arguments as the model wrote them: text, JSON or not.

    A call at which the reply was cut has text that is no JSON, unless it is known that all of it came.
    """
    cut = response.parts[-1] if response.finish_reason in _CUT and response.parts else None
    return tuple(
        ToolCall(part.tool_call_id, part.tool_name, _cut_short(part.args) if part is cut else _written(part.args))
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )


def usage(spent: RequestUsage) -> Usage:
    """Return the tokens that the provider counted."""
    return Usage(
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cache_read_tokens=spent.cache_read_tokens,
        cache_write_tokens=spent.cache_write_tokens,
        details={name: int(count) for name, count in spent.details.items() if name not in _COUNTED},
    )


def _response(message: Message) -> ModelResponse:
    native = message.native
    if isinstance(native, dict) and native.get("format") == FORMAT:
        try:
            (kept,) = ModelMessagesTypeAdapter.validate_python([native.get("response")])
        except ValidationError:
            pass  # written by a version that this one cannot read
        else:
            if isinstance(kept, ModelResponse):
                return kept
    return ModelResponse(list(_parts(message)))


def _parts(message: Message) -> Iterator[ModelResponsePart]:
    if message.text:
        yield TextPart(message.text)
    for one in message.tool_calls:
        yield ToolCallPart(one.name, one.arguments, one.id)


def _cut_short(arguments: Any) -> str:
    """Return the arguments of a call at which a reply was cut: text as it came, as half an object is no JSON.

    Of what is no text, nothing or the first arguments may have come, as if there were no more: a refund without its
    amount would be one of everything.
    """
    return arguments if isinstance(arguments, str) and arguments else _written(arguments or None)[:-1]


def _written(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return json.dumps(arguments, ensure_ascii=False) if arguments else "{}"
