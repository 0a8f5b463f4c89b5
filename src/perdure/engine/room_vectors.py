"""Vectors of what rooms hold: what has none yet, keeping them, and what of a room is near a query.

A vector is made after the transaction that wrote a text, by whoever has the extra, and never inside of one: until then
the text is found by its words alone. What has none is found by an index, so a kill, or a server that cannot make any,
loses nothing. A search compares the entries of the asking company in the room, and no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import NamedTuple

from perdure.core import codec
from perdure.core.ports import Embedder
from perdure.core.room_ranking import MOST_MIXED, NEAR
from perdure.store.operation import Steps, operation
from perdure.store.protocol import EVERY_COMPANY, Reads
from perdure.store.tx import Tx

TOPIC = "room_entries"
"""What is announced when there is a text without a vector."""
MOST_COMPARED = 10_000
"""Vectors that one search compares: those of the newest texts. Older ones are found by their words."""


class Turn(NamedTuple):
    """Behind which room the next texts are taken: rooms take turns, however much one of them has waiting."""

    model: str = ""
    """What was made anew last; empty: what had no vector."""
    room: str = ""


@dataclass(frozen=True, slots=True)
class KeepVectors:
    """Vectors that were made."""

    model: str
    vectors: Mapping[int, str]
    """By the number of the entry."""

    @property
    def size(self) -> int:
        """Its share of a batch."""
        return sum(map(len, self.vectors.values()))


def without_vector(reads: Reads, model: str, turn: Turn, limit: int) -> tuple[dict[int, str], Turn]:
    """Return the words of some entries, by number, with a vector neither of a model nor of a later one; and whose turn
    comes then.

    It speaks for all companies: what it returns is for the model, and for nobody to see.
    """
    reads.speak_for(EVERY_COMPANY)
    behind = {"after_model": turn.model, "after_room": turn.room}
    rows = reads.rows("entries_without_vector", model=model, **behind, limit=limit)
    then = Turn(rows[-1]["model"], rows[-1]["room"]) if rows else Turn()
    return {row["number"]: row["words"] for row in rows}, then


@operation()
def keep_vectors(tx: Tx, rows: Sequence[KeepVectors]) -> Steps[int]:
    """Keep vectors; return how many were. Again, or for what is gone, changes nothing; a later model's stay."""
    yield ()
    tx.speak_for(EVERY_COMPANY)
    return [_keep(tx, row) for row in rows]


def _keep(tx: Tx, row: KeepVectors) -> int:
    wanted = codec.encode({str(number): 0 for number in row.vectors})
    taken = sorted(one["number"] for one in tx.rows("take_room_entries", wanted=wanted, model=row.model))
    given = [{"number": number, "model": row.model, "vector": row.vectors[number]} for number in taken]
    tx.many("keep_room_vector", given)
    return len(taken)


def nearest(reads: Reads, embedder: Embedder, scope: Mapping[str, str | int], query: str) -> tuple[list[int], int]:
    """Return the numbers of the entries that are near a query, the nearest first, and how many were compared.

    `scope`: the room, the company, the kinds, and up to where in the ledger.
    """
    rows = reads.rows("room_vectors", **scope, model=embedder.model, most=MOST_COMPARED)
    if not rows:
        return [], 0
    likeness = embedder.likeness(query, [row["vector"] for row in rows])
    near = (at for at, like in enumerate(likeness) if like >= NEAR)
    return [rows[at]["number"] for at in nlargest(MOST_MIXED, near, likeness.__getitem__)], len(rows)
