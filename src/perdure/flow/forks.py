"""What a run of a fork does before a step acts: it asks, and takes the origin's result, runs a stand-in, or waits.

Outside of forks nothing here runs. The server answers from the origin's log; see `engine/forked.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from perdure.core.events import ASKED, Event, Kind
from perdure.core.items import BeginStep, Item, OfferStep
from perdure.flow.context import Acting, Pending


class Offers:
    """Steps about to act that were offered, and those that have to wait for a person. Owner: the desk of a run."""

    def __init__(self, write: Callable[[Item], None]) -> None:
        self._write = write
        self._open: dict[str, Pending] = {}
        self._held: list[Pending] = []
        """Wait until the fork is resumed, and are then offered again."""

    @property
    def asked(self) -> bool:
        """Whether any waits for its answer."""
        return bool(self._open)

    def ask(self, pending: Pending, acting: Acting) -> None:
        """Ask whether it may act."""
        address = pending.ask.address
        self._open[address] = pending
        args = pending.item.args if isinstance(pending.item, BeginStep) else {}
        simulated = acting.simulate is not None
        step = acting.step or address
        self._write(OfferStep(address, pending.ask.digest, acting.kind, acting.name, step, args, simulated))

    def ask_again(self, *, pausing: bool) -> None:
        """Ask for those that were held, once somebody has resumed the fork."""
        if pausing or not self._held:
            return
        held, self._held = self._held, []
        for pending in held:
            if pending.acting is not None and not pending.ask.abandoned:
                self.ask(pending, pending.acting)

    def allowed(self, items: Iterable[Item], events: Iterable[Event], *, pausing: bool) -> Iterator[Pending]:
        """Take the answer to these; give those that may begin. What was recorded reaches the code like any record."""
        events = tuple(events)
        recorded = {event.address for event in events if event.kind in ASKED}
        paused = {event.address for event in events if event.kind is Kind.PAUSED}
        for item in items:
            pending = self._open.pop(item.address, None) if isinstance(item, OfferStep) else None
            if pending is None or item.address in recorded or pending.ask.abandoned:
                continue
            if pausing or (isinstance(item, OfferStep) and item.step in paused):
                self._held.append(pending)
            else:
                yield pending
