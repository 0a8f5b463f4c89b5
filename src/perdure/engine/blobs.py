"""Large values: take them piece by piece, let logs refer to whole ones, forget what no log refers to.

A blob is there and proven before anything may refer to it, so a reference never leads nowhere, wherever a process is
killed. A piece goes in with a transaction like anything else: none is larger than a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perdure.core.blobs import BlobRef, BlobState, chunks_of, numbers_of
from perdure.core.ids import shard_of
from perdure.engine.query import execution_row_of
from perdure.errors import NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Reads, Row
from perdure.store.tx import Tx

GRACE_MS = 24 * 3_600_000
"""How long what no log refers to is kept: whoever sent it may still be about to say what refers to it."""
MOST_DROPPED = 4
"""In one pass: each may have as many pieces as a store takes."""
MOST_LOOKED = 1_000
"""Of those that nobody touched lately, in one pass, whether a log refers to them or not."""


@dataclass(frozen=True, slots=True)
class BlobName:
    """A blob of a company's."""

    company: str
    hash: str


@dataclass(frozen=True, slots=True)
class OfferBlob:
    """Somebody is about to send content, or to refer to what was sent."""

    name: BlobName
    bytes: int


@dataclass(frozen=True, slots=True)
class PutChunk:
    """A piece of content, as base64 text."""

    name: BlobName
    number: int
    data: str

    @property
    def size(self) -> int:
        """Its share of a batch."""
        return len(self.data)


class BlobPlace(NamedTuple):
    """Where a look stands: behind one blob, in the order in which they were last touched."""

    touched_ms: int = -1
    company: str = ""
    hash: str = ""


FIRST = BlobPlace()
"""Before all of them."""


@dataclass(frozen=True, slots=True)
class DropBlobs:
    """One bounded pass over what nobody refers to."""

    grace_ms: int = GRACE_MS
    limit: int = MOST_DROPPED
    after: BlobPlace = FIRST
    """Looked for behind this place."""
    look: int = MOST_LOOKED
    """At so many, at most."""


def _key(row: OfferBlob | PutChunk) -> tuple[str, ...]:
    return (f"blob/{row.name.company}/{row.name.hash}",)


@operation(keys=_key)
def offer_blob(tx: Tx, rows: Sequence[OfferBlob]) -> Steps[None]:
    """Make room for content, and keep what is there from being forgotten for a while."""
    yield ()
    for row in sorted(rows, key=lambda one: (one.name.company, one.name.hash)):
        tx.run("open_blob", company=row.name.company, hash=row.name.hash, bytes=row.bytes, now_ms=tx.now_ms)
    return [None] * len(rows)


@operation(keys=_key)
def put_chunk(tx: Tx, rows: Sequence[PutChunk]) -> Steps[NotFound | None]:
    """Keep pieces. One that is there already stays as it is."""
    yield ()
    return [_put(tx, row) for row in rows]


def _put(tx: Tx, row: PutChunk) -> NotFound | None:
    name = {"company": row.name.company, "hash": row.name.hash}
    if not tx.run("touch_blob", **name, now_ms=tx.now_ms):
        return no_blob(row.name.hash)
    tx.run("put_chunk", **name, number=row.number, data=row.data)
    return None


@operation(keys=_key)
def finish_blob(tx: Tx, rows: Sequence[OfferBlob]) -> Steps[bool]:
    """Let blobs be referred to whose pieces were found to add up. False if one of them is not there any more."""
    yield ()
    return [
        bool(
            tx.run(
                "finish_blob",
                company=row.name.company,
                hash=row.name.hash,
                bytes=row.bytes,
                chunks=chunks_of(row.bytes),
                now_ms=tx.now_ms,
            )
        )
        for row in rows
    ]


