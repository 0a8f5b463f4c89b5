"""Requests, replies and outcomes survive the log unchanged, and what does not fit is named."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.codec import Json, decode, encode
from perdure.models import recorded
from perdure.models.port import Message, ModelReply, ModelRequest, ToolCall, ToolSpec, Usage
from perdure.models.retry import Failure, ModelOutcome, PauseFor, Refused, Replied, RetryLater

TEXT = st.text(max_size=20)
NUMBERS = st.integers(0, 10**12)
JSON: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)
CALLS = st.lists(st.builds(ToolCall, TEXT, TEXT, TEXT), max_size=3).map(tuple)
USAGES = st.builds(Usage, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.dictionaries(TEXT, NUMBERS, max_size=2))
MESSAGES = st.builds(
    Message, st.sampled_from(["user", "assistant", "tool"]), TEXT, CALLS, TEXT, TEXT, st.booleans(), JSON
)
COSTS = st.none() | st.floats(0, 1e6)
REPLIES = st.builds(ModelReply, TEXT, CALLS, st.sampled_from(["stop", "length"]), USAGES, TEXT, COSTS, JSON)
REQUESTS = st.builds(
    ModelRequest,
    TEXT,
    TEXT,
    st.lists(MESSAGES, max_size=3).map(tuple),
    st.lists(st.builds(ToolSpec, TEXT, TEXT, OBJECTS), max_size=2).map(tuple),
    st.none() | TEXT,
    OBJECTS,
    st.none() | OBJECTS,
    TEXT,
)
KINDS = st.sampled_from(["transient", "rejected", "unknown_model"])
FAILURES = st.lists(st.builds(Failure, KINDS, TEXT, st.none() | st.floats(0, 100), st.booleans()), max_size=2).map(
    tuple
)
OUTCOMES: st.SearchStrategy[ModelOutcome] = st.one_of(
    st.builds(Replied, REPLIES, NUMBERS, FAILURES),
    st.builds(RetryLater, st.floats(0, 1e6), NUMBERS, TEXT, FAILURES),
    st.builds(PauseFor, st.sampled_from(["key", "quota"]), TEXT, NUMBERS, FAILURES),
    st.builds(Refused, KINDS, TEXT, NUMBERS, FAILURES),
)


@given(REQUESTS)
def test_a_request_comes_back_the_same(request: ModelRequest) -> None:
    plain = recorded.request_to_json(replace(request, keys={"OPENAI_API_KEY": "secret-value"}))
    assert encode({**plain, "keys": {}, "guarded": False, "attempt": 1}) == encode(asdict(request))
    assert recorded.request_from_json(decode(encode(plain))) == request


@given(REPLIES)
def test_a_reply_comes_back_the_same(reply: ModelReply) -> None:
    assert recorded.reply_from_json(decode(encode(recorded.reply_to_json(reply)))) == reply


@given(MESSAGES)
def test_a_message_comes_back_the_same(message: Message) -> None:
    assert recorded.message_from_json(decode(encode(recorded.message_to_json(message)))) == message


@given(OUTCOMES)
def test_an_outcome_comes_back_the_same(outcome: ModelOutcome) -> None:
    assert recorded.outcome_from_json(decode(encode(recorded.outcome_to_json(outcome)))) == outcome


def test_a_reply_of_a_few_fields_is_whole() -> None:
    assert recorded.reply_from_json({"text": "hi"}) == ModelReply("hi", (), "stop", Usage(), "")
    called = recorded.reply_from_json({"tool_calls": [{"name": "look"}], "later_field": 1})
    assert called == ModelReply("", (ToolCall("", "look", ""),), "tool_call", Usage(), "")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "reply: expected an object"),
        ({"text": 1}, "text: expected text"),
        ({"tool_calls": {}}, "tool_calls: expected a list"),
        ({"tool_calls": [{}]}, "name: expected text"),
        ({"usage": {"input_tokens": "3"}}, "input_tokens: expected a whole number"),
        ({"cost_usd": True}, "cost_usd: expected a number"),
    ],
)
def test_what_does_not_fit_is_named(value: Json, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        recorded.reply_from_json(value)


def test_words_of_another_version_are_refused() -> None:
    with pytest.raises(ValueError, match="role: expected user, assistant or tool"):
        recorded.message_from_json({"role": "critic"})
    with pytest.raises(ValueError, match="outcome: expected one of replied"):
        recorded.outcome_from_json({"outcome": "lost"})
    with pytest.raises(ValueError, match="kind: expected one of transient"):
        recorded.outcome_from_json({"outcome": "refused", "kind": "mood", "message": ""})
