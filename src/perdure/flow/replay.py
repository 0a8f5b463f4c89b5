"""Decide what an execution's code may see next. Sans-IO: it is fed events and asked; it never awaits and never writes.

The rule: events reach the code strictly in `seq` order, one at a time, and the code runs until it waits again before
the next one. A step that is not in the log starts only when the log is used up. Live and on a re-run the code
therefore sees the same things in the same order, and asks for the same steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from perdure.core.events import ANSWERS, ANY_DIGEST, ASKED, Event, Kind
from perdure.flow.asks import Ahead, Ask, Maps, Signals


class Deliver(NamedTuple):
    """Hand this event to the code that waits at `ask`."""

    ask: Ask
    event: Event


class Opened(NamedTuple):
    """Show the code that what it asked for is in the log; the answer is another event."""

    ask: Ask
    event: Event


class Skip(NamedTuple):
    """Tell the code that an earlier life of it went past this ask without it."""

    ask: Ask


class Tell(NamedTuple):
    """Hand this event to the execution as a whole: a message, a request to stop or cancel, a ruling."""

    event: Event


class Begin(NamedTuple):
    """The log is used up: start these, in this order."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to hand over and nothing to start."""


_IDLE = Idle()

Move = Deliver | Opened | Skip | Tell | Begin | Idle


class Mismatch(Exception):
    """The log and the code disagree. The execution becomes `stuck`; trying again would change nothing."""


_TOLD = frozenset(
    {Kind.MESSAGE, Kind.TASK_REVIVED, Kind.EFFECT_CONTRADICTED, Kind.STOP_REQUESTED, Kind.CANCEL_REQUESTED}
)


