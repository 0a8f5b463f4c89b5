"""The runs of one holder: those it drives now, and parked ones, kept so that it need not run them from their logs.

Belongs to the loop that drives the runs; only `seen` may be read from another thread.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from perdure.core.events import Event
from perdure.errors import LeaseLost, UserError
from perdure.flow.driver import Outcome, Run
from perdure.flow.journal import Journal, PreviewJournal

UNREADABLE = (ValueError, LookupError, TypeError, UserError)
"""What a log or a definition raises that cannot be read: trying again would not change it."""


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
    """By execution: `take` what was kept of it, `drive` it, and it is kept again if it parks, and else thrown away."""

    def __init__(self, most_kept: int) -> None:
        self._most_kept = most_kept
        self._driven: dict[str, Live] = {}
        self.driven: Mapping[str, Live] = MappingProxyType(self._driven)
        """Under their present claims: of an execution that was lost here and came back, the later one's."""
        self._kept: OrderedDict[str, Live] = OrderedDict()
        """Parked; the oldest comes first, and goes first."""
        self._closing: set[asyncio.Task[None]] = set()
        """Runs that made room, on their way out."""
        self.seen: dict[str, int] = {}
        """Last `seq` fed to each that is kept: a claim then sends only what is newer."""

    @property
    def kept(self) -> int:
        """How many parked runs it keeps."""
        return len(self._kept)

    def keep(self, execution: str, live: Live) -> None:
        """Keep a run that has just parked; the oldest ones beyond the bound are closed, soon."""
        self._kept[execution] = live
        self.seen[execution] = live.run.replay.last_seq
        while len(self._kept) > self._most_kept:
            oldest, old = self._kept.popitem(last=False)
            del self.seen[oldest]
            closing = asyncio.get_running_loop().create_task(old.run.close(), name=f"close {oldest}")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def drive(
        self, live: Live, journal: Journal, events: Iterable[Event], previews: PreviewJournal | None = None
    ) -> Outcome:
        """Drive a run as the one of its execution: see `Run.drive`."""
        execution = live.run.execution
        if (older := self._driven.get(execution)) is not None:  # its lease ran out here, and it came back here
            older.run.interrupt(LeaseLost(f"execution {execution} was claimed again"))
        self._driven[execution] = live
        outcome: Outcome = "lost"
        try:
            outcome = await live.run.drive(journal, events, previews)
        finally:
            if self._driven.get(execution) is live:
                del self._driven[execution]
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
        """Throw the kept ones away. Those that are driven end with the tasks that drive them."""
        await asyncio.gather(*self._closing, return_exceptions=True)
        for live in self._kept.values():
            await live.run.close()
        self._kept.clear()
        self.seen.clear()
