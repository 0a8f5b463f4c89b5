"""The scripted model of the browser's demo asks for each parcel once, and says what it was told and what it is."""

from __future__ import annotations

import json

import pytest

from perdure.demo import parcels_script
from perdure.demo.parcels_script import NOTE, PARCELS, PROMPT, STEPS, reply
from perdure.models.port import Message, ModelRequest

pytestmark = pytest.mark.anyio


async def test_it_looks_each_parcel_up_and_sums_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels_script, "THINKS_SECONDS", 0.0)
    messages = [Message("user", PROMPT)]
    for number, parcel in enumerate(PARCELS, 1):
        said = await reply(ModelRequest(parcels_script.MODEL, "", tuple(messages)))
        [call] = said.tool_calls
        assert (call.name, json.loads(call.arguments), said.cost_usd) == ("track", {"parcel": parcel}, 0.0)
        messages.append(Message("assistant", said.text, said.tool_calls))
        messages.append(Message("tool", json.dumps({"parcel": parcel, "place": f"shelf {number}"})))
    last = await reply(ModelRequest(parcels_script.MODEL, "", tuple(messages)))
    assert not last.tool_calls
    assert all(f"{parcel}: shelf {number}" in last.text for number, parcel in enumerate(PARCELS, 1))
    assert last.text.endswith(NOTE)
    assert sum(message.role in ("assistant", "tool") for message in messages) + 1 == STEPS
