"""What a person wrote in place of a model's reply, brought into the form in which logs keep replies. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from perdure.core import codec
from perdure.core.codec import Json
from perdure.errors import InvalidInput
from perdure.models.recorded import reply_from_json, reply_to_json

MODEL_CALL = re.compile(r"turn \d+/model(/\d+)?")
"""Addresses at which the loop of an agent asks its model."""


def with_replies(results: Mapping[str, Json]) -> dict[str, Json]:
    """Return the edited results of an agent's fork, with those that are replies as `reply_to_json` writes them.

    A reply may be given as its text alone, or as `text` and `tool_calls`, each of `name`, `arguments` (an object, or
    the text of one) and, if it is to keep one, `id`. What else a recorded reply has is left out: nobody was asked for
    this one, so it cost nothing. Raises `InvalidInput`, naming the address.
    """
    return {
        address: _reply(address, value) if MODEL_CALL.fullmatch(address) else value
        for address, value in results.items()
    }


def _reply(address: str, value: Json) -> Json:
    try:
        given = _object({"text": value} if isinstance(value, str) else value)
        calls = _calls(given.get("tool_calls") or [])
        return reply_to_json(reply_from_json({"text": given.get("text") or "", "tool_calls": calls, "cost_usd": 0.0}))
    except ValueError as error:
        raise InvalidInput(f"the reply at {address!r} cannot be read: {error}.", fields=["results"]) from None


def _object(value: Json) -> dict[str, Json]:
    if isinstance(value, dict) and value.keys() & {"text", "tool_calls"}:
        return value
    raise ValueError("expected a text, or an object with text or tool_calls")


def _calls(value: Json) -> list[Json]:
    if isinstance(value, list):
        return [_call(number, one) for number, one in enumerate(value, 1)]
    raise ValueError("tool_calls: expected a list")


def _call(number: int, value: Json) -> Json:
    if isinstance(value, dict):
        given = value.get("arguments")
        text = given if isinstance(given, str) else codec.encode_json({} if given is None else given)
        return {**value, "id": value.get("id") or f"written_{number}", "arguments": text}
    raise ValueError(f"tool call {number}: expected an object")
