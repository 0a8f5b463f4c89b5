"""Wakes as the executor runs them: what they read, and how one is let go that is not to be carried on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.events import Event, Kind
from perdure.core.items import ActInRoom
from perdure.core.ports import Clock, Embedder
from perdure.core.rooms import EndWake
from perdure.engine.rooms_snapshot import snapshot
from perdure.errors import LeaseLost
from perdure.flow.driver import Function, Outcome
from perdure.models.port import Models
from perdure.rooms.loop import END, wake_loop
from perdure.rooms.spec import Wake, WakeSpec, wake_of
from perdure.server.journal import RoomJournal
from perdure.server.room_gate import Gate
from perdure.store.protocol import EVERY_COMPANY, Reads

ABANDONED = "abandoned"


def wake_function(spec: WakeSpec, gate: Gate, models: Models, clock: Clock, embedder: Embedder | None) -> Function:
    """Return what a run of a wake runs. With an `embedder` it finds passages by what they mean, too."""
    wake = gate.wake

    def read(reads: Reads) -> str:
        reads.speak_for(wake.company)
        room = snapshot(reads, wake.company, wake.agent, wake.room, wake.cause, embedder)
        return codec.encode(room, "room")

    async def look() -> str:
        await gate.open()
        return await gate.bridge.read(read)

    return partial(wake_loop, spec=spec, wake=wake, look=look, models=models, clock=clock)


def claimed_wake(reads: Reads, execution: str, company: str, given: Json) -> Wake:
    """Return the wake that an execution's input describes. The claim is what makes it one, and it counts once.

    Its input alone proves nothing: whoever may begin executions might write any. Raises `LookupError` for what no
    message and no task began.
    """
    wake = wake_of(execution, company, given)
    reads.speak_for(EVERY_COMPANY)  # its company may have left the room
    claim = reads.row("wake_of", execution=wake.execution)
    if claim is None or any(claim[name] != getattr(wake, name) for name in ("room", "company", "agent", "cause")):
        raise LookupError(f"execution {wake.execution} is no wake of {wake.company}/{wake.agent}: nothing woke it")
    return wake


def to_be_abandoned(spec: WakeSpec, events: Sequence[Event]) -> bool:
    """Say whether its first holder is gone, whose was the only attempt. One that had done everything may end."""
    taken_over = any(event.kind is Kind.TAKEN_OVER for event in events)
    return spec.on_crash == "abandon" and taken_over and not _recorded(events, END)


async def abandon(wake: Wake, journal: RoomJournal, events: Sequence[Event]) -> Outcome:
    """Do nothing more in the room than to say so in its ledger, and fail. What was done stays."""
    seen = events[-1].seq
    act = EndWake(ABANDONED)
    item = ActInRoom(ABANDONED, codec.digest(ABANDONED), wake.room, wake.actor, act)
    message = (
        "whoever ran this wake is gone, and its agent is registered with on_crash='abandon': what it did stays, the "
        "rest is not done. Write to the agent again."
    )
    data = codec.encode({"error": message, "code": ABANDONED})
    try:
        news = [] if _recorded(events, ABANDONED) else await journal.record(seen, [item])
        while True:
            seen = news[-1].seq if news else seen
            answer = await journal.finish(seen, 0, "fail", data)
            if answer == "ended":
                return "ended"
            news = answer if isinstance(answer, list) else await journal.park(seen, 0)
            if not news:  # paused: whoever resumes it ends it
                return "parked"
    except LeaseLost:
        return "lost"


def _recorded(events: Sequence[Event], address: str) -> bool:
    return any(event.kind is Kind.STEP_RECORDED and event.address == address for event in events)
