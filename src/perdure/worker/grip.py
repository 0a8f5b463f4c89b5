"""A worker's hold on one task: whose it is, how long it lasts, and whether the body should stop.

Written on the worker's loop alone. The body, in whatever thread, only reads it, through its `ToolContext`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from enum import Enum, auto
from typing import Protocol

import anyio

from perdure.agent.context import Cancelled
from perdure.core.costs import total
from perdure.core.delivery import Delivery
from perdure.core.ports import Clock
from perdure.core.work import Held, LeasedTask
from perdure.errors import LeaseLost

SAVE_MS = 250
PROGRESS_MS = 1_000
"""How soon after the last heartbeat another one takes along what the body saved, or how far it says it is."""


class Phase(Enum):
    """How far an attempt has come."""

    RESERVED = auto()
    """Nothing was done; it may go back."""
    BEGINNING = auto()
    """`begin` was sent, and only its answer says whether the claim is ours."""
    ACTING = auto()
    """The claim is ours, or none is needed: the body runs, or is about to."""
    OVER = auto()
    """The body is done or given up; what is left to say is with `Reports`."""


class Stoppable(Protocol):
    """Something that can be asked to stop."""

    def cancel(self) -> None: ...


class Grip:
    """One task in this worker's hands."""

    def __init__(self, task: LeasedTask, clock: Clock, *, asked_ms: int, poke: Callable[[], None]) -> None:
        self.task = task
        self.held = Held(task.execution, task.address, task.fence)
        self.at_most_once = task.delivery == Delivery.AT_MOST_ONCE
        self.phase = Phase.RESERVED
        self.begun = False
        """The claim is durable: it never goes back."""
        self.nonce = ""
        """Of the `begin` that asked for the claim."""
        self.started = False
        """The body was started."""
        self.lost = False
        """Somebody else holds it, or it ended."""
        self.unwanted = False
        """Somebody asked for the execution to be cancelled."""
        self.leaving = False
        """This worker stops and has waited long enough."""
        self.late = False
        """The attempt ran out of time."""
        self.saved: str | None = None
        """What the body saved last. Written by the body's thread."""
        self.costs: list[tuple[str, str]] = []
        """What the body said that it cost: currency and amount. Put in by the body's threads, each in one step."""
        self._unsaid: dict[str, str] = {}
        """The newest progress and data that no heartbeat has taken along yet. Put in by the body's thread, taken out
        here, each in one step."""
        self.prolonged = asyncio.Event()
        self._clock = clock
        self._poke = poke
        self._stop: Stoppable | None = None
        self._told_ms = now = clock.monotonic_ms()
        self.deadline_ms = asked_ms + task.lease_ms
        """When the lease surely has not ended yet, by this process's clock: counted from before it was asked for."""
        # A long poll may have waited for most of a lease, so its end is no measure of when to beat first.
        self.due_ms = min(now + task.lease_ms // 3, self.deadline_ms - task.lease_ms // 6)

    def prolong(self, asked_ms: int) -> None:
        """Take note that a heartbeat sent at `asked_ms` was accepted."""
        self.deadline_ms = asked_ms + self.task.lease_ms
        self.due_ms = asked_ms + self.task.lease_ms // 3
        self.prolonged.set()

    @property
    def fresh(self) -> bool:
        """Whether enough of the lease is left to start something under it."""
        return self._clock.monotonic_ms() < self.deadline_ms - self.task.lease_ms // 6

    @property
    def stopping(self) -> bool:
        """Whether the body should stop, for whatever reason."""
        return self.lost or self.unwanted or self.leaving or self.late

    def guard(self, scope: anyio.CancelScope) -> None:
        """Until `act`, stopping cancels `scope`."""
        self._stop = scope
        if self.stopping:
            scope.cancel()

    def answered(self, *, begun: bool) -> None:
        """The answer to `begin` is here: stopping means something again."""
        self.begun = begun
        self.phase = Phase.ACTING if begun else Phase.RESERVED
        if self.stopping:
            self._halt()

    def act(self, body: Stoppable) -> None:
        """From now on stopping means to cancel `body`."""
        self.phase = Phase.ACTING
        self.started = True
        self._stop = body
        if self.stopping:
            body.cancel()

    def acted(self) -> None:
        """The body has ended: there is nothing to stop. Kept, it and this grip would keep each other."""
        self._stop = None

    def lose(self) -> None:
        """The lease is gone: stop."""
        if self.phase is not Phase.OVER:  # else a heartbeat overtook a report, whose own answer will say
            self.lost = True
            self._halt()

    def refuse(self) -> None:
        """Somebody wants it stopped."""
        if not self.unwanted:
            self.unwanted = True
            self._halt()

    def leave(self) -> None:
        """The worker stops."""
        if not self.leaving:
            self.leaving = True
            self._halt()

    def expire(self) -> None:
        """The attempt's time is up."""
        self.late = True
        self._halt()

    def abandon(self) -> None:
        """Stop waiting for whatever it waits for, `begin` included."""
        self.leaving = True
        if self._stop is not None:
            self._stop.cancel()

    def _halt(self) -> None:
        # The answer to `begin` is worth waiting for: without it nobody knows whether the claim was made.
        if self._stop is not None and self.phase in (Phase.RESERVED, Phase.ACTING):
            self._stop.cancel()

    # What the body sees, from any thread (`perdure.agent.context.Pulse`).

    @property
    def cancelled(self) -> bool:
        """Whether the body should stop."""
        return self.stopping

    def beat(self) -> None:
        """Have the lease prolonged if that is due. Raises `LeaseLost` or `Cancelled`."""
        if self.lost:
            raise LeaseLost(
                f"execution {self.task.execution}: {self.task.tool!r} at {self.task.address!r} belongs to somebody "
                "else now. Stop; what this attempt returns will be refused.",
                execution=self.task.execution,
                address=self.task.address,
            )
        if self.stopping:
            raise Cancelled(f"{self.task.tool!r} at {self.task.address!r} is not wanted any more")
        if self._clock.monotonic_ms() >= self.due_ms:
            self._poke()

    def note(self, progress: str) -> None:
        """Have the newest progress told with a heartbeat soon."""
        self._say("progress", progress)

    def save(self, data: str) -> None:
        """Have the newest data kept with a heartbeat very soon."""
        self.saved = data
        self._say("saved", data)

    def charge(self, currency: str, amount: str) -> None:
        """Have a cost told with the result."""
        self.costs.append((currency, amount))

    @property
    def cost(self) -> dict[str, str]:
        """What the attempt cost so far."""
        return total({currency: amount} for currency, amount in list(self.costs))

    def _say(self, what: str, text: str) -> None:
        first = what not in self._unsaid
        self._unsaid[what] = text
        if first:
            self._poke()

    # What the keeper asks.

    @property
    def wanted_ms(self) -> int:
        """When the next heartbeat should go out."""
        if not self._unsaid:
            return self.due_ms
        return min(self.due_ms, self._told_ms + (SAVE_MS if "saved" in self._unsaid else PROGRESS_MS))

    def tell(self) -> Held:
        """Return what the next heartbeat says; if it does not arrive, `untold` must be called."""
        self._told_ms = self._clock.monotonic_ms()
        if not self._unsaid:
            return self.held
        return replace(self.held, progress=self._unsaid.pop("progress", None), saved=self._unsaid.pop("saved", None))

    def untold(self, held: Held) -> None:
        """What this heartbeat said is to be said again, unless the body has said something newer."""
        if held.progress is not None:
            self._unsaid.setdefault("progress", held.progress)
        if held.saved is not None:
            self._unsaid.setdefault("saved", held.saved)
