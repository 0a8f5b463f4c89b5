"""The scripted model: its place in a script is told by the conversation, here and behind an address."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from perdure.core.codec import encode
from perdure.models.port import Message, ModelError, ModelReply, ModelRequest, TextDelta, ToolCall, ToolSpec, Usage
from perdure.models.recorded import reply_to_json, request_to_json
from perdure.models.scripted import PIECES, Script, ScriptedModels, call, say, together

if TYPE_CHECKING:
    from conftest import ScriptServer

pytestmark = pytest.mark.anyio

ASKED = (Message("user", "go"),)


@pytest.fixture
async def remote(anyio_backend: str) -> AsyncIterator[ScriptedModels]:
    models = ScriptedModels({})
    yield models
    await models.aclose()


async def ask(script: Script, *messages: Message) -> ModelReply:
    request = ModelRequest("scripted/demo", "", messages or ASKED)
    return await ScriptedModels({"demo": script}).request(request)


def answered(reply: ModelReply) -> tuple[Message, ...]:
    """The reply and an answer to each of its calls, as a conversation goes on."""
    results = (Message("tool", "done", call_id=one.id, tool_name=one.name) for one in reply.tool_calls)
    return (Message("assistant", reply.text, reply.tool_calls), *results)


async def test_a_list_answers_turn_by_turn_and_the_same_when_asked_again() -> None:
    script = [together(call("look", {"at": 1}), call("look", {"at": 2})), call("note", "not json"), say("done")]
    first = await ask(script)
    assert first == await ask(script)
    assert first.finish_reason == "tool_call"
    assert first.tool_calls == (ToolCall("call_1_1", "look", '{"at":1}'), ToolCall("call_1_2", "look", '{"at":2}'))
    second = await ask(script, *ASKED, *answered(first))
    assert second.tool_calls == (ToolCall("call_2_1", "note", "not json"),)
    third = await ask(script, *ASKED, *answered(first), *answered(second))
    assert (third.text, third.finish_reason, third.model) == ("done", "stop", "scripted/demo")


async def test_a_script_that_is_over_says_so() -> None:
    with pytest.raises(ModelError, match="has 1 replies and was asked for number 2") as failure:
        await ask([say("done")], *ASKED, Message("assistant", "done"), Message("user", "and?"))
    assert failure.value.kind == "rejected"


async def test_a_function_may_be_plain_or_async_or_play_a_failure() -> None:
    async def later(request: ModelRequest) -> ModelReply:
        return say(f"heard {request.messages[-1].text}")

    def busy(_request: ModelRequest) -> ModelReply:
        raise ModelError("transient", "busy.", retry_after=3)

    def broken(_request: ModelRequest) -> ModelReply:
        raise KeyError("oops")

    assert (await ask(lambda _request: say("at once"))).text == "at once"
    assert (await ask(later)).text == "heard go"
    assert (await ask([lambda request: say(request.model)])).text == "scripted/demo"
    with pytest.raises(ModelError) as failure:
        await ask(busy)
    assert (failure.value.kind, failure.value.retry_after) == ("transient", 3)
    with pytest.raises(ModelError, match="the script raised KeyError") as failure:
        await ask(broken)
    assert failure.value.kind == "rejected"


async def test_cost_is_what_the_script_says_and_otherwise_unknown() -> None:
    assert (await ask([say("x")])).cost_usd is None
    paid = await ask([say("x", cost_usd=0.0, usage=Usage(3, 4))])
    assert (paid.cost_usd, paid.usage) == (0.0, Usage(3, 4))


async def test_an_unknown_script_names_those_there_are() -> None:
    with pytest.raises(ModelError, match="It has: scripted/demo") as failure:
        await ScriptedModels({"demo": [say("x")]}).request(ModelRequest("test:other", "", ASKED))
    assert failure.value.kind == "unknown_model"


async def test_the_bare_test_model_repeats_the_user() -> None:
    reply = await ScriptedModels({}).request(ModelRequest("test:", "", (Message("user", "a"), Message("user", "b"))))
    assert (reply.text, reply.model) == ("b", "scripted/echo")


async def test_a_stream_is_the_text_in_pieces_and_then_the_reply() -> None:
    models = ScriptedModels({"demo": [say("  two words \n and more ")], "call": [call("look")]})
    pieces = [piece async for piece in models.stream(ModelRequest("scripted/demo", "", ASKED))]
    reply = pieces.pop()
    assert isinstance(reply, ModelReply)
    assert len(pieces) > 1
    assert all(isinstance(piece, TextDelta) for piece in pieces)
    assert "".join(piece.text for piece in pieces) == reply.text
    assert len([piece async for piece in models.stream(ModelRequest("scripted/call", "", ASKED))]) == 1


async def told(models: ScriptedModels, request: ModelRequest) -> list[str | ModelReply]:
    return [piece.text if isinstance(piece, TextDelta) else piece async for piece in models.stream(request)]


async def test_a_script_may_tell_its_reply_in_pieces_of_its_own() -> None:
    async def spoken(_request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        for piece in ("two ", "wo", "rds"):
            yield piece

    async def called(_request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        yield "I look."
        yield call("look", text="I look.")

    models = ScriptedModels({"spoken": spoken, "called": called, "plain": [say("two words")]})
    request = ModelRequest("scripted/spoken", "", ASKED)
    whole = replace(say("two words"), model="scripted/spoken")
    assert await told(models, request) == ["two ", "wo", "rds", whole]
    assert await models.request(request) == whole
    plain = ModelRequest("scripted/plain", "", ASKED)
    assert [models.streams(one) for one in (request, plain)] == [True, False]
    # What is recorded of it is what would be without pieces.
    assert reply_to_json(whole) == reply_to_json(await models.request(plain)) | {"model": "scripted/spoken"}
    [_, reply] = await told(models, ModelRequest("scripted/called", "", ASKED))
    assert isinstance(reply, ModelReply)
    assert reply.tool_calls == (ToolCall("call_1_1", "look", "{}"),)


async def test_a_script_that_breaks_in_the_middle_has_not_replied() -> None:
    async def cut(_request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        yield "I"
        raise ModelError("transient", "cut.")

    async def broken(_request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        yield "I"
        raise KeyError("oops")

    models = ScriptedModels({"cut": cut, "broken": broken})
    for name, kind in (("cut", "transient"), ("broken", "rejected")):
        for ask in (models.request, lambda request: told(models, request)):
            with pytest.raises(ModelError) as failure:
                await ask(ModelRequest(f"scripted/{name}", "", ASKED))
            assert failure.value.kind == kind


async def test_a_script_behind_an_address_may_tell_its_reply_in_pieces(
    remote: ScriptedModels, script_server: ScriptServer
) -> None:
    lines = [{"text": "two\u2028\x85 "}, {"text": "words"}, {"reply": {"text": "two words"}}]
    request = ModelRequest("scripted/far", "", ASKED, base_url=script_server.url)
    whole = replace(say("two words"), model="scripted/far")
    answer = [json.dumps(line, ensure_ascii=False) for line in lines]

    def given(count: int) -> None:
        body = "".join(f"{line}\n" for line in answer[:count]).encode()
        script_server.answer = lambda _body: (200, {"content-type": PIECES}, body)

    given(3)
    assert remote.streams(request)
    assert await told(remote, request) == ["two\u2028\x85 ", "words", whole]
    assert await remote.request(request) == whole
    for count in range(3):
        given(count)
        with pytest.raises(ModelError, match="its pieces ended before a reply") as failure:
            await remote.request(request)
        assert failure.value.kind == "transient"
    answer[0] = "[]"
    given(3)
    with pytest.raises(ModelError, match="expected a line with text or reply"):
        await remote.request(request)


async def test_a_script_behind_an_address_gets_the_whole_request(
    remote: ScriptedModels, script_server: ScriptServer
) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, encode(asdict(call("look", {"turns": len(body["messages"])}))).encode()

    script_server.answer = answer
    request = ModelRequest(
        "scripted/incident",
        "Be brief.",
        ASKED,
        (ToolSpec("look", "", {}),),
        script_server.url + "/",
        call="exe_1/turn 1",
    )
    reply = await remote.request(request)
    assert reply.tool_calls == (ToolCall("call_1_1", "look", '{"turns":1}'),)
    assert reply.model == "scripted/incident"
    assert reply.cost_usd is None
    assert script_server.asked == [("/model", json.loads(encode(request_to_json(request))))]


@pytest.mark.parametrize(
    ("status", "headers", "kind", "wish"),
    [
        (429, {"retry-after": "7"}, "transient", 7.0),
        (503, {}, "transient", None),
        (500, {"retry-after": "soon"}, "transient", None),
        (401, {}, "key", None),
        (402, {}, "quota", None),
        (404, {}, "unknown_model", None),
        (400, {}, "rejected", None),
    ],
)
async def test_a_script_behind_an_address_can_play_failures(
    remote: ScriptedModels,
    script_server: ScriptServer,
    status: int,
    headers: dict[str, str],
    kind: str,
    wish: float | None,
) -> None:
    script_server.answer = lambda _body: (status, headers, b"played")
    with pytest.raises(ModelError, match="played") as failure:
        await remote.request(ModelRequest("scripted/x", "", ASKED, base_url=script_server.url))
    assert (failure.value.kind, failure.value.retry_after) == (kind, wish)
    assert len(script_server.asked) == 1


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b'{"text": 3}'])
async def test_what_is_no_reply_does_not_count(
    remote: ScriptedModels, script_server: ScriptServer, content: bytes
) -> None:
    script_server.answer = lambda _body: (200, {}, content)
    with pytest.raises(ModelError, match="sent no reply") as failure:
        await remote.request(ModelRequest("scripted/x", "", ASKED, base_url=script_server.url))
    assert failure.value.kind == "transient"


async def test_a_reply_that_breaks_off_is_transient(remote: ScriptedModels, script_server: ScriptServer) -> None:
    script_server.answer = lambda _body: (200, {"content-length": "99", "connection": "close"}, b'{"text":')
    with pytest.raises(ModelError) as failure:
        await remote.request(ModelRequest("scripted/x", "", ASKED, base_url=script_server.url))
    assert (failure.value.kind, failure.value.maybe_billed) == ("transient", True)


async def test_an_address_without_a_server_is_transient_and_surely_unpaid(remote: ScriptedModels) -> None:
    with pytest.raises(ModelError) as failure:
        await remote.request(ModelRequest("scripted/x", "", ASKED, base_url="http://127.0.0.1:9"))
    assert (failure.value.kind, failure.value.maybe_billed) == ("transient", False)
