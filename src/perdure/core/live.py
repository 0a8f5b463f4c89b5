"""What is told of a reply while a model is still at it. Ephemeral: no log has it, and the record takes its place."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.core.events import LAST, Event, Kind


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the text of a reply in the making.

    With `offset` 0 it takes the place of all that was told of this address; else it follows what was told, and nothing
    is missing between. It is void once the address is recorded, or `voids` says so.
    """

    address: str
    """Of the step, as in the log: `turn 3/model`."""
    attempt: int
    """Which request of the step it belongs to, from 1. A broken reply is no reply: the next attempt begins anew."""
    offset: int
    """Characters of this attempt before it."""
    text: str


@dataclass(frozen=True, slots=True)
class Reset:
    """All that was told of replies in the making is void; what comes is not told here, or not from its beginning."""

    why: str
    """`elsewhere`: another server asks the model, and has more to tell than it tells others."""


LiveNews = Delta | Reset

_ENDS = LAST | {Kind.PAUSED, Kind.STUCK, Kind.TAKEN_OVER}


def voids(event: Event, address: str) -> bool:
    """Say whether what was told of a reply at an address holds no more once an event is in the log."""
    return event.kind in _ENDS or (event.kind is Kind.STEP_RECORDED and event.address == address)
