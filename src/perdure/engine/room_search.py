"""Find messages, lines of memory and passages of files in a room, and keep the entries that they are found by.

An entry is there for each who may read a text, and is written in the transaction that writes the text. A search reads
those of the asking company alone: neither what it finds nor how it ranks depends on what others may read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perdure.core import codec
from perdure.core.ids import shard_of
from perdure.core.room_search import (
    COMMON,
    KINDS,
    Hit,
    Place,
    SearchKind,
    SearchPage,
    Source,
    asked_words,
    cursor_of,
    entries_of,
    read_cursor,
    snippet_of,
    weights_of,
)
from perdure.core.rooms import EVERYBODY
from perdure.engine.rooms_members import missing_room
from perdure.engine.rooms_read import check_joined
from perdure.store.protocol import Reads, Row
from perdure.store.tx import Tx

_FIRST_SCORE = 2**62


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for. Checked by the caller: see `check_search`."""

    query: str
    kinds: Sequence[SearchKind] = KINDS
    limit: int = 20
    cursor: str = ""


class Found(NamedTuple):
    """A text that has words of a query, whole."""

    hit: Hit
    text: str


# -- what is written ---------------------------------------------------------------------------------------------------


def index(tx: Tx, source: Source, texts: Mapping[int, str], readers: Sequence[str] = (EVERYBODY,)) -> None:
    """Have texts found from this transaction on, by their readers: a message's or a line's as part 0, or passages."""
    if entries := entries_of(source, texts, readers):
        tx.many("insert_room_entry", entries)


def forget_versions(tx: Tx, room: str, company: str, name: str, version: int) -> None:
    """Have the versions of a file before this one found no more. They stay, and can be read."""
    if version > 1:
        tx.run("drop_room_entries", room=room, company=company, name=name, version=version)


# -- what is read ------------------------------------------------------------------------------------------------------


def search(reads: Reads, company: str, room: str, wanted: Search) -> SearchPage:
    """Return a page of what has words of a query, the best first. Raises `NotFound`, `InvalidInput` (`bad_search`).

    What has more of the words comes first, a word counting the more the rarer it is in what the company may read; of
    equals what is newer. Pages hold together while others write: they show what was there when the first was asked for.
    """
    found, counted, cursor = _page(reads, company, room, wanted)
    return SearchPage(tuple(one.hit for one in found), counted, cursor)


def matching(reads: Reads, company: str, room: str, wanted: Search) -> list[Found]:
    """Return the first of them with their texts. Raises `NotFound`."""
    return _page(reads, company, room, wanted)[0]


def _page(reads: Reads, company: str, room: str, wanted: Search) -> tuple[list[Found], int, str | None]:
    check_joined(reads, company, room)
    words = asked_words(wanted.query)
    kinds = wanted.kinds or KINDS
    scope = {"room": room, "company": company, "messages": "", "lines": "", "files": ""}
    scope |= {_PARAMETER[kind]: kind for kind in kinds}
    reads.rows("walk_by_index")
    if wanted.cursor:
        place, weights = read_cursor(wanted.cursor, words)
    else:
        place = Place(_last_seq(reads, room), _FIRST_SCORE, 0, 0)
        weights = weights_of(words, _counts(reads, words, {**scope, "upto": place.upto}))
    used = {word: weight for word, weight in weights.items() if weight}
    if not used:
        return [], 0, None
    given = {**scope, **place._asdict(), "words": codec.encode(used), "limit": wanted.limit + 1}
    rows = reads.rows("room_found", **given)
    shown = rows[: wanted.limit]
    last = place._replace(**{name: shown[-1][name] for name in ("score", "seq", "part")}) if shown else place
    cursor = cursor_of(last, weights) if len(rows) > wanted.limit else None
    return _whole(reads, company, room, shown, list(used)), rows[0]["n"] if rows else 0, cursor


_PARAMETER: Mapping[SearchKind, str] = {"message": "messages", "memory": "lines", "file": "files"}


def _last_seq(reads: Reads, room: str) -> int:
    head = reads.row("room_head", shard=shard_of(room), room=room)
    if head is None:
        raise missing_room(room)
    return int(head["next_seq"]) - 1


def _counts(reads: Reads, words: Sequence[str], scope: Mapping[str, str | int]) -> dict[str, int]:
    if not words:
        return {}
    asked = codec.encode(dict.fromkeys(words, 1))
    rows = reads.rows("room_word_counts", **scope, words=asked, most=COMMON)
    return {row["word"]: row["n"] for row in rows}


def _whole(reads: Reads, company: str, room: str, rows: Sequence[Row], words: Sequence[str]) -> list[Found]:
    """Return what entries lead to, in their order; what the company may not read after all is left out."""
    texts = dict(_texts(reads, company, room, rows))
    keys = [(row, (row["id"], row["part"])) for row in rows]
    return [_found(row, texts[key], words) for row, key in keys if key in texts]


def _texts(reads: Reads, company: str, room: str, rows: Sequence[Row]) -> Iterable[tuple[tuple[str, int], Row]]:
    def ids(kind: SearchKind) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for row in rows:
            if row["kind"] == kind:
                found.setdefault(row["id"], {})[str(row["part"])] = 0
        return found

    if messages := ids("message"):
        for row in reads.rows("room_found_messages", room=room, wanted=codec.encode(messages)):
            yield (row["id"], 0), row
    if lines := ids("memory"):
        for row in reads.rows("room_found_lines", room=room, company=company, wanted=codec.encode(lines)):
            yield (row["id"], 0), row
    if files := ids("file"):
        for row in reads.rows("room_found_passages", room=room, wanted=codec.encode(files)):
            yield (row["id"], row["part"]), row


def _found(entry: Row, row: Row, words: Sequence[str]) -> Found:
    given = dict(row)
    hit = Hit(
        kind=entry["kind"],
        id=entry["id"],
        seq=entry["seq"],
        company=given["company"],
        author=given["author"],
        at_ms=given["at_ms"],
        snippet=snippet_of(given["text"], words),
        steered_by=tuple(codec.decode(given.get("steered_by", "[]"))),
        thread=given.get("thread", ""),
        file=given.get("name", ""),
        version=given.get("version", 0),
        passage=entry["part"],
    )
    return Found(hit, given["text"])
