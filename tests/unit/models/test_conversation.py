"""Our conversation and pydantic-ai's: nothing is lost on the way there and back, and nothing else needs theirs."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import (
    FinishReason,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from perdure.core.codec import Json, decode, encode
from perdure.models import conversation
from perdure.models.port import Message, ToolCall, Usage

RESPONSE = ModelResponse(
    [
        ThinkingPart("because", signature="c2lnbmVk", provider_name="anthropic"),
        TextPart("Let me "),
        TextPart("look."),
        ToolCallPart("look", {"at": "ü"}, "call_a"),
        ToolCallPart("note", '{"broken": ', "call_b"),
        ToolCallPart("stop", None, "call_c"),
    ],
    usage=RequestUsage(input_tokens=5, output_tokens=6, details={"input_tokens": 5, "reasoning_tokens": 2}),
    model_name="claude",
    provider_name="anthropic",
    finish_reason="tool_call",
)
CALLS = (
    ToolCall("call_a", "look", '{"at": "ü"}'),
    ToolCall("call_b", "note", '{"broken": '),
    ToolCall("call_c", "stop", "{}"),
)


def test_the_neutral_half_is_text_and_calls() -> None:
    assert conversation.text(RESPONSE) == "Let me look."
    assert conversation.tool_calls(RESPONSE) == CALLS
    assert conversation.usage(RESPONSE.usage) == Usage(5, 6, details={"reasoning_tokens": 2})


@pytest.mark.parametrize("reason", ["length", "content_filter"])
@pytest.mark.parametrize("came", [None, "", {}, {"order": 7}, '{"order": 7'])
def test_a_call_at_which_the_reply_was_cut_is_not_taken_for_whole(reason: FinishReason, came: Any) -> None:
    whole, cut = _calls(reason, ToolCallPart("look", None, "call_a"), ToolCallPart("refund", came, "call_b"))
    assert whole.arguments == "{}", "the reply went on after it"
    assert cut.arguments, "no text at all would stand for no arguments"
    assert not _is_json(cut.arguments)


def test_a_call_that_came_whole_before_the_cut_is_made() -> None:
    [refund] = _calls("length", ToolCallPart("refund", '{"order": 7, "cents": 5}', "call_b"))
    assert decode(refund.arguments) == {"order": 7, "cents": 5}
    [refund, *_] = _calls("length", ToolCallPart("refund", {"order": 7}, "call_b"), TextPart("And th"))
    assert decode(refund.arguments) == {"order": 7}


def _calls(reason: FinishReason, *parts: ModelResponsePart) -> tuple[ToolCall, ...]:
    return conversation.tool_calls(ModelResponse(list(parts), finish_reason=reason))


def _is_json(text: str) -> bool:
    try:
        decode(text)
    except ValueError:
        return False
    return True


def test_thinking_and_its_signature_survive_the_log() -> None:
    stored: Json = decode(encode(conversation.to_json(RESPONSE)))
    _, kept, _ = conversation.to_native([Message("user", "go"), Message("assistant", native=stored), Message("user")])
    assert kept == RESPONSE


@pytest.mark.parametrize(
    "native",
    [None, {"format": "pydantic-ai/9", "response": {}}, {"format": "pydantic-ai/2", "response": {"kind": "riddle"}}, 3],
)
def test_without_a_native_half_that_can_be_read_the_neutral_one_is_sent(native: Json) -> None:
    reply = Message("assistant", "Let me look.", CALLS, native=native)
    _, sent, _ = conversation.to_native([Message("user", "go"), reply, Message("user")])
    assert isinstance(sent, ModelResponse)
    assert conversation.text(sent) == "Let me look."
    assert conversation.tool_calls(sent) == CALLS


def test_what_stands_between_two_replies_is_one_request() -> None:
    native = conversation.to_native(
        [
            Message("user", "one"),
            Message("user", "two"),
            Message("assistant", "", CALLS[:2]),
            Message("tool", "seen", call_id="call_a", tool_name="look"),
            Message("tool", "no JSON", call_id="call_b", tool_name="note", failed=True),
            Message("user", "and quickly"),
        ]
    )
    first, _, last = native
    assert isinstance(first, ModelRequest)
    assert [part.content for part in first.parts if isinstance(part, UserPromptPart)] == ["one", "two"]
    assert isinstance(last, ModelRequest)
    answers = [part for part in last.parts if isinstance(part, ToolReturnPart)]
    assert [(part.tool_call_id, part.content, part.outcome) for part in answers] == [
        ("call_a", "seen", "success"),
        ("call_b", "no JSON", "failed"),
    ]
    assert isinstance(last.parts[-1], UserPromptPart)


def test_a_conversation_always_ends_with_a_request() -> None:
    assert isinstance(conversation.to_native([])[-1], ModelRequest)
    spoken = Message("assistant", "so")
    assert isinstance(conversation.to_native([Message("user", "go"), spoken])[-1], ModelRequest)
