"""What the code of one run asked for, until it is started, recorded and answered: between its context and driver."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from perdure.core import codec
from perdure.core.events import Event, Kind
from perdure.core.items import BeginStep, EndStep, Item, SetTimer, SimulatedStep, StepDone
from perdure.flow.asks import Ask
from perdure.flow.bodies import Bodies
from perdure.flow.claims import Claims
from perdure.flow.context import Body, Context, Pending
from perdure.flow.forks import Offers
from perdure.flow.meter import Wait
from perdure.flow.replay import Replay

CLEANUP = ":cleanup"
"""Address of the timer that ends what the code does after a cancel."""


_DONE = (StepDone, EndStep, SimulatedStep)


class CleanupOver(Exception):
    """What the code still does after a cancel is skipped: its time is over, or somebody cancelled again."""


class Desk:
    """Owner: the driver, on its loop."""

    def __init__(self, execution: str, replay: Replay, ring: Callable[[], None], new_id: Callable[[str], str]) -> None:
        """`ring` is called whenever there may be something to do."""
        self.ring = ring
        self.outbox: deque[Item] = deque()
        """Asked for or done, and not yet in the log."""
        self.bodies = Bodies(execution, self.outbox.append, ring)
        self.finishing: tuple[str, Wait] | None = None
        self.claims = Claims(self.bodies, new_id)
        self.offers = Offers(self.outbox.append)
        self._replay = replay
        self._pending: dict[str, Pending] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        """Asked for once, which takes a system call."""

    # -- what the context calls

    def ask(
        self, kind: Kind, address: str, digest: str, *, item: Item | None = None, body: Body | None = None
    ) -> Pending:
        return self._pend(self._replay.ask(kind, address, digest), item, body)

    def ask_whether(self, address: str, digest: str, scope: str, body: Body) -> Pending:
        return self._pend(self._replay.ask_whether(address, digest, scope), None, body)

    def abandon(self, pending: Pending) -> None:
        self.bodies.abandon(pending.ask.address)

    def finish(self, output: str) -> Wait:
        self.finishing = (output, Wait())
        self.ring()
        return self.finishing[1]

    def _pend(self, ask: Ask, item: Item | None, body: Body | None) -> Pending:
        self._loop = self._loop or asyncio.get_running_loop()
        pending = self._pending[ask.address] = Pending(ask, Wait(loop=self._loop), item, body)
        if isinstance(item, BeginStep) and body is not None:
            self.claims.add(pending, item, body)
        self.ring()
        return pending

    # -- what the driver calls

    def deliver(self, ask: Ask, event: Event | None) -> None:
        """Hand an answer over; None: an earlier life of the code went past without it."""
        pending = self._pending.pop(ask.address)
        if ask.patient:
            self.claims.ended(ask.address)
        pending.wait.give(event)
        if pending.then is not None and event is not None:
            pending.then(event)

    def show(self, ask: Ask, event: Event) -> None:
        """Show that what was asked for is in the log."""
        if ask.patient:
            self.claims.heard(ask, event)
        elif (opened := self._pending[ask.address].opened) is not None:
            opened.give(event)

    def in_doubt(self, context: Context) -> bool:
        """Whether nothing may end yet: it is unknown what became of a claim, and nobody cancelled."""
        return self.claims.open and not context.cancel_requested

    def begin(self, asks: tuple[Ask, ...]) -> None:
        """Start these: bodies run, and everything else is to be written."""
        for ask in asks:
            pending = self._pending[ask.address]
            if pending.acting is not None and self._replay.forked:
                self.offers.ask(pending, pending.acting)
            else:
                self._begin(pending)

    def answered(self, items: tuple[Item, ...], events: list[Event], *, pausing: bool) -> None:
        """Begin what a fork asked for among these and may do: itself, or what stands in for it."""
        if not self.offers.asked:
            return
        for pending in self.offers.allowed(items, events, pausing=pausing):
            if pending.acting is None or pending.acting.simulate is None:
                self._begin(pending)
            else:
                claim = pending.item if isinstance(pending.item, BeginStep) else None
                self.bodies.simulate(pending.ask, pending.acting.simulate, claim)

    def _begin(self, pending: Pending) -> None:
        ask = pending.ask
        if (item := pending.item) is not None:
            if isinstance(item, BeginStep):
                self.claims.made(ask.address)
            self.outbox.append(item if item.address == ask.address else replace(item, address=ask.address))
        elif pending.body is not None:
            self.bodies.start(ask, pending.body, self._replay.takeovers)

    def begin_writing(self, asks: tuple[Ask, ...]) -> list[Ask]:
        """Start what is only to be written; return the rest, for `begin`."""
        rest = [ask for ask in asks if (found := self._pending[ask.address]).item is None or found.acting is not None]
        self.begin(tuple(ask for ask in asks if ask not in rest))
        return rest

    def done(self) -> tuple[Item, ...]:
        """Return what is known of how steps of this run ended, and not in the log yet."""
        return tuple(item for item in self.outbox if isinstance(item, _DONE))

    def set_deadline(self, delay_ms: int) -> None:
        """Have what the code does from now on end after a time, by the store's clock, with `CleanupOver`."""
        digest = codec.digest(delay_ms)
        self.ask(Kind.TIMER_SET, CLEANUP, digest, item=SetTimer(CLEANUP, digest, delay_ms)).then = _over


def _over(_event: Event) -> None:
    raise CleanupOver