@operation()
def refuse_blob(tx: Tx, rows: Sequence[BlobName]) -> Steps[None]:
    """Forget content whose pieces do not add up to its hash, so that it can be sent anew."""
    yield ()
    for row in rows:
        if tx.run("delete_unwhole_blob", company=row.company, hash=row.hash):
            tx.run("delete_chunks", company=row.company, hash=row.hash)
    return [None] * len(rows)


@operation()
def drop_blobs(tx: Tx, rows: Sequence[DropBlobs]) -> Steps[int]:
    """Forget blobs that no log refers to and nobody has touched for the grace. Returns how many.

    Who is about to refer to one touches it in the transaction that does so: this one waits for that, and leaves it.
    """
    yield ()
    return [_drop(tx, row) for row in rows]


def _drop(tx: Tx, row: DropBlobs) -> int:
    before_ms = tx.now_ms - row.grace_ms
    unused = [one for one in _page(tx, before_ms, row.after, row.look) if not one["used"]]
    dropped = 0
    for one in unused[: row.limit]:
        name = {"company": one["company"], "hash": one["hash"]}
        if tx.run("delete_blob", **name, before_ms=before_ms):
            tx.run("delete_chunks", **name)
            dropped += 1
    return dropped


def look_for_unused(
    reads: Reads, now_ms: int, after: BlobPlace = FIRST, look: int = MOST_LOOKED
) -> tuple[bool, BlobPlace]:
    """Say whether there is something to forget among the next few, and where the look after this one is to begin.

    However many there are and are in use, a look costs the same; all are seen once in a round of looks.
    """
    page = _page(reads, now_ms - GRACE_MS, after, look)
    last = page[-1] if len(page) == look else None
    place = FIRST if last is None else BlobPlace(last["touched_ms"], last["company"], last["hash"])
    return any(not one["used"] for one in page), place


def _page(reads: Reads | Tx, before_ms: int, after: BlobPlace, look: int) -> list[Row]:
    return reads.rows("blobs_behind", before_ms=before_ms, **after._asdict(), limit=look)


def state_of(reads: Reads, name: BlobName) -> tuple[BlobState, int]:
    """Return what there is of a blob, and of how many bytes it is. Raises `NotFound` (`no_blob`)."""
    found = {"company": name.company, "hash": name.hash}
    row = reads.row("blob", **found)
    if row is None:
        raise no_blob(name.hash)
    if row["whole"]:
        return BlobState(whole=True), row["bytes"]
    there = {one["number"] for one in reads.rows("blob_numbers", **found)}
    return BlobState(False, tuple(number for number in numbers_of(row["bytes"]) if number not in there)), row["bytes"]


def chunk_of(reads: Reads, name: BlobName, number: int) -> str:
    """Return a piece as it is stored. Raises `NotFound` (`no_blob`)."""
    row = reads.row("blob_chunk", company=name.company, hash=name.hash, number=number)
    if row is None:
        raise no_blob(name.hash)
    return row["data"]


def size_of_used(reads: Reads, name: BlobName, execution: str) -> int:
    """Return the size of a blob that the log of one of its company's executions refers to.

    Raises `NotFound` (`no_blob`) for all others: who may not read a log may not read what it refers to.
    """
    scope = {"shard": shard_of(execution), "execution": execution}
    row = reads.row("used_blob", **scope, company=name.company, hash=name.hash)
    if row is None:
        raise no_blob(name.hash)
    return row["bytes"]


def values_of(reads: Reads, company: str, execution: str) -> list[BlobRef]:
    """Return what the log of an execution refers to, by hash. Raises `NotFound` for one that is not the company's."""
    execution_row_of(reads, company, execution)
    found = reads.rows("used_blobs", shard=shard_of(execution), execution=execution, company=company)
    return [BlobRef(row["hash"], row["bytes"]) for row in found]


def no_blob(content_hash: str) -> NotFound:
    """Return the refusal for what is not there, or not the asker's."""
    return NotFound(
        f"there is no value {content_hash[:16]}… here that this execution's log refers to. It goes with the last "
        "execution that refers to it.",
        code="no_blob",
    )
