"""Give ready executions to a server: the `ready` row goes, the fence rises, a lease begins, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from perdure.core import states
from perdure.core.events import READABLE_FORMATS, Kind
from perdure.engine.turns import alternating
from perdure.engine.wake import was_abandoned
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Params, Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

LOG_PAGE = 1_000
"""Events that come with a claim; the rest is read page by page."""
CLAIM_BYTES = 256 * 1024
"""About how much of each log comes with it: all of these are read inside one transaction, while nobody else writes."""
FEW = 4
"""So many events come whatever their size: to measure them would take as long as to read most of them."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A server's wish for work."""

    holder: str
    """Random per boot of a server."""
    limit: int
    lease_ms: int
    known: Mapping[str, int] = field(default_factory=dict[str, int])
    """Last `seq` seen of executions whose live coroutine the holder still has: only newer events are sent."""
    after: str = ""
    """The company that it was given an execution of last: those that come after it are next."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """An execution that is now the claimer's, until its lease ends."""

    ref: Ref
    company: str
    agent: str
    definition: str
    fence: int
    state: str
    last_seq: int
    active_ms: int
    events: Sequence[Params | Row]
    """Above `known`, in order: a few or, if there are more, at most `LOG_PAGE` and about `CLAIM_BYTES` of them."""
    build: str = ""
    """Of the code that a durable function began with."""


def _keys(row: Claim) -> tuple[str, ...]:
    return (f"server/{row.holder}",)


@operation(keys=_keys)
def claim(tx: Tx, rows: Sequence[Claim]) -> Steps[list[Claimed]]:
    """Claim up to `limit` executions each: companies take turns, and of each the most urgent is first, then the longest
    ready. Those of an unreadable format stay ready.
    """
    picked = _candidates(tx, rows)
    yield [Ref(row["shard"], row["execution"]) for rows_ in picked for row in rows_]
    return claimed(tx, [[_take(tx, row, found) for found in some] for row, some in zip(rows, picked, strict=True)])


def _candidates(tx: Tx, rows: Sequence[Claim]) -> list[list[Row]]:
    """Share what is next on the ready list out among the claimers of this batch."""
    limit = sum(row.limit for row in rows)
    found = _next(tx, rows[0].after, limit) if limit > 0 else []
    shares: list[list[Row]] = []
    at = 0
    for row in rows:
        shares.append(found[at : at + row.limit])
        at += row.limit
    return shares


def _next(tx: Tx, last: str, limit: int) -> list[Row]:
    """Return up to `limit` candidates: one of each company, from the one on that comes after `last`, and then again.

    Where one company alone has any, and it was the last, that costs one query; and in any case no more for its backlog.
    """
    formats = {"oldest": min(READABLE_FORMATS), "newest": max(READABLE_FORMATS)}
    found = tx.rows("ready_executions", company=last, limit=limit, **formats)
    own = [row for row in found if not row["onward"]]
    if len(own) == len(found):
        return own
    companies = [row["company"] for row in tx.rows("ready_companies", after=last, limit=limit)]
    if len(companies) < limit:
        companies += [row["company"] for row in tx.rows("ready_companies", after="", limit=limit)]
    others = [one for one in dict.fromkeys(companies) if one != last][:limit]
    given = tx.each("ready_executions", [{"company": one, "limit": limit, **formats} for one in others])
    lines = [*([row for row in some if not row["onward"]] for some in given), own]
    return list(alternating(lines))[:limit]


def _take(tx: Tx, claim: Claim, found: Row) -> Taken | None:
    row = own(tx, found, Ownership(claim.holder, claim.lease_ms))
    return None if row is None else (row, claim.known.get(row.id, 0))


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whose an execution becomes, and for how long without a renewal."""

    holder: str
    lease_ms: int
    company: str = ""
    """Of a holder that is a worker; servers are nobody's."""
    nonce: str = ""


def own(tx: Tx, found: Row, by: Ownership) -> ExecutionRow | None:
    """Make a ready execution that the transaction has locked its claimer's; None if it is not to be had any more."""
    row = tx.execution(found["execution"])
    if row is None or row.ownership != states.Ownership.READY or not row.may("claim"):
        return None
    if row.log_format not in READABLE_FORMATS:  # a newer server wrote to it since it was found
        return None
    abandoned = _abandoned(tx, row, found)
    tx.later("delete_ready", shard=row.shard, execution=row.id)
    row.move("claim")
    row.fence += 1
    row.ownership = states.Ownership.OWNED
    if abandoned:
        tx.append(row, Kind.TAKEN_OVER, data={"fence": row.fence})
    tx.later(
        "insert_owned",
        shard=row.shard,
        execution=row.id,
        holder=by.holder,
        company=by.company,
        nonce=by.nonce,
        fence=row.fence,
        since_ms=tx.now_ms,
        lease_until_ms=tx.now_ms + by.lease_ms,
    )
    return row


def _abandoned(tx: Tx, row: ExecutionRow, found: Row) -> bool:
    """Say whether its last holder let go of nothing. Whoever had it since it was found has raised its fence."""
    return bool(found["abandoned"]) if row.fence == found["fence"] else was_abandoned(tx, row)


Taken = tuple[ExecutionRow, int]
"""An execution that has a new owner, and up to which `seq` that one knows its log."""


def claimed(tx: Tx, taken: Sequence[Sequence[Taken | None]]) -> list[list[Claimed]]:
    """Return, for each claim, what it took as the new owner needs it: each with the first page of its log above what
    is known. All are read together, which is one round trip or two."""
    found = [one for some in taken for one in some if one is not None]
    logs = {one[0].id: log for one, log in zip(found, _logs(tx, found), strict=True)}
    return [[_claimed(tx, one, logs[one[0].id]) for one in some if one is not None] for some in taken]


def _logs(tx: Tx, taken: Sequence[Taken]) -> Iterator[list[Row]]:
    pages = [{"shard": row.shard, "execution": row.id, "after": after, "limit": LOG_PAGE} for row, after in taken]
    few = [row.next_seq - 1 - after <= FEW for row, after in taken]
    short = iter(tx.each("events_after", [page for page, is_few in zip(pages, few, strict=True) if is_few]))
    bounded = [{**page, "most": CLAIM_BYTES} for page, is_few in zip(pages, few, strict=True) if not is_few]
    long = iter(tx.each("events_page", bounded))
    return (next(short if is_few else long) for is_few in few)


def _claimed(tx: Tx, taken: Taken, stored: list[Row]) -> Claimed:
    row, after = taken
    own = tx.appended(row.id, after)
    whole = (stored[-1]["seq"] if stored else after) + len(own) == row.next_seq - 1
    return Claimed(
        ref=row.ref,
        company=row.company,
        agent=row.agent,
        definition=row.definition,
        fence=row.fence,
        state=row.state,
        last_seq=row.next_seq - 1,
        active_ms=row.active_ms,
        events=[*stored, *own] if whole else stored,
        build=row.build,
    )
