"""A deterministic tool loop against aimock: three turns, the same on both protocols, streamed or not."""

from __future__ import annotations

import pytest

from aimock_server import Aimock
from perdure.models.catalog import Catalog
from perdure.models.port import Message, ModelReply, ModelRequest, ToolSpec

pytestmark = pytest.mark.anyio

CITY = ToolSpec(
    "get_weather",
    "Weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
NOTE = ToolSpec(
    "note", "Keep a note.", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
)
ANSWERS = {"call_paris": "21 degrees", "call_rome": "25 degrees", "call_note": "noted"}


@pytest.mark.parametrize(("model", "path"), [("openai/gpt-5.5", "/v1"), ("anthropic:claude-sonnet-4-6", "")])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("keeps_native", [True, False])
async def test_a_tool_loop_comes_to_its_end(
    aimock: Aimock, catalog: Catalog, model: str, path: str, streamed: bool, keeps_native: bool
) -> None:
    aimock.forget()
    messages = [Message("user", "Compare the weather in Paris and Rome.")]
    seen: list[list[str]] = []
    for _ in range(5):
        request = ModelRequest(model, "Be brief.", tuple(messages), (CITY, NOTE), base_url=aimock.url + path)
        reply = await ask(catalog, request, streamed)
        native = reply.native if keeps_native else None
        messages.append(Message("assistant", reply.text, reply.tool_calls, native=native))
        seen.append([call.id for call in reply.tool_calls])
        if not reply.tool_calls:
            break
        messages += [Message("tool", ANSWERS[c.id], call_id=c.id, tool_name=c.name) for c in reply.tool_calls]

    assert seen == [["call_paris", "call_rome"], ["call_note"], []]
    assert messages[-1].text == "Rome is warmer than Paris today."
    assert len(aimock.journal()) == 3


async def test_an_answered_request_gets_the_same_reply_again(aimock: Aimock, catalog: Catalog) -> None:
    request = ModelRequest("any/name", "", (Message("user", "weather?"),), (CITY,), base_url=f"{aimock.url}/v1")
    first, second = await ask(catalog, request, False), await ask(catalog, request, True)
    assert first.tool_calls == second.tool_calls
    assert (first.finish_reason, second.finish_reason) == ("tool_call", "tool_call")


async def ask(catalog: Catalog, request: ModelRequest, streamed: bool) -> ModelReply:
    if not streamed:
        return await catalog.request(request)
    pieces = [piece async for piece in catalog.stream(request)]
    reply = pieces.pop()
    assert isinstance(reply, ModelReply)
    assert "".join(piece.text for piece in pieces) == reply.text
    return reply
