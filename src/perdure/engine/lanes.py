"""Give the executions of durable functions to workers: claim, renew, release. One transaction each; never waits.

A worker claims in its company's name only what its builds serve. An execution keeps the build that first claimed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perdure.core import states
from perdure.core.codec import Json, encode_json
from perdure.core.events import READABLE_FORMATS
from perdure.core.functions import ClaimRequest, HeldExecution
from perdure.core.ids import shard_of
from perdure.core.work import Answer, FunctionLane
from perdure.engine.claim import Claimed, Ownership, Taken, claimed, own
from perdure.engine.sweep import abandon
from perdure.engine.wake import KEPT_MS, mark_of
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Reads, Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class ClaimLanes:
    """One worker's wish, in its company's name."""

    company: str
    request: ClaimRequest


MOST_CHARACTERS = 1_000
"""Of what a worker says of where code waits."""


@dataclass(frozen=True, slots=True)
class RenewExecutions:
    """A worker's heartbeat for the executions it owns."""

    company: str
    worker: str
    lease_ms: int
    held: tuple[HeldExecution, ...]


@dataclass(frozen=True, slots=True)
class ReleaseExecutions:
    """Executions that a worker owns and will not go on with: it is leaving."""

    company: str
    worker: str
    held: tuple[HeldExecution, ...]


@dataclass(frozen=True, slots=True)
class ShrinkOwned:
    """A worker's liveness connection closed: leave its ownerships only this long."""

    company: str
    worker: str
    left_ms: int


_Picked = tuple[Row, FunctionLane | None]
"""A candidate and whose lane it stands in; None: it is the worker's already."""


def _keys(row: ClaimLanes) -> tuple[str, ...]:
    return (f"claimer/{row.company}/{row.request.worker}",)


@operation(keys=_keys)
def claim_lanes(tx: Tx, rows: Sequence[ClaimLanes]) -> Steps[list[Claimed]]:
    """Claim up to `slots` executions each, the longest ready first within a lane.

    The same nonce gets the same ones again, prolonged. Those of other builds, or of an unreadable format, stay ready.
    """
    taken: set[str] = set()
    picked = [_again(tx, row) or _pick(tx, row, taken) for row in rows]
    yield [Ref(found["shard"], found["execution"]) for some in picked for found, _ in some]
    return claimed(tx, [[_take(tx, row, *found) for found in some] for row, some in zip(rows, picked, strict=True)])


def _again(tx: Tx, row: ClaimLanes) -> list[_Picked]:
    found = tx.rows("owned_of_nonce", holder=row.request.worker, company=row.company, nonce=row.request.nonce)
    return [(one, None) for one in found]


def _pick(tx: Tx, row: ClaimLanes, taken: set[str]) -> list[_Picked]:
    picked: list[_Picked] = []
    formats = {"oldest": min(READABLE_FORMATS), "newest": max(READABLE_FORMATS)}
    for lane in row.request.lanes:
        free = row.request.slots - len(picked)
        if free <= 0:
            break
        found = tx.rows(
            "ready_in_lane",
            company=row.company,
            lane=lane.name,
            build=lane.build,
            holder=mark_of(row.request.worker),
            left_before_ms=tx.now_ms - KEPT_MS,
            limit=free + len(taken),
            **formats,
        )
        fresh = [one for one in found if one["execution"] not in taken][:free]
        taken.update(one["execution"] for one in fresh)
        picked += [(one, lane) for one in fresh]
    return picked


def _take(tx: Tx, row: ClaimLanes, found: Row, lane: FunctionLane | None) -> Taken | None:
    request = row.request
    by = Ownership(request.worker, request.lease_ms, row.company, request.nonce)
    if lane is None:
        execution = tx.execution(found["execution"])
        if execution is None or not _renewed(tx, by, HeldExecution(execution.id, execution.fence)):
            return None
    else:
        execution = own(tx, found, by) if _served(tx.execution(found["execution"]), lane) else None
        if execution is None:
            return None
        execution.build = execution.build or lane.build
    return execution, request.known.get(execution.id, 0)


def _served(execution: ExecutionRow | None, lane: FunctionLane) -> bool:
    """Look again under the lock: another build may have begun it, and let go of it, since it was found."""
    return execution is not None and execution.build in ("", lane.build)


@operation()
def renew_executions(tx: Tx, rows: Sequence[RenewExecutions]) -> Steps[list[Answer]]:
    """Prolong ownerships; the fence does not change. One that is lost is answered so.

    Touches single rows in key order and reads executions, so it needs none of their locks.
    """
    yield ()
    answers: list[dict[HeldExecution, Answer]] = [{} for _ in rows]
    wanted = [(held, at) for at, row in enumerate(rows) for held in row.held]
    for held, at in sorted(wanted, key=lambda one: (shard_of(one[0].execution), one[0].execution)):
        row = rows[at]
        kept = _renewed(tx, Ownership(row.worker, row.lease_ms, row.company), held)
        answers[at][held] = Answer.ACCEPTED if kept else Answer.LEASE_LOST
    return [[answers[at][held] for held in row.held] for at, row in enumerate(rows)]


def _renewed(tx: Tx, by: Ownership, held: HeldExecution) -> bool:
    outside = held.outside[:MOST_CHARACTERS]
    params = {"shard": shard_of(held.execution), "execution": held.execution, "fence": held.fence, "outside": outside}
    until_ms = tx.now_ms + by.lease_ms
    return bool(tx.run("renew_execution", holder=by.holder, company=by.company, lease_until_ms=until_ms, **params))


@operation()
def release_executions(tx: Tx, rows: Sequence[ReleaseExecutions]) -> Steps[list[Answer]]:
    """Put executions back on the ready list at once, as abandoned: a step of theirs may have run unrecorded."""
    yield [Ref(shard_of(held.execution), held.execution) for row in rows for held in row.held]
    return [[_release(tx, row, held) for held in row.held] for row in rows]


def _release(tx: Tx, row: ReleaseExecutions, held: HeldExecution) -> Answer:
    execution = tx.execution(held.execution)
    if execution is None or execution.company != row.company or execution.fence != held.fence:
        return Answer.LEASE_LOST
    if execution.ownership != states.Ownership.OWNED:
        return Answer.ALREADY_ACCEPTED
    owner = tx.row("owner_of", shard=execution.shard, execution=execution.id)
    if owner is None or owner["holder"] != row.worker:
        return Answer.LEASE_LOST
    abandon(tx, execution)
    return Answer.ACCEPTED


@operation()
def shrink_owned(tx: Tx, rows: Sequence[ShrinkOwned]) -> Steps[int]:
    """Cut a worker's ownerships short; its next renewal restores them. Returns how many were cut."""
    yield ()
    return [
        tx.run("shrink_owned", company=row.company, holder=row.worker, until_ms=tx.now_ms + row.left_ms) for row in rows
    ]


def latest_of(reads: Reads, company: str, wanted: Mapping[str, Json]) -> dict[str, int]:
    """Return how far the logs of a company's executions go, given as {id: shard}."""
    rows = reads.rows("latest_of", wanted=encode_json(dict(wanted)), company=company)
    return {row["id"]: row["next_seq"] - 1 for row in rows}
