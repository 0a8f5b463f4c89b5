"""The model of the crash runs, behind the world's `/model`: the demo's script, and two acts on the world at its end.

Shares no code with the runtime. The same conversation gets the same reply; what `CRASH_REFUSE` asks for comes first.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from perdure.demo import incident_script

TICKET = "file_ticket"
ANNOUNCE = "announce"
PLEASE = "Please "
"""How a prompt begins that asks for tools by their names: see `crash_side`."""


class Refusal(Exception):
    """What the model's provider answers instead of a reply: the status in `CRASH_REFUSE`, once."""

    def __init__(self, status: int) -> None:
        super().__init__(f"refused with {status}, as planned")
        self.status = status


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """Return the next reply, or raise the refusals that were asked for."""
    planned = os.environ.pop("CRASH_REFUSE", "")
    if planned:
        raise Refusal(int(planned))
    if (wanted := _wanted(request)) is not None:
        return _in_turn(request, wanted)
    answer = incident_script.reply(request)
    if answer["tool_calls"] or TICKET in _called(request) or "ready:" not in answer["text"]:
        return answer
    pdf = answer["text"].partition("ready: ")[2].splitlines()[0]
    calls = [
        _call(request, TICKET, {"title": "Look at checkout on Mondays", "pdf": pdf}),
        _call(request, ANNOUNCE, {"text": f"The incident report is out: {pdf}"}),
    ]
    return {
        **answer,
        "text": "Filing the ticket and telling everybody.",
        "tool_calls": calls,
        "finish_reason": "tool_call",
    }


def _wanted(request: dict[str, Any]) -> list[str] | None:
    """Return the tools that a prompt of the errands asks for."""
    asked = next((str(one.get("text", "")) for one in request["messages"] if one["role"] == "user"), "")
    return asked.removeprefix(PLEASE).split() if asked.startswith(PLEASE) else None


def _in_turn(request: dict[str, Any], wanted: list[str]) -> dict[str, Any]:
    known = {one["name"] for one in request["tools"]} - _called(request)
    calls = [_call(request, tool, {}) for tool in wanted if tool in known]
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {"text": "Done.", "tool_calls": calls, "finish_reason": "tool_call" if calls else "stop", "usage": usage}


def _called(request: dict[str, Any]) -> set[str]:
    return {call["name"] for message in request["messages"] for call in message.get("tool_calls") or ()}


def _call(request: dict[str, Any], tool: str, arguments: dict[str, str]) -> dict[str, str]:
    execution = str(request.get("call", "")).partition("/")[0]
    name = hashlib.sha256(f"{execution}/{tool}".encode()).hexdigest()[:16]
    return {"id": f"call_{name}", "name": tool, "arguments": json.dumps(arguments)}
