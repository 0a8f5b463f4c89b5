"""Replies in the making, told through the database to servers that do not ask the model: while somebody there looks on.

Nothing here has to last. What writes it is run beside the operations that do, over `Store.fleeting`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from perdure.core.codec import Json, encode_json
from perdure.core.ids import shard_of
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Params, Reads, Row
from perdure.store.sql_store import names
from perdure.store.tx import Tx

ONLOOKING_MS = 15_000
"""For how long it counts that somebody looks on. It is said again at half of that."""
LEFT_MS = 60_000
"""How long after that a row may lie there that its writer did not take away."""
MOST_READ = 65_536
"""Characters of one reply that a look reads; the next look goes on there."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One request to a model, as it is told."""

    execution: str
    id: str
    address: str
    attempt: int
    fence: int
    since_seq: int
    """An event of the log at which the reply was not recorded."""
    told: bool = True
    """Whether its text is told; else that there is one."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of its text."""

    reply: Reply
    begins: int
    """Characters before it."""
    text: str


@dataclass(frozen=True, slots=True)
class Telling:
    """All that one server has to tell at a time."""

    over: Sequence[Reply] = ()
    """Taken away, and with it what was told of the same step before, by this holder or an earlier one."""
    begun: Sequence[Reply] = ()
    """In the place of what was told of the same step before."""
    pieces: Sequence[Piece] = ()


@operation()
def tell_onlookers(tx: Tx, rows: Sequence[Telling]) -> Steps[None]:
    """Tell it, once however often it is run. Each server writes rows of its own."""
    yield ()
    gone = [_step(one) for row in rows for one in (*row.over, *row.begun)]
    tx.many("drop_relay_pieces", gone)
    tx.many("drop_relay_replies", gone)
    tx.many("insert_relay_reply", [_reply(one) for row in rows for one in row.begun])
    tx.many("insert_relay_piece", [_piece(one) for row in rows for one in row.pieces])
    return [None] * len(rows)


@operation()
def say_onlookers(tx: Tx, rows: Sequence[Sequence[str]]) -> Steps[None]:
    """Say that somebody looks on at executions. In one order: two servers may say it of the same ones."""
    yield ()
    wanted = sorted({(shard_of(one), one) for row in rows for one in row})
    times = {"now_ms": tx.now_ms, "until_ms": tx.now_ms + ONLOOKING_MS}
    tx.many("keep_relay_onlooker", [{"shard": shard, "execution": one, **times} for shard, one in wanted])
    return [None] * len(rows)


@operation()
def sweep_relay(tx: Tx, rows: Sequence[None]) -> Steps[None]:
    """Take away what was told by who died, and for whom nobody came after."""
    yield ()
    tx.run("sweep_relay_onlookers", before_ms=tx.now_ms - LEFT_MS)
    tx.run("sweep_relay_replies")
    tx.run("sweep_relay_pieces")
    return [None] * len(rows)


def any_left(reads: Reads, now_ms: int) -> bool:
    """Say whether there may be something to sweep."""
    return reads.row("any_relay_left", before_ms=now_ms - LEFT_MS) is not None


@dataclass(frozen=True, slots=True)
class Onlooker:
    """Somebody looks on from another server."""

    since_ms: int
    """Under another number nothing is there of what was told before."""
    head: int
    """The last event of the log."""


@dataclass(frozen=True, slots=True)
class Watching:
    """What a server wants to know of others."""

    asked: Iterable[str] = ()
    """Executions for which it asks a model itself."""
    followed: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """Others, at which somebody looks on here: how many characters are known of which reply."""


@dataclass(frozen=True, slots=True)
class Relayed:
    """What it found."""

    onlookers: Mapping[str, Onlooker] = field(default_factory=dict[str, Onlooker])
    """Of those it asks for: at which somebody looks on from elsewhere."""
    told: Mapping[str, Sequence[Row]] = field(default_factory=dict[str, Sequence[Row]])
    """Of the others: at least one row for each, in the order of their texts."""


def relayed(reads: Reads, watching: Watching, now_ms: int) -> Relayed:
    """Look for all of it. Costs nothing where there is nothing to look for."""
    return Relayed(_onlookers(reads, watching.asked, now_ms), _told(reads, watching.followed))


def _onlookers(reads: Reads, asked: Iterable[str], now_ms: int) -> dict[str, Onlooker]:
    wanted: dict[str, Json] = {one: shard_of(one) for one in asked}
    if not wanted:
        return {}
    rows = reads.rows("relay_onlookers_at", wanted=names("relay_onlookers_at", wanted), now_ms=now_ms)
    return {row["execution"]: Onlooker(row["since_ms"], row["head"]) for row in rows}


def _told(reads: Reads, followed: Mapping[str, Mapping[str, int]]) -> dict[str, Sequence[Row]]:
    wanted: dict[str, Json] = {one: {str(shard_of(one)): {**known}} for one, known in followed.items()}
    found: dict[str, list[Row]] = {}
    if wanted:
        for row in reads.rows("relayed", wanted=names("relayed", wanted), most=MOST_READ):
            found.setdefault(row["execution"], []).append(row)
    return {**found}


def _step(reply: Reply) -> Params:
    scope = {"shard": shard_of(reply.execution), "execution": reply.execution}
    return {**scope, "address": reply.address, "fence": reply.fence}


def _reply(reply: Reply) -> Params:
    own = {"reply": reply.id, "attempt": reply.attempt, "since_seq": reply.since_seq, "told": int(reply.told)}
    return {**_step(reply), **own}


def _piece(piece: Piece) -> Params:
    reply = piece.reply
    scope = {"shard": shard_of(reply.execution), "execution": reply.execution, "reply": reply.id}
    return {**scope, "begins": piece.begins, "piece": encode_json(piece.text, "piece of a reply")}
