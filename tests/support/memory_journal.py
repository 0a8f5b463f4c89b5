"""A log in memory under the engine's rules, for what is proved about runs alone: no store, no thread, any loop.

`Journal` is a port; this is its third implementation, beside the direct one and the one over HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from perdure.core import codec
from perdure.core.events import ASKED, Event, Kind
from perdure.core.items import (
    ActInRoom,
    AwaitSignal,
    BeginStep,
    EndStep,
    HoldAct,
    Item,
    OfferStep,
    OpenApproval,
    OpenToken,
    ScheduleTask,
    SetTimer,
    SimulatedStep,
    StartChild,
    StepDone,
)
from perdure.errors import LeaseLost
from perdure.flow.driver import Run

TERMINAL = frozenset({Kind.COMPLETED, Kind.FAILED, Kind.CANCELLED})
STILL = frozenset({Kind.PAUSED, Kind.STUCK})


class MemoryLog:
    """One execution's log, and who may write to it."""

    def __init__(self, events: Sequence[Event] = ()) -> None:
        self.events = list(events) or [Event(1, Kind.STARTED, "", "", {"input": "hi"}, 0)]
        self.held: set[str] = set()
        """Tasks that workers hold: a cancelled execution does not end over them."""
        self.deaf = False
        """Whether hints are lost."""
        self.fence = 0
        self.overtaken = 0
        """How many runs were thrown away because they had been shown too much."""
        self.seen: dict[str, int] = {}
        """How far its holder knew the log when it appended an address, and"""
        self.known: dict[str, int] = {}
        """when it began it: earlier, for a step with a body."""
        self.journals: list[MemoryJournal] = []
        self.run: Run | None = None
        self.news = asyncio.Event()
        """Set by every append."""
        self.asking: set[str] = set()
        """Addresses that a holder is about to have appended."""
        self.on_append: Callable[[], None] = lambda: None
        self.on_ask: Callable[[], None] = lambda: None

    def append(self, kind: Kind, address: str = "", digest: str = "", /, **data: Any) -> Event:
        """Add a fact, and tell the holder's run unless it is deaf."""
        data = codec.decode(codec.encode(data))
        event = Event(len(self.events) + 1, kind, address, digest, data, 0)
        self.events.append(event)
        self.news.set()
        if self.run is not None and not self.deaf:
            self.run.hint([event], event.seq)
        self.on_append()
        return event

    def claim(self, run: Run) -> MemoryJournal:
        """Give it to a run. Whoever held it before has lost it."""
        self.fence += 1
        self.run = run
        self.journals.append(MemoryJournal(self, self.fence))
        return self.journals[-1]

    def take_over(self) -> None:
        """Take it away from a holder that did not let go."""
        self.fence += 1
        self.run = None
        self.append(Kind.TAKEN_OVER, fence=self.fence)

    def last(self, kinds: Iterable[Kind]) -> Event | None:
        """Return the latest event of these kinds."""
        return next((event for event in reversed(self.events) if event.kind in kinds), None)

    @property
    def ended(self) -> bool:
        return self.events[-1].kind in TERMINAL

    @property
    def still(self) -> bool:
        """Whether it is paused or stuck."""
        last = self.last({*STILL, Kind.RESUMED, Kind.CANCEL_REQUESTED})
        return last is not None and last.kind in STILL

    @property
    def cancelling(self) -> bool:
        return self.last({Kind.CANCEL_REQUESTED}) is not None

    @property
    def kinds(self) -> list[str]:
        return [str(event.kind) for event in self.events]

    def open(self) -> dict[str, Event]:
        """Return what was asked for and waits for an answer, by address."""
        waiting = {event.address: event for event in self.events if event.kind in ASKED}
        inline = {event.address for event in self.events if event.kind is Kind.TASK_BEGUN and "nonce" in event.data}
        for event in self.events:
            over = event.kind not in ASKED or event.kind is Kind.STEP_RECORDED
            if over and (event.address not in inline or not _leaves_open(event)):
                waiting.pop(event.address, None)
        return waiting


def _leaves_open(event: Event) -> bool:
    """Say whether a claim that the holder made itself goes on after this."""
    ruled_run = event.kind is Kind.EFFECT_RULED and event.data.get("ruling") == "run"
    return ruled_run or event.kind in (Kind.TASK_BEGUN, Kind.TASK_UNCERTAIN)


