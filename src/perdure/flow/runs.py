"""Parked runs, kept so that whoever claims one again here need not run it from its log. Bounded; the oldest goes first.

Belongs to the loop that drives the runs; only `seen` may be read from another thread.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from perdure.core.events import Event
from perdure.errors import LeaseLost
from perdure.flow.driver import Outcome, Run
from perdure.flow.journal import Journal, PreviewJournal


@dataclass(slots=True)
class Live:
    """A run with what it is driven under."""

    run: Run
    fence: int
    """Of the claim that drives it, or drove it until it parked."""
    active_limit_ms: int | None = None
    """How long it may be owned in all; None: as long as it takes."""
    room: str = ""
    """Of a wake, whose acts are recorded by what does them."""
    abandoned: bool = False
    """Whether it is a wake that is not to be carried on."""


class Runs:
    """At most so many runs that wait for somebody. Everything but `seen` belongs to one loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, Live] = OrderedDict()
        """By execution, oldest first."""
        self._closing: set[asyncio.Task[None]] = set()
        """Runs that made room, on their way out."""
        self.seen: dict[str, int] = {}
        """Last `seq` fed to each: a claim then sends only what is newer."""

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, execution: str, live: Live) -> None:
        """Keep a run that has just parked; the oldest ones beyond the bound are closed, soon."""
        self._kept[execution] = live
        self.seen[execution] = live.run.replay.last_seq
        while len(self._kept) > self._most:
            oldest, old = self._kept.popitem(last=False)
            del self.seen[oldest]
            closing = asyncio.get_running_loop().create_task(old.run.close(), name=f"close {oldest}")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def drive(
        self,
        owned: dict[str, Live],
        live: Live,
        journal: Journal,
        events: Iterable[Event],
        previews: PreviewJournal | None = None,
    ) -> Outcome:
        """Drive a run as the one of its execution in `owned`: to be kept if it parks, else to be thrown away."""
        execution = live.run.execution
        if (older := owned.get(execution)) is not None:  # its lease ran out here, and it came back here
            older.run.interrupt(LeaseLost(f"execution {execution} was claimed again"))
        owned[execution] = live
        outcome: Outcome = "lost"
        try:
            outcome = await live.run.drive(journal, events, previews)
        finally:
            if owned.get(execution) is live:
                del owned[execution]
            if outcome != "parked":
                await live.run.close()
        if outcome == "parked":
            self.keep(execution, live)
        return outcome

    async def take(self, execution: str, fence: int) -> Live | None:
        """Give up the run of an execution that was claimed under `fence`; None if it has to be run from its log.

        A run is good only if this claim follows its own: after anybody else's, it may have missed what they did, and is
        closed.
        """
        self.seen.pop(execution, None)
        live = self._kept.pop(execution, None)
        if live is None:
            return None
        if live.fence + 1 != fence:
            await live.run.close()
            return None
        live.fence = fence
        return live

    async def close(self) -> None:
        """Throw all of them away."""
        await asyncio.gather(*self._closing, return_exceptions=True)
        for live in self._kept.values():
            await live.run.close()
        self._kept.clear()
        self.seen.clear()
