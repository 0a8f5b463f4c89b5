"""A source of tasks in memory, by the rules of the real one, with faults to order: for the worker's mechanics only.

Leases run by the same clock as the worker's. Every request is noted before it is answered.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.core.codec import Json
from perdure.core.ports import Clock
from perdure.core.work import Answer, Begin, Held, LeasedTask, LeaseRequest, Report, WorkerInfo
from perdure.errors import Unreachable

Verb = Literal["lease", "begin", "report", "beat", "hand_back", "alive"]


@dataclass
class Row:
    """One task as the source sees it."""

    task: LeasedTask
    state: str = "ready"
    fence: int = 0
    attempt: int = 0
    nonce: str = ""
    begin_nonce: str = ""
    lease_until_ms: int = 0
    reports: list[Report] = field(default_factory=list)
    """The accepted ones."""


@dataclass
class Fault:
    """What befalls the next request of a verb."""

    error: Exception | None = None
    after: bool = False
    """The request counts, and its reply is lost."""
    hang: asyncio.Event | None = None
    """The request waits for this before anything happens."""


class MemoryTasks:
    """`TaskSource` for tests."""

    def __init__(self, clock: Clock, *, waits: bool = True, beat_ms: int = 30_000) -> None:
        self._clock, self._waits, self._beat_ms = clock, waits, beat_ms
        self.rows: dict[str, Row] = {}
        self.seen: list[tuple[Verb, Any]] = []
        """Every request, in order."""
        self.faults: dict[Verb, list[Fault]] = defaultdict(list)
        self.in_flight: dict[Verb, int] = defaultdict(int)
        self.cancelling = False
        self.lapses = 0
        """How often a heartbeat or report came after its lease had run out."""
        self.careless = False
        """Gives out tasks that were not asked for."""
        self.open = True
        self.name = "str_1/default"
        self._changed = asyncio.Event()
        self._closed = asyncio.Event()
        self._numbers = itertools.count(1)

    # What a test does and waits for.

    def add(self, tool: str, args: dict[str, Json] | None = None, **more: Any) -> str:
        """Put a task on the queue and return its address."""
        address = f"turn 1 / tool / {next(self._numbers)}"
        facts: dict[str, Any] = {
            "execution": "exe_1", "address": address, "agent": "agent", "tool": tool, "queue": "default",
            "args": args or {}, "delivery": "at_least_once", "key": f"exe_1/{address}", "attempt": 0, "fence": 0,
            "lease_ms": 0, "timeout_ms": 0, **more,
        }  # fmt: skip
        self.rows[address] = Row(LeasedTask(**facts))
        self._change()
        return address

    def sent(self, verb: Verb) -> list[Any]:
        """Return what was asked with one verb."""
        return [what for name, what in self.seen if name == verb]

    def outcomes(self, address: str) -> list[str]:
        """Return how the attempts at a task were accepted to have ended."""
        return [report.outcome for report in self.rows[address].reports]

    async def until(self, fact: Callable[[], bool]) -> None:
        """Return as soon as `fact` holds. Looked at after each request and change."""
        while True:
            self._changed.clear()
            if fact():
                return
            await self._changed.wait()

    async def reported(self, *addresses: str) -> None:
        """Return when a report was accepted for each."""
        await self.until(lambda: all(self.rows[address].reports for address in addresses))

    def close_link(self) -> None:
        """Break the liveness connection; `open_link` lets it come back."""
        self.open = False
        self._closed.set()

    def open_link(self) -> None:
        self.open = True
        self._change()

    def note(self) -> None:
        """Have `until` look again."""
        self._change()

    def _change(self) -> None:
        self._changed.set()

    # The protocol.

    async def lease(self, request: LeaseRequest, *, wait_seconds: float) -> list[LeasedTask]:
        return await self._ask("lease", request, lambda: self._lease(request), wait_seconds)

    async def begin(self, begin: Begin) -> Answer:
        return await self._ask("begin", begin, lambda: self._begin(begin))

    async def report(self, worker: str, reports: Sequence[Report]) -> list[Answer]:
        return await self._ask("report", list(reports), lambda: [self._report(one) for one in reports])

    async def beat(self, worker: str, held: Sequence[Held]) -> list[Answer]:
        return await self._ask("beat", list(held), lambda: [self._beat(one) for one in held])

    async def hand_back(self, worker: str, held: Sequence[Held]) -> list[Answer]:
        return await self._ask("hand_back", list(held), lambda: [self._hand_back(one) for one in held])

    async def alive(self, info: WorkerInfo) -> AsyncIterator[str]:
        self.seen.append(("alive", info))
        self._change()
        if not self.open:
            raise Unreachable("nobody answers")
        self._closed.clear()
        yield self.name
        await self._closed.wait()

    async def _ask(self, verb: Verb, what: Any, answer: Callable[[], Any], wait_seconds: float = 0) -> Any:
        self.seen.append((verb, what))
        self.in_flight[verb] += 1
        self._change()
        try:
            fault = self.faults[verb].pop(0) if self.faults[verb] else Fault()
            if fault.hang is not None:
                await fault.hang.wait()
            if fault.error is not None and not fault.after:
                raise fault.error
            found = await self._waited(answer, wait_seconds) if wait_seconds and self._waits else answer()
            if fault.error is not None:
                raise fault.error
            return found
        finally:
            self.in_flight[verb] -= 1
            self._change()

    async def _waited(self, answer: Callable[[], Any], wait_seconds: float) -> Any:
        """Answer as soon as there is something, or after the time."""
        alarm = asyncio.ensure_future(self._clock.sleep(wait_seconds))
        try:
            while not (found := answer()) and not alarm.done():
                stirred = asyncio.ensure_future(self.until(lambda: any(r.state == "ready" for r in self.rows.values())))
                try:
                    await asyncio.wait({alarm, stirred}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    stirred.cancel()
            return found
        finally:
            alarm.cancel()

    def _sweep(self) -> None:
        for row in self.rows.values():
            if row.state == "leased" and row.lease_until_ms < self._clock.monotonic_ms():
                row.state, row.nonce = "ready", ""

    def _lease(self, request: LeaseRequest) -> list[LeasedTask]:
        self._sweep()
        again = [row for row in self.rows.values() if row.state == "leased" and row.nonce == request.nonce]
        lanes = {(lane.agent, lane.tool, lane.queue) for lane in request.lanes}
        fresh = [row for row in self.rows.values() if row.state == "ready"]
        mine = [row for row in fresh if self.careless or (row.task.agent, row.task.tool, row.task.queue) in lanes]
        if not again:
            for row in mine[: request.slots]:
                row.state, row.nonce, row.fence, row.attempt = "leased", request.nonce, row.fence + 1, row.attempt + 1
                row.lease_until_ms = self._clock.monotonic_ms() + request.lease_ms
                again.append(row)
        return [self._leased(row, request.lease_ms) for row in again]

    def _leased(self, row: Row, lease_ms: int) -> LeasedTask:
        facts = {name: getattr(row.task, name) for name in LeasedTask.__slots__}
        return LeasedTask(**{**facts, "fence": row.fence, "attempt": row.attempt, "lease_ms": lease_ms})

    def _held(self, one: Held | Begin | Report) -> Row | None:
        row = self.rows[one.address]
        self.lapses += row.lease_until_ms < self._clock.monotonic_ms()
        return row if row.fence == one.fence and row.state in ("leased", "begun") else None

    def _begin(self, begin: Begin) -> Answer:
        row = self._held(begin)
        if row is None:
            return Answer.LEASE_LOST
        if row.state == "begun":
            return Answer.ALREADY_ACCEPTED if row.begin_nonce == begin.nonce else Answer.CONFLICT
        if self.cancelling:
            return Answer.CANCEL
        row.state, row.begin_nonce = "begun", begin.nonce
        return Answer.ACCEPTED

    def _report(self, report: Report) -> Answer:
        row = self._held(report)
        if row is None:
            same = self.rows[report.address]
            return Answer.ALREADY_ACCEPTED if report in same.reports else Answer.LEASE_LOST
        row.reports.append(report)
        row.state = "done" if report.outcome == "completed" else "uncertain" if row.state == "begun" else "dead"
        return Answer.ACCEPTED

    def _beat(self, held: Held) -> Answer:
        row = self._held(held)
        if row is None:
            return Answer.LEASE_LOST
        row.lease_until_ms = self._clock.monotonic_ms() + self._beat_ms
        return Answer.CANCEL if self.cancelling else Answer.ACCEPTED

    def _hand_back(self, held: Held) -> Answer:
        row = self._held(held)
        if row is None or row.state == "begun":
            return Answer.CONFLICT
        row.state, row.attempt = "ready", row.attempt - 1
        return Answer.ACCEPTED