class MemoryJournal:
    """`Journal` under one fence."""

    def __init__(self, log: MemoryLog, fence: int) -> None:
        self._log = log
        self._fence = fence
        self.verbs: list[str] = []
        """What was asked of it, in order."""
        self.gate: Callable[[str], Any] | None = None
        """Awaited before a verb takes effect."""

    async def record(self, seen: int, items: Sequence[Item]) -> list[Event]:
        self._log.asking.update(item.address for item in items)
        self._log.on_ask()
        await self._enter("record")
        self._append_all(seen, items)
        return self._log.events[seen:]

    def _append_all(self, seen: int, items: Sequence[Item]) -> None:
        known = {event.address for event in self._log.events[seen:] if event.kind in ASKED}
        for item in items:
            if isinstance(item, EndStep):
                self._end(item)
            elif isinstance(item, BeginStep) and any(one.address == item.address for one in self._log.events):
                self._append(Kind.TASK_BEGUN, item.address, nonce=item.nonce)
            elif item.address not in known:
                kind, data = _fact(item)
                self._append(kind, item.address, item.digest, **data)
                self._log.known.setdefault(item.address, seen)
                self._log.seen[item.address] = seen
                if isinstance(item, BeginStep):
                    self._append(Kind.TASK_BEGUN, item.address, nonce=item.nonce)

    async def record_previewed(self, seen: int, items: Sequence[Item]) -> list[Event] | None:
        """As `PreviewJournal` has it."""
        self._log.asking.update(item.address for item in items)
        self._log.on_ask()
        await self._enter("record_previewed")
        unseen = self._log.events[seen:]
        overtaken = bool(unseen) and unseen[0].address != items[0].address
        self._append_all(seen, items[:1] if overtaken else items)
        return None if overtaken else self._log.events[seen + 1 :]

    def _end(self, item: EndStep) -> None:
        latest = [one for one in self._log.events if one.address == item.address][-1]
        nonces = [one.data["nonce"] for one in self._log.events if "nonce" in one.data and one.address == item.address]
        if item.outcome == "lost":
            if latest.kind is Kind.TASK_BEGUN:
                self._append(Kind.TASK_UNCERTAIN, item.address, why="gone")
        elif item.nonce != nonces[-1] or latest.kind not in (Kind.TASK_BEGUN, Kind.TASK_UNCERTAIN):
            return
        elif item.outcome == "completed":
            self._append(Kind.TASK_COMPLETED, item.address, value=codec.decode(item.value))
        elif latest.kind is Kind.TASK_BEGUN:
            self._append(Kind.TASK_UNCERTAIN, item.address, why=item.outcome)

    async def events(self, after: int) -> list[Event]:
        await self._enter("events")
        return self._log.events[after:]

    async def park(self, seen: int, active_ms: int) -> list[Event]:
        await self._enter("park")
        if len(self._log.events) == seen:
            self._let_go()
        return self._log.events[seen:]

    async def finish(
        self, seen: int, active_ms: int, event: Literal["complete", "fail", "end"], data: str
    ) -> list[Event] | Literal["ended", "held"]:
        await self._enter("finish")
        if len(self._log.events) != seen:
            return self._log.events[seen:]
        if self._log.still or (self._log.cancelling and self._log.held):
            return "held"
        kind = Kind.CANCELLED if self._log.cancelling else {"complete": Kind.COMPLETED, "fail": Kind.FAILED}[event]
        self._append(kind, **({} if self._log.cancelling else codec.decode(data)))
        self._let_go()
        return "ended"

    async def halt(self, event: Literal["pause", "stick"], reason: str, message: str) -> None:
        await self._enter("halt")
        if self._log.cancelling:
            self._append(Kind.CANCELLED)
        elif not self._log.still:
            self._append(Kind.PAUSED if event == "pause" else Kind.STUCK, reason=reason, message=message)
        self._let_go()

    async def _enter(self, verb: str) -> None:
        self.verbs.append(verb)
        await asyncio.sleep(0)
        if self.gate is not None:
            await self.gate(verb)
        if self._fence != self._log.fence or self._log.ended:
            raise LeaseLost("its fence moved on")

    def _append(self, kind: Kind, address: str = "", digest: str = "", /, **data: Any) -> None:
        run, self._log.run = self._log.run, None  # the answer brings one's own along
        self._log.append(kind, address, digest, **data)
        self._log.run = run

    def _let_go(self) -> None:
        self._log.run = None


def _fact(item: Item) -> tuple[Kind, dict[str, Any]]:
    match item:
        case StepDone():
            return Kind.STEP_RECORDED, codec.decode(item.data)
        case ScheduleTask():
            return Kind.TASK_SCHEDULED, {"tool": item.tool, "args": item.args}
        case OpenApproval():
            return Kind.WAIT_OPENED, {"id": item.id, "tool": item.tool, "args": item.args}
        case SetTimer():
            return Kind.TIMER_SET, {"due_ms": item.delay_ms}
        case OpenToken():
            return Kind.WAIT_OPENED, {"id": item.id, "kind": "token", "name": item.name, "base": item.base}
        case AwaitSignal():
            return Kind.WAIT_OPENED, {"kind": "signal", "name": item.name}
        case BeginStep() | EndStep():
            name = item.name if isinstance(item, BeginStep) else ""
            return Kind.TASK_SCHEDULED, {"tool": name, "delivery": "at_most_once"}
        case ActInRoom():
            return Kind.STEP_RECORDED, {"value": {"id": "", "seq": 0}}
        case HoldAct():
            return Kind.WAIT_OPENED, {"id": item.id, "kind": "approval"}
        case StartChild():
            return Kind.CHILD_STARTED, {"execution": item.id, "agent": item.agent}
        case OfferStep() | SimulatedStep():
            raise AssertionError("only forks say this, and there are none here")
