"""Rate limits, outages, broken streams and broken tool calls, played by llmock: what each one means to us."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from perdure.core.codec import Json
from perdure.models.catalog import Catalog
from perdure.models.port import Message, ModelError, ModelReply, ModelRequest, ToolSpec
from perdure.models.recorded import reply_to_json
from perdure.models.retry import PauseFor, Refused, Replied, RetryLater, call_model
from perdure.system import SystemClock

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock

    from waiting_clock import WaitingClock

pytestmark = pytest.mark.anyio

MODELS = ["openai/gpt-5.5", "anthropic:claude-sonnet-4-6", "openai-responses/gpt-5.5"]

WEATHER = ToolSpec(
    "get_weather",
    "Weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def asking(
    model: str, *messages: Message, tools: tuple[ToolSpec, ...] = (), base_url: str | None = None, **settings: Json
) -> ModelRequest:
    said = messages or (Message("user", "What is the weather in Paris?"),)
    return ModelRequest(model, "Be brief.", said, tools, base_url, settings, call="exe_1/turn 1/model")


async def streamed(catalog: Catalog, request: ModelRequest) -> ModelReply:
    pieces = [piece async for piece in catalog.stream(request)]
    reply = pieces.pop()
    assert isinstance(reply, ModelReply)
    assert "".join(piece.text for piece in pieces) == reply.text
    return reply


@pytest.mark.parametrize("model", MODELS)
async def test_a_reply_comes_with_usage_finish_reason_and_cost(catalog: Catalog, llmock: LLMock, model: str) -> None:
    for reply in (await catalog.request(asking(model)), await streamed(catalog, asking(model))):
        assert reply.text
        assert reply.finish_reason == "stop"
        assert reply.usage.input_tokens > 0
        assert reply.usage.output_tokens > 0
        assert reply.cost_usd
        assert reply.model == model.replace(":", "/").split("/")[1]
        json.dumps(reply.native)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("tools", [(), (WEATHER,)], ids=["text", "call"])
async def test_a_reply_in_pieces_is_recorded_as_a_whole_one_is(
    catalog: Catalog, llmock: LLMock, model: str, tools: tuple[ToolSpec, ...]
) -> None:
    whole = reply_to_json(await catalog.request(asking(model, tools=tools)))
    pieces = reply_to_json(await streamed(catalog, asking(model, tools=tools)))
    assert form(pieces) == form(whole)
    for field in ("text", "finish_reason", "model", "cost_usd"):
        assert pieces[field] == whole[field], field


def form(value: Json) -> Any:
    """Return what a value is made of, without what stands there: ids and times differ."""
    if isinstance(value, dict):
        return {name: form(item) for name, item in value.items()}
    return [form(item) for item in value] if isinstance(value, list) else type(value)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529, 408])
async def test_a_failure_is_one_request_and_ours_to_retry(
    catalog: Catalog, llmock: LLMock, model: str, status: int
) -> None:
    llmock.fail(status, times=None)
    for ask in (catalog.request, lambda request: streamed(catalog, request)):
        before = len(llmock.requests)
        with pytest.raises(ModelError) as failure:
            await ask(asking(model))
        assert failure.value.kind == "transient"
        assert len(llmock.requests) - before == 1


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("status", "kind", "fix"),
    [
        (401, "key", "_API_KEY"),
        (403, "key", "_API_KEY"),
        (402, "quota", "Add credit"),
        (404, "unknown_model", "Check the model's name"),
        (400, "rejected", "asking again changes nothing"),
        (422, "rejected", "asking again changes nothing"),
    ],
)
async def test_what_asking_again_cannot_change_is_asked_once(
    catalog: Catalog, llmock: LLMock, clock: WaitingClock, model: str, status: int, kind: str, fix: str
) -> None:
    llmock.fail(status, times=None)
    outcome = await call_model(catalog, asking(model), clock=clock)
    assert isinstance(outcome, PauseFor if kind in ("key", "quota") else Refused)
    assert outcome.kind == kind
    assert fix in outcome.message
    assert model in outcome.message
    assert len(llmock.requests) == 1


async def test_a_spent_quota_said_by_429_pauses(catalog: Catalog, llmock: LLMock, clock: WaitingClock) -> None:
    llmock.fail(429, code="insufficient_quota", message="You exceeded your current quota.", times=None)
    outcome = await call_model(catalog, asking("openai/gpt-5.5"), clock=clock)
    assert isinstance(outcome, PauseFor)
    assert outcome.kind == "quota"
    assert len(llmock.requests) == 1


async def test_a_conversation_that_is_too_long_says_so(catalog: Catalog, llmock: LLMock, clock: WaitingClock) -> None:
    llmock.context_overflow(times=None)
    outcome = await call_model(catalog, asking("openai/gpt-5.5"), clock=clock)
    assert isinstance(outcome, Refused)
    assert outcome.kind == "context_window"


@pytest.mark.parametrize("model", MODELS)
async def test_retry_after_is_waited_for_and_then_answered(
    catalog: Catalog, llmock: LLMock, clock: WaitingClock, model: str
) -> None:
    llmock.rate_limit(times=2, retry_after=7)
    outcome = await call_model(catalog, asking(model), clock=clock)
    assert isinstance(outcome, Replied)
    assert outcome.requests == len(llmock.requests) == 3
    assert clock.slept == [7, 7]
    assert [failure.retry_after for failure in outcome.failures] == [7, 7]


@pytest.mark.parametrize("model", MODELS)
async def test_a_long_wait_is_handed_back(catalog: Catalog, llmock: LLMock, clock: WaitingClock, model: str) -> None:
    llmock.rate_limit(times=None, retry_after=90)
    outcome = await call_model(catalog, asking(model), clock=clock)
    assert isinstance(outcome, RetryLater)
    assert (outcome.after_seconds, outcome.requests) == (90, 1)
    assert clock.slept == []


@pytest.mark.parametrize("model", MODELS)
async def test_the_servers_own_verdict_on_us_is_clean(catalog: Catalog, llmock: LLMock, model: str) -> None:
    llmock.rate_limit(times=2, retry_after=0.2)
    outcome = await call_model(catalog, asking(model), clock=SystemClock())
    assert isinstance(outcome, Replied)
    llmock.assert_resilient(strict=True)


async def test_an_outage_ends_after_three_requests(catalog: Catalog, llmock: LLMock, clock: WaitingClock) -> None:
    llmock.fail(500, times=None)
    outcome = await call_model(catalog, asking("openai/gpt-5.5"), clock=clock)
    assert isinstance(outcome, Refused)
    assert outcome.requests == len(llmock.requests) == 3
    assert clock.slept == [2, 8]


async def test_an_address_of_the_owner_gets_one_request(catalog: Catalog, llmock: LLMock, clock: WaitingClock) -> None:
    llmock.outage()
    request = asking("openai/any-name", base_url=llmock.base_url("openai"))
    outcome = await call_model(catalog, request, clock=clock)
    assert isinstance(outcome, Refused)
    assert outcome.requests == len(llmock.requests) == 1


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("fault", ["truncate", "disconnect", "corrupt"])
async def test_a_broken_stream_is_no_reply(catalog: Catalog, llmock: LLMock, model: str, fault: str) -> None:
    getattr(llmock, fault)(after_chunks=3)
    with pytest.raises(ModelError) as failure:
        await streamed(catalog, asking(model))
    assert failure.value.kind == "transient"
    assert failure.value.maybe_billed
    assert (await streamed(catalog, asking(model))).text
    llmock.assert_resilient()


@pytest.mark.parametrize("model", MODELS)
async def test_silence_ends(catalog: Catalog, llmock: LLMock, model: str) -> None:
    llmock.stall(after_chunks=3, seconds=2)
    with pytest.raises(ModelError) as failure:
        await streamed(catalog, asking(model, timeout=0.2))
    assert failure.value.kind == "transient"
    llmock.delay(2)
    with pytest.raises(ModelError) as failure:
        await catalog.request(asking(model, timeout=0.2))
    assert failure.value.kind == "transient"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("keeps_native", [True, False])
async def test_arguments_that_are_not_json_come_through_and_can_be_answered(
    catalog: Catalog, llmock: LLMock, model: str, keeps_native: bool
) -> None:
    llmock.break_tool_call("malformed_arguments")
    reply = await catalog.request(asking(model, tools=(WEATHER,)))
    (call,) = reply.tool_calls
    assert call.name == "get_weather"
    with pytest.raises(ValueError):
        json.loads(call.arguments)

    spoken = Message("assistant", reply.text, reply.tool_calls, native=reply.native if keeps_native else None)
    refused = Message("tool", "arguments are not JSON", call_id=call.id, tool_name=call.name, failed=True)
    question = Message("user", "What is the weather in Paris?")
    llmock.reply("Then I cannot say.")
    answer = await catalog.request(asking(model, question, spoken, refused, tools=(WEATHER,)))
    assert answer.text == "Then I cannot say."


@pytest.mark.parametrize("model", MODELS)
async def test_a_tool_that_was_never_offered_comes_through(catalog: Catalog, llmock: LLMock, model: str) -> None:
    llmock.break_tool_call("unknown_tool")
    reply = await catalog.request(asking(model, tools=(WEATHER,)))
    assert reply.finish_reason == "tool_call"
    assert [call.name for call in reply.tool_calls] == ["llmock_unknown_tool"]


async def test_an_output_schema_reaches_the_provider(catalog: Catalog, llmock: LLMock) -> None:
    schema: dict[str, Json] = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    request = ModelRequest("openai/gpt-5.5", "", (Message("user", "count"),), output_schema=schema)
    reply = await catalog.request(request)
    assert isinstance(json.loads(reply.text)["count"], int)


async def test_settings_reach_the_provider_and_unknown_ones_do_not(catalog: Catalog, llmock: LLMock) -> None:
    await catalog.request(asking("openai/gpt-4o", temperature=0.25, max_tokens=77))
    body = llmock.last_request.body
    assert (body["temperature"], body["max_completion_tokens"]) == (0.25, 77)
    with pytest.raises(ModelError, match="no setting 'temprature'"):
        await catalog.request(asking("openai/gpt-4o", temprature=1))
    assert len(llmock.requests) == 1


async def test_no_server_is_known_to_have_cost_nothing(catalog: Catalog) -> None:
    with pytest.raises(ModelError) as failure:
        await catalog.request(asking("openai/x", base_url="http://127.0.0.1:9/v1"))
    assert failure.value.kind == "transient"
    assert not failure.value.maybe_billed


async def test_an_open_stream_can_be_left(catalog: Catalog, llmock: LLMock) -> None:
    stream = catalog.stream(asking("openai/gpt-5.5"))
    assert await anext(stream)
    await stream.aclose()  # pyright: ignore[reportAttributeAccessIssue] - it is a generator
    assert (await catalog.request(asking("openai/gpt-5.5"))).text


@pytest.mark.parametrize("model", MODELS)
async def test_a_request_can_be_cancelled_in_flight(catalog: Catalog, llmock: LLMock, model: str) -> None:
    llmock.delay(3)
    with anyio.move_on_after(0.2) as scope:
        await catalog.request(asking(model))
    assert scope.cancelled_caught
    assert (await catalog.request(asking(model))).text
