"""Requests, replies and outcomes as JSON and back: the form in the log and on the wire to a script.

Fields that are missing take their defaults and unknown ones are ignored, so that neighbouring versions read each
other. Anything else that does not fit raises `ValueError`, naming the field.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, cast, get_args

import orjson

from perdure.core.codec import MAX_VALUE_BYTES, Json, encode_json
from perdure.models.port import Message, ModelFailure, ModelReply, ModelRequest, ToolCall, ToolSpec, Usage
from perdure.models.retry import Failure, ModelOutcome, PauseFor, Refused, Replied, RetryLater

Object = dict[str, Json]

_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")

_OUTCOMES: dict[type[ModelOutcome], str] = {
    Replied: "replied",
    RetryLater: "retry_later",
    PauseFor: "pause_for",
    Refused: "refused",
}


def request_to_json(request: ModelRequest) -> Object:
    """Return a request with every field but its keys, its guard and the number of its attempt, tuples as lists."""
    fields = _plain(replace(request, keys={}))
    del fields["keys"], fields["guarded"], fields["attempt"]
    return fields


def reply_to_json(reply: ModelReply) -> Object:
    """Return a reply with every field."""
    return _plain(reply)


def message_to_json(message: Message) -> Object:
    """Return a message of a conversation with every field."""
    return _plain(message)


def outcome_to_json(outcome: ModelOutcome) -> Object:
    """Return an outcome with its name in `outcome`."""
    return {"outcome": _OUTCOMES[type(outcome)], **_plain(outcome)}


def outcome_to_text(outcome: ModelOutcome) -> str:
    """Return the same as JSON text. Raises `LimitExceeded` (`too_large`)."""
    try:
        fields = orjson.dumps(outcome).decode()
    except (TypeError, ValueError):  # as in `_plain`
        fields = ""
    if not fields or len(fields) > MAX_VALUE_BYTES // 8:  # the limit counts bytes
        return encode_json(outcome_to_json(outcome), "reply")
    return f'{{"outcome":"{_OUTCOMES[type(outcome)]}",{fields[1:]}'


def request_from_json(value: Json) -> ModelRequest:
    """Return the request that `request_to_json` wrote."""
    data = _object(value, "request")
    schema = data.get("output_schema")
    return ModelRequest(
        model=_text(data, "model"),
        instructions=_text(data, "instructions", ""),
        messages=tuple(message_from_json(item) for item in _list(data, "messages")),
        tools=tuple(_tool_spec(item) for item in _list(data, "tools")),
        base_url=_text_or_none(data, "base_url"),
        settings=_object(data.get("settings") or {}, "settings"),
        output_schema=None if schema is None else _object(schema, "output_schema"),
        call=_text(data, "call", ""),
    )


def reply_from_json(value: Json) -> ModelReply:
    """Return the reply that `reply_to_json`, or a script, wrote. One without a finish reason gets its own."""
    data = _object(value, "reply")
    calls = _calls(data)
    return ModelReply(
        text=_text(data, "text", ""),
        tool_calls=calls,
        finish_reason=_text(data, "finish_reason", "tool_call" if calls else "stop"),
        usage=_usage(data.get("usage")),
        model=_text(data, "model", ""),
        cost_usd=_number_or_none(data, "cost_usd"),
        native=data.get("native"),
    )


def message_from_json(value: Json) -> Message:
    """Return the message that `message_to_json` wrote."""
    data = _object(value, "message")
    role = _text(data, "role")
    if role not in ("user", "assistant", "tool"):
        raise ValueError(f"role: expected user, assistant or tool, found {role!r}")
    return Message(
        role=role,
        text=_text(data, "text", ""),
        tool_calls=_calls(data),
        call_id=_text(data, "call_id", ""),
        tool_name=_text(data, "tool_name", ""),
        failed=data.get("failed") is True,
        native=data.get("native"),
    )


def outcome_from_json(value: Json) -> ModelOutcome:
    """Return the outcome that `outcome_to_json` wrote."""
    data = _object(value, "outcome")
    requests = _integer(data.get("requests", 0), "requests")
    failures = tuple(_failure(item) for item in _list(data, "failures"))
    match data.get("outcome"):
        case "replied":
            return Replied(reply_from_json(data.get("reply")), requests, failures)
        case "retry_later":
            seconds = _number_or_none(data, "after_seconds") or 0.0
            return RetryLater(seconds, requests, _text(data, "message"), failures)
        case "pause_for":
            kind = "quota" if data.get("kind") == "quota" else "key"
            return PauseFor(kind, _text(data, "message"), requests, failures)
        case "refused":
            return Refused(_failure_kind(data), _text(data, "message"), requests, failures)
        case other:
            raise ValueError(f"outcome: expected one of {', '.join(_OUTCOMES.values())}, found {other!r}")


def _plain(value: Any) -> Object:
    try:
        return orjson.loads(orjson.dumps(value))
    except (TypeError, ValueError):  # lone surrogates, which models produce, and integers over 64 bits
        return _lists(asdict(value))


def _lists(value: Any) -> Any:
    """Return `value` with its tuples as lists: JSON has no other."""
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_lists(item) for item in cast("list[Any]", value)]
    return value


def _failure(value: Json) -> Failure:
    data = _object(value, "failure")
    billed = data.get("maybe_billed") is not False
    return Failure(_failure_kind(data), _text(data, "message", ""), _number_or_none(data, "retry_after"), billed)


def _failure_kind(data: Object) -> ModelFailure:
    kind = data.get("kind")
    if kind not in get_args(ModelFailure):
        raise ValueError(f"kind: expected one of {', '.join(get_args(ModelFailure))}, found {kind!r}")
    return cast("ModelFailure", kind)


def _tool_spec(value: Json) -> ToolSpec:
    data = _object(value, "tool")
    return ToolSpec(_text(data, "name"), _text(data, "description", ""), _object(data.get("schema") or {}, "schema"))


def _calls(data: Object) -> tuple[ToolCall, ...]:
    items = _list(data, "tool_calls")
    return tuple(map(_call, items)) if items else ()


def _call(value: Json) -> ToolCall:
    data = _object(value, "tool call")
    return ToolCall(_text(data, "id", ""), _text(data, "name"), _text(data, "arguments", ""))


def _usage(value: Json) -> Usage:
    data = _object(value or {}, "usage")
    details = _object(data.get("details") or {}, "details")
    tokens = [data.get(name, 0) for name in _TOKENS]
    for name, count in (*zip(_TOKENS, tokens, strict=True), *details.items()):
        if count.__class__ is not int:
            _integer(count, name)
    return Usage(*cast("list[int]", tokens), details=cast("dict[str, int]", details))


def _object(value: Json, what: str) -> Object:
    if isinstance(value, dict):
        return value
    raise ValueError(f"{what}: expected an object, found {type(value).__name__}")


def _list(data: Object, key: str) -> list[Json]:
    value = data.get(key)
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise ValueError(f"{key}: expected a list, found {type(value).__name__}")


def _text(data: Object, key: str, default: str | None = None) -> str:
    value = data.get(key, default)
    if isinstance(value, str):
        return value
    raise ValueError(f"{key}: expected text, found {type(value).__name__}")


def _text_or_none(data: Object, key: str) -> str | None:
    return None if data.get(key) is None else _text(data, key)


def _integer(value: Json, what: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"{what}: expected a whole number, found {type(value).__name__}")


def _number_or_none(data: Object, key: str) -> float | None:
    value = data.get(key)
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return None if value is None else float(value)
    raise ValueError(f"{key}: expected a number, found {type(value).__name__}")
