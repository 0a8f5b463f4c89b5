"""The scripted models of the rooms demo: two rules, one for each company's agent. They say in their text that they are.

A function from a request to a reply, standard library only. It keeps nothing: it reads the room that it is shown.
"""

from __future__ import annotations

import json
import re
from typing import Any

PLANNER = "scripted/planner"
SUPPLIER = "scripted/supplier"
ASKED = "We need 12 beams of oak, 9 m long, for the bridge."
"""What the person of acme says, beside whom it is for."""
PRICE, LEAST = 700, 640
"""Of a beam, in dollars: what globex asks, and what it would take."""

Reply = dict[str, Any]
_BEAMS = re.compile(r"(\d+) beams")


def reply(request: dict[str, Any]) -> Reply:
    """Return what the agent's model answers to the room that it is shown."""
    room: dict[str, Any] = json.loads(request["messages"][0]["text"])
    woken: dict[str, Any] = room["woken_by"]
    found = _BEAMS.search(str(woken.get("title") or woken.get("text")))
    beams = int(found[1]) if found else 0
    if request["model"] == SUPPLIER:
        return _offer(woken["id"], beams)
    return _confirm(woken["id"], beams) if woken["what"] == "task" else _order(beams)


def _order(beams: int) -> Reply:
    return _reply(
        f"{beams} beams of oak, 9 m: I have asked globex for them. (A scripted model.)",
        ("remember", {"text": f"The bridge takes {beams} beams of oak, 9 m long."}),
        ("create_task", {"title": f"Deliver {beams} beams of oak, 9 m long.", "to": "globex/supplier"}),
    )


def _offer(task: str, beams: int) -> Reply:
    price = f"{beams} beams for ${beams * PRICE:,}"
    return _reply(
        f"We can deliver {price} by Friday. (A scripted model.)",
        ("remember", {"text": f"We would take ${beams * LEAST:,} for {beams} beams.", "readers": ["globex"]}),
        ("update_task", {"task": task, "verb": "complete", "result": f"offered: {price}"}),
        ("create_task", {"title": f"Confirm the order: {price}.", "to": "acme/planner"}),
    )


def _confirm(task: str, beams: int) -> Reply:
    return _reply(
        f"Confirmed: {beams} beams, as asked for. (A scripted model.)",
        ("update_task", {"task": task, "verb": "complete", "result": "confirmed"}),
    )


def _reply(text: str, *acts: tuple[str, dict[str, Any]]) -> Reply:
    calls = [
        {"id": f"call_{number}", "name": name, "arguments": json.dumps(given)}
        for number, (name, given) in enumerate(acts, 1)
    ]
    return {"text": text, "tool_calls": calls, "finish_reason": "tool_call" if calls else "stop"}
