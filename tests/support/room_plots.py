"""What an agent does when it is woken in a room whose servers and workers are killed, and what has to come of it.

Each plot is one way of answering; together they do every kind of act. What bodies do to the world is a line in a file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure import Agent, ToolContext, failpoints, tool
from perdure.agent.on_wake import ON_WAKE, on_wake
from perdure.agent.probe import Outcome
from perdure.core import codec
from perdure.core.rooms import RoomKind
from perdure.models.port import ModelReply, ModelRequest, ToolCall, Usage
from perdure.models.scripted import turns

ACME, GLOBEX, AGENT = "acme", "globex", "clerk"
ASKED = "asked"
WORLD = "world"
MODEL = "model.asked"
"""The point inside a request to the model: not one of the library's, but of this script."""
REPLY, LINE, RESULT, FILE = "counted: 42", "counted", "42", "count.txt"
TASK, NEW_TASK = "count", "check it"
_KEEP: Mapping[str, Any] = {"remember": {"text": LINE}}
_SHARE: Mapping[str, Any] = {"share_file": {"name": FILE, "text": "42"}}
_ASK: Mapping[str, Any] = {"create_task": {"title": NEW_TASK, "to": ACME}}
"""These two need a yes: a task for another company, and a file, from who was shown another company's text."""


@dataclass(frozen=True, slots=True)
class Plot:
    """One way of answering."""

    agent: Agent
    done: Counter[str]
    """How often the ledger tells of what, if all went right."""
    requests: int
    """To the model."""
    rules: Sequence[Mapping[str, Any]] = ()
    """The agent's company's."""
    stopped: bool = False
    """Whether the agent is stopped when it is woken, and started then."""

    @property
    def works(self) -> bool:
        """Whether a worker is needed."""
        return bool(self.agent.tools)

    @property
    def calls(self) -> list[str]:
        """Which tools of its own its model calls, once each."""
        return [name for name in self.agent.definitions() if name != ON_WAKE]


# -- the world ---------------------------------------------------------------------------------------------------------


def note(notes: Path, what: str) -> None:
    """Add a line to the world."""
    with (notes / WORLD).open("a", encoding="utf-8") as out:
        out.write(f"{what}\n")


def noted(notes: Path) -> list[str]:
    """Return its lines."""
    return (notes / WORLD).read_text(encoding="utf-8").splitlines() if (notes / WORLD).exists() else []


def _notes(ctx: ToolContext) -> Path:
    return Path(ctx.dependencies)


@tool(retries=9, retry_pause_seconds=0.05)
def stock(ctx: ToolContext, what: str) -> int:
    """Look how many there are. At least once."""
    note(_notes(ctx), f"stock {ctx.idempotency_key}")
    return 42 if what else 0


def was_paid(ctx: ToolContext) -> Outcome:
    """Find out whether a payment was made."""
    paid = f"pay {ctx.idempotency_key}" in noted(_notes(ctx))
    return Outcome.happened("paid") if paid else Outcome.did_not_happen()


@tool(delivery="at_most_once", settle_seconds=0.1, probe=was_paid)
def pay(ctx: ToolContext, amount: float) -> str:
    """Spend money. At most once."""
    note(_notes(ctx), f"pay {ctx.idempotency_key}")
    return "paid" if amount else "nothing to pay"


@on_wake(name=AGENT)
def decides(room: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
    """Decide in place of a model."""
    note(_notes(ctx), f"on_wake {ctx.idempotency_key}")
    if room["woken_by"]["what"] == "message":
        return {"reply": "again"}
    return {"reply": REPLY, **_KEEP, **_SHARE, **_ASK, "update_task": _closing(room)}


# -- the plots ---------------------------------------------------------------------------------------------------------


def _agent(*tools: Any) -> Agent:
    return Agent(name=AGENT, model=f"scripted/{AGENT}", instructions="Count.", tools=tools)


_SAID = (RoomKind.POSTED, RoomKind.REMEMBERED, RoomKind.TASK_CHANGED, RoomKind.WAKE_ENDED)
_WITH_A_YES = (RoomKind.HELD, RoomKind.HELD, RoomKind.TASK_OPENED, RoomKind.FILE_PUT)
PLOTS: Mapping[str, Plot] = {
    "answers": Plot(_agent(), Counter([*_SAID, *_WITH_A_YES]), requests=1),
    "stopped": Plot(_agent(), Counter(_SAID), requests=1, stopped=True),
    "tools": Plot(
        _agent(stock, pay),
        Counter([*_SAID, RoomKind.TOOL_CALLED, RoomKind.TOOL_CALLED, RoomKind.HELD, RoomKind.FILE_PUT]),
        requests=2,
        rules=(
            {"name": "looks", "then": "allow", "acts": ["call_tool"], "to": "stock"},
            {"name": "spends", "then": "hold", "acts": ["spend"], "above": 1},
            {"name": "files", "then": "allow", "acts": ["share_file"]},
        ),
    ),
    "function": Plot(decides, Counter([*_SAID, *_WITH_A_YES]), requests=0),
}
"""`answers`: a model declares an act of each kind. `stopped`: its agent was stopped when it was woken. `tools`: it
calls tools of its own first. `function`: the company's own function decides."""


def reply_of(plot: str, notes: Path, request: ModelRequest) -> ModelReply:
    """Return what the model of a plot says, having noted that it was asked."""
    with (notes / ASKED).open("a", encoding="utf-8") as out:
        out.write("x")
    failpoints.hit(MODEL)
    room = codec.decode(request.messages[0].text)
    if room["woken_by"]["what"] == "message":
        return ModelReply("again", (), "stop", Usage(), "")
    if plot == "tools" and turns(request) == 0:
        return _declared("", {"stock": {"what": "oak"}, "pay": {"amount": 5}})
    more = {"answers": {**_ASK, **_SHARE}, "tools": _SHARE}.get(plot, {})
    return _declared(REPLY, {**_KEEP, "update_task": _closing(room), **more})


def _declared(text: str, calls: Mapping[str, Any]) -> ModelReply:
    named = tuple(ToolCall(name, name, codec.encode(args)) for name, args in calls.items())
    return ModelReply(text, named, "stop", Usage(), "")


def _closing(room: Mapping[str, Any]) -> dict[str, Any]:
    return {"task": room["woken_by"]["id"], "verb": "complete", "result": RESULT}


def asked(notes: Path) -> int:
    """Return how often the model was asked."""
    return os.stat(notes / ASKED).st_size if (notes / ASKED).exists() else 0
