"""The scripted model of the demo in a browser: asks where five parcels are, one after the other, and sums up.

It keeps nothing: what to do next is read from the conversation, as a model would. It says in its last words that it is
scripted.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from perdure.models.port import ModelReply, ModelRequest
from perdure.models.scripted import call, say, turns

NAME = "crash-demo"
MODEL = f"scripted/{NAME}"
PARCELS: tuple[str, ...] = ("P-101", "P-102", "P-103", "P-104", "P-105")
STEPS = 2 * len(PARCELS) + 1
"""Of a whole run: a model call before each tool call, and one that sums up."""
PROMPT = "Find out where these parcels are: " + ", ".join(PARCELS) + "."
NOTE = "A scripted model: its sentences are fixed, and no provider was asked."
THINKS_SECONDS = 0.5


async def reply(request: ModelRequest) -> ModelReply:
    """Return the next reply: the same to the same conversation. Costs nothing."""
    await asyncio.sleep(THINKS_SECONDS)
    done = turns(request)
    if done < len(PARCELS):
        found = call("track", {"parcel": PARCELS[done]}, text=f"Parcel {done + 1} of {len(PARCELS)}.")
    else:
        found = say(f"{_summary(request)}\n\n{NOTE}")
    return replace(found, cost_usd=0.0)


def _summary(request: ModelRequest) -> str:
    told = [one for one in request.messages if one.role == "tool"]
    return "\n".join(f"- {one.text}" if one.failed else _line(json.loads(one.text)) for one in told)


def _line(found: dict[str, Any]) -> str:
    return f"- {found['parcel']}: {found['place']}"
