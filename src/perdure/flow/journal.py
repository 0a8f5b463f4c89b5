"""The log as the holder of one execution writes it. A port: directly through the writer, or over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from perdure.core.events import Event
from perdure.core.items import Item


class Journal(Protocol):
    """One execution under one fence. Every verb raises `LeaseLost` once somebody else holds it.

    `seen` is the newest `seq` fed to the replay; what was appended above it comes back, in order and complete.
    """

    async def record(self, seen: int, items: Sequence[Item]) -> list[Event]:
        """Append and return all events above `seen`: one's own and others'."""
        ...

    async def events(self, after: int) -> list[Event]:
        """Read events above `after`, all of them."""
        ...

    async def park(self, seen: int, active_ms: int) -> list[Event]:
        """Let go. Events, if there were any above `seen`, mean: not parked, look at them first."""
        ...

    async def finish(
        self, seen: int, active_ms: int, event: Literal["complete", "fail", "end"], data: str
    ) -> list[Event] | Literal["ended", "held"]:
        """End it. Events mean: not ended, look first. `held`: workers still hold tasks of it; park."""
        ...

    async def halt(self, event: Literal["pause", "stick"], reason: str, message: str) -> None:
        """Pause or stick it, and let go."""
        ...


class PreviewJournal(Journal, Protocol):
    """A journal that can take, with a step's result, what the code asked for once it had been shown that result."""

    async def record_previewed(self, seen: int, items: Sequence[Item]) -> list[Event] | None:
        """Like `record`, if nothing unseen stands before the first item; else append the first alone.

        The items after the first come from code that knows the first and nothing else above `seen`. Returns what is
        above the first, or None if something came before it.
        """
        ...


async def whole_log(journal: Journal, events: list[Event], last_seq: int) -> list[Event]:
    """Return a log up to `last_seq` at least.

    `events` came with the claim: the log's beginning, or only what was new to a run that is gone.
    """
    if not events or events[0].seq != 1:
        return await journal.events(0)
    return events if events[-1].seq >= last_seq else events + await journal.events(events[-1].seq)