class Replay:
    """The log of one execution on one side, what its code asks for on the other."""

    def __init__(self, execution: str) -> None:
        self._execution = execution
        self._queue: deque[Event] = deque()
        self._asks: dict[str, Ask] = {}
        self._new: list[Ask] = []
        self.last_seq = 0
        """The newest event fed."""
        self.takeovers = 0
        """Changes of holder since the last recorded asking: an unrecorded step may have been tried that often."""
        self.forked = False
        """Whether this is a fork, which asks before it acts."""
        self._signals = Signals()
        self._maps = Maps()
        self._ahead = Ahead(self._queue)

    def feed(self, events: Iterable[Event]) -> None:
        """Add events to the end of the log. Known ones are skipped, and what stands behind a gap is left out."""
        for event in events:
            if event.seq == self.last_seq + 1:
                self._queue.append(event)
                self.last_seq = event.seq
                if event.kind is Kind.FORKED:
                    self.forked = True
                elif event.kind is Kind.STEP_MAPPED:
                    self._maps.add(event)
                elif self._ahead.wanted:
                    self._ahead.fed(event)

    @property
    def used_up(self) -> bool:
        """Whether every event fed has been handed over."""
        return not self._queue

    def ask(self, kind: Kind, address: str, digest: str) -> Ask:
        """Note that the code wants the step at `address`. Raises `Mismatch` if it asked for that address before."""
        address, mapped = self._maps.of(address) if self._maps.given else (address, False)
        if address in self._asks:
            raise Mismatch(self._say(f"the code asks for step {address!r} a second time", "each address occurs once"))
        ask = Ask(kind, address, digest, mapped=mapped)
        self._asks[address] = ask
        self._new.append(ask)
        return ask

    def ask_whether(self, address: str, digest: str, scope: str) -> Ask:
        """Like `ask`, for a step that an earlier life of the code in this scope may not have known."""
        ask = self.ask(Kind.STEP_RECORDED, address, digest)
        self._ahead.want(ask, scope)
        return ask

    def advance(self, *, in_io: bool = False, paused: bool = False) -> Move:
        """Return what comes next. Call it only when the code has run dry.

        `in_io`: some of the code waits for something of its own, so a record it has not asked for yet is no mismatch.
        `paused`: nothing begins; what was asked for begins when it is over.
        """
        while self._queue:
            if self._ahead.wanted and (passed := self._ahead.passed()) is not None:
                return Skip(passed)
            move = self._look(self._queue[0], in_io=in_io)
            if isinstance(move, Idle):
                return move
            event = self._queue.popleft()
            if self._ahead.wanted:
                self._ahead.taken(event)
            if move is not None:
                return move
        if paused or not (self._new or self._ahead.wanted):
            return _IDLE
        if self._ahead.wanted:
            self._ahead.begun()
        new, self._new = self._new, []
        begin = tuple(ask for ask in new if not (ask.recorded or ask.abandoned or ask.answered))
        return Begin(begin) if begin else _IDLE

    def _look(self, event: Event, *, in_io: bool) -> Deliver | Opened | Tell | Idle | None:
        """Return where an event goes; None if nowhere; `Idle` if the code may still come to ask for it."""
        if event.kind in ASKED:
            return self._asked(event, in_io=in_io)
        if event.kind in ANSWERS:
            return self._answer(event)
        if event.kind is Kind.TASK_BEGUN:
            return self._shown_to_claimer(event)
        if event.kind is Kind.TAKEN_OVER:
            self.takeovers += 1
        elif event.kind is Kind.SIGNAL:
            return _deliver(self._signals.came(event), event)
        return Tell(event) if event.kind in _TOLD else None

    def _asked(self, event: Event, *, in_io: bool) -> Deliver | Opened | Idle | None:
        ask = self._asks.get(event.address)
        if ask is None:
            if in_io:
                return _IDLE
            raise Mismatch(self._say("the code does not ask for it" + self._instead(), _shown(event)))
        if ask.kind is not event.kind or (event.digest not in (ask.digest, ANY_DIGEST) and not ask.mapped):
            found = f"{ask.kind} with arguments {ask.digest or 'none'}"
            raise Mismatch(self._say(f"the code asks there for {found}", _shown(event)))
        if ask.recorded:
            raise Mismatch(self._say("that step is recorded a second time", _shown(event)))
        ask.recorded = True
        self.takeovers = 0
        if ask.abandoned:
            return None
        if ask.signal is not None and (signal := self._signals.wait(ask, ask.signal)) is not None:
            return _deliver(ask, signal)
        if event.kind is Kind.STEP_RECORDED:
            return _deliver(ask, event)
        return Opened(ask, event) if ask.opening else None

    def _shown_to_claimer(self, event: Event) -> Opened | None:
        """Show what became of a claim to the run that may have to make or end it, whether or not its code waits."""
        ask = self._asks.get(event.address)
        return Opened(ask, event) if ask is not None and ask.patient else None

    def _answer(self, event: Event) -> Deliver | Opened | Tell | None:
        ask = self._asks.get(event.address)
        if ask is None:
            raise Mismatch(self._say("the code never asked for that step", _shown(event)))
        if ask.answered:  # what became of an uncertain effect
            return Tell(event)
        if ask.patient:
            ask.answered = not _leaves_open(event)
            return Opened(ask, event) if ask.abandoned or not ask.answered else Deliver(ask, event)
        return None if ask.abandoned else _deliver(ask, event)

    def _instead(self) -> str:
        """Say what the code asks for that the log has nothing of."""
        asked = [f"{ask.address!r} ({ask.kind})" for ask in self._asks.values() if not (ask.recorded or ask.abandoned)]
        return f", but for {', '.join(asked[:3])}{' …' if len(asked) > 3 else ''}" if asked else ""

    def _say(self, found: str, logged: str) -> str:
        return (
            f"execution {self._execution}: the log says {logged}; {found}. The code of its agent, or of Perdure, "
            "changed under it. Go on with the version it began with, or cancel it and start anew. If the step only has "
            "another name now, say so: `perdure executions map EXECUTION OLD NEW`."
        )


def _deliver(ask: Ask | None, event: Event) -> Deliver | None:
    if ask is None:
        return None
    ask.answered = True
    return Deliver(ask, event)


def _leaves_open(event: Event) -> bool:
    """Say whether, after this, somebody else will still say what became of an effect."""
    ruled_run = event.kind is Kind.EFFECT_RULED and event.data.get("ruling") == "run"
    return event.kind is Kind.TASK_UNCERTAIN or ruled_run


def _shown(event: Event) -> str:
    return f"event {event.seq} is {event.kind} at {event.address!r} with arguments {event.digest or 'none'}"
