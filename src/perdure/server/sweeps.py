"""Run the sweeps of one process: each in batches, in turns, and none kept up by a row that cannot be handled.

A pass that breaks is halved until the row that breaks it stands alone. That one is named in the log, left out, and
tried again later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from perdure import failpoints
from perdure.core.ports import Clock
from perdure.engine.approvals import ESCALATION
from perdure.engine.children import LEFT
from perdure.engine.delay import START, STARTING, begin_delayed
from perdure.engine.due import Name, Pick, Sweep, first_due, name_of
from perdure.engine.escalate import ESCALATING, escalate_approvals
from perdure.engine.expire import UNDECIDED, expire_approvals
from perdure.engine.look import deadlines
from perdure.engine.orphans import LEAVING, cancel_children
from perdure.engine.policy import UNRULED, rule_by_policy
from perdure.engine.retention import OVER, forget
from perdure.engine.schedule import TICKING, fire_schedules
from perdure.engine.sweep import (
    SILENT_HOLDERS,
    SILENT_WORKERS,
    TIMERS,
    expire_owned,
    expire_tasks,
    fire_timers,
)
from perdure.engine.token import EXPIRING, EXPIRY, expire_tokens
from perdure.engine.tries import OVERDUE, TRIES, expire_tries
from perdure.errors import Retryable, StoreFailed
from perdure.log import get_log
from perdure.server.bridge import Bridge
from perdure.server.retention import Retention
from perdure.server.store_time import StoreTime
from perdure.store.operation import Operation

log = get_log(__name__)

SWEEP_SECONDS = 0.5
"""How often to see whether a lease ran out or a timer is due: a read, and a write only if so."""
SWEEP_LIMIT = 500
"""Rows per pass; a full pass is followed by another, after the other sweeps had their turn."""
SKIP_MS = 60_000
"""How long a row is left out on which a pass broke."""
FORGET_LIMIT = 100
"""Executions that are deleted at a time: no row of anybody else waits longer for the writer than that takes."""
MOST_SKIPPED = 100
"""Rows of one sweep that are left out at a time: if it breaks on more, it is not the rows."""

T = TypeVar("T")
Due = Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class SweepKind:
    """One kind of sweep."""

    name: str
    due: str
    """Its name among the `deadlines`, which say when there is something to do."""
    operation: Operation[Sweep, int]
    pick: Pick
    limit: int = SWEEP_LIMIT
    """Rows per pass."""


SWEEPS: tuple[SweepKind, ...] = (
    SweepKind("timers", "timer_ms", fire_timers, TIMERS),
    SweepKind(START, "start_ms", begin_delayed, STARTING),
    SweepKind("tasks", "task_ms", expire_tasks, SILENT_WORKERS),
    SweepKind("owners", "owned_ms", expire_owned, SILENT_HOLDERS),
    SweepKind(TRIES, "tries_ms", expire_tries, OVERDUE),
    SweepKind(EXPIRY, "token_ms", expire_tokens, EXPIRING),
    SweepKind("approvals", "approval_ms", expire_approvals, UNDECIDED),
    SweepKind(ESCALATION, "escalation_ms", escalate_approvals, ESCALATING),
    SweepKind("schedules", "schedule_ms", fire_schedules, TICKING),
    SweepKind(LEFT, "children_ms", cancel_children, LEAVING),
    SweepKind("rule", "rule_ms", rule_by_policy, UNRULED),
)
FORGETTING = SweepKind("retention", "", forget, OVER, FORGET_LIMIT)
"""Asked for by `Retention` and not by `deadlines`; one pass a round, as nobody waits for it."""


@dataclass(slots=True)
class _Course:
    """How a kind of sweep fares. Owner: the one task that sweeps."""

    limit: int
    skipped: dict[Name, int] = field(default_factory=dict[Name, int])
    """Rows left out, and until when by the monotonic clock."""

    def skip(self, now_ms: int) -> frozenset[Name]:
        self.skipped = {name: until for name, until in self.skipped.items() if until > now_ms}
        return frozenset(self.skipped)


class Sweeps:
    """The sweeps of one node. Run `run` in one task until it is cancelled."""

    def __init__(
        self,
        bridge: Bridge,
        store_time: StoreTime,
        clock: Clock,
        kinds: Sequence[SweepKind] = SWEEPS,
        look: Callable[[], Awaitable[Due]] | None = None,
        retention: Retention | None = None,
    ) -> None:
        """`look` waits for the next look at what is due and returns it, if somebody looks anyway. Without `retention`
        nothing is deleted."""
        self._bridge = bridge
        self._store_time = store_time
        self._clock = clock
        self._kinds = kinds
        self._next_look = look or self._look
        self._retention = retention
        self._courses = {kind.name: _Course(kind.limit) for kind in (*kinds, FORGETTING)}

    async def run(self) -> None:
        """Sweep until cancelled. Raises only `StoreFailed`."""
        while True:
            busy = await self._trying("due", self._due) or []
            while busy:
                busy = [kind for kind in busy if await self._trying(kind.name, partial(self._pass, kind))]
            if self._retention is not None:
                await self._trying(FORGETTING.name, partial(self._forget, self._retention))

    async def _due(self) -> list[SweepKind]:
        """Return the sweeps that have something to do."""
        due = await self._next_look()
        now_ms = await self._store_time.now_ms()
        return [kind for kind in self._kinds if (due[kind.due] or now_ms + 1) <= now_ms]

    async def _forget(self, retention: Retention) -> None:
        """Delete one batch of what ended long ago, if it is time to look for it."""
        if await retention.due(self._store_time) and await self._pass(FORGETTING):
            retention.more()

    async def _look(self) -> Due:
        await self._clock.sleep(SWEEP_SECONDS)
        return await self._bridge.read(deadlines)

    async def _trying(self, part: str, what: Callable[[], Awaitable[T]]) -> T | None:
        """Do a part. What fails is said and tried again with the next pass, and keeps no other part from it."""
        try:
            return await what()
        except StoreFailed:
            raise
        except Retryable as error:  # a database that is away, for instance
            log.debug("sweep.put_off", part=part, code=error.code, action="will try again")
        except Exception as error:
            log.exception("sweep.failed", part=part, error=type(error).__name__, action="will try again")
        return None

    async def _pass(self, kind: SweepKind) -> bool:
        """Sweep one batch; return whether there may be more."""
        course = self._courses[kind.name]
        skip = course.skip(self._clock.monotonic_ms())
        limit = course.limit
        try:
            found = await self._bridge.run(kind.operation, Sweep(limit, skip))
        except (StoreFailed, failpoints.InjectedFault):
            raise
        except Retryable as error:
            log.warning("sweep.put_off", part=kind.name, code=error.code, action="will try again")
            return False
        except Exception as error:  # noqa: BLE001 - whatever a row did to it, the others are not to wait
            return await self._isolate(kind, limit, skip, error)
        course.limit = min(limit * 4, kind.limit)
        return found >= limit

    async def _isolate(self, kind: SweepKind, limit: int, skip: frozenset[Name], error: Exception) -> bool:
        """Come closer to the row on which a pass broke; leave it out once it stands alone."""
        course = self._courses[kind.name]
        course.limit = max(limit // 2, 1)
        if limit > 1:
            return True
        now_ms = await self._store_time.now_ms()
        row = await self._bridge.read(lambda reads: first_due(reads, kind.pick, now_ms, skip))
        if row is None or len(skip) >= MOST_SKIPPED:
            raise error
        course.skipped[name_of(row)] = self._clock.monotonic_ms() + SKIP_MS
        log.error(
            "sweep.row_skipped",
            part=kind.name,
            row="/".join(name_of(row)),
            error=f"{type(error).__name__}: {error}"[:300],
            action="the others go on; look at this one, it is tried again in a minute",
        )
        return True
