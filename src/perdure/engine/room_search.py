"""Find messages, lines of memory and passages of files in a room, and keep the entries that they are found by.

An entry is there for each who may read a text, and is written in the transaction that writes the text. A search reads
those of the asking company alone: neither what it finds nor how it ranks depends on what others may read. By words it
finds at once; by meaning, where there is an embedder, as soon as there is a vector (room_vectors.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perdure.core import codec
from perdure.core.ids import shard_of
from perdure.core.ports import Embedder
from perdure.core.room_ranking import MOST_MIXED, Candidate, Evidence, mixed
from perdure.core.room_search import (
    COMMON,
    KINDS,
    Course,
    FoundBy,
    Head,
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
from perdure.engine.room_vectors import TOPIC, nearest
from perdure.engine.rooms_members import missing_room
from perdure.engine.rooms_read import check_joined
from perdure.store.protocol import Reads, Row
from perdure.store.tx import Tx

_FIRST_SCORE = 10**17
"""More than any hit has."""


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
        tx.announce(TOPIC)


def forget_versions(tx: Tx, room: str, company: str, name: str, version: int) -> None:
    """Have the versions of a file before this one found no more. They stay, and can be read."""
    if version > 1:
        tx.run("drop_room_entries", room=room, company=company, name=name, version=version)


# -- what is read ------------------------------------------------------------------------------------------------------


def search(reads: Reads, company: str, room: str, wanted: Search, embedder: Embedder | None = None) -> SearchPage:
    """Return a page of what a query finds, the best first. Raises `NotFound`, `InvalidInput` (`bad_search`).

    What has more of the words comes first, a word counting the more the rarer it is in what the company may read; of
    equals what is newer. With an `embedder` what means the same is found too, and put among them by the rules of
    `core/room_ranking.py`. Pages hold together while others write: they show what was there when the first was asked
    for.
    """
    found, counted, cursor = _page(reads, company, room, wanted, embedder)
    return SearchPage(tuple(one.hit for one in found), counted, cursor)


def matching(reads: Reads, company: str, room: str, wanted: Search, embedder: Embedder | None = None) -> list[Found]:
    """Return the first of them with their texts. Raises `NotFound`."""
    return _page(reads, company, room, wanted, embedder)[0]


def _page(
    reads: Reads, company: str, room: str, wanted: Search, embedder: Embedder | None
) -> tuple[list[Found], int, str | None]:
    check_joined(reads, company, room)
    words = asked_words(wanted.query)
    scope: dict[str, str | int] = {"room": room, "company": company, "messages": "", "lines": "", "files": ""}
    scope |= {_PARAMETER[kind]: kind for kind in wanted.kinds or KINDS}
    reads.rows("walk_by_index")
    if wanted.cursor:
        course = read_cursor(wanted.cursor, words)
        return _go_on(reads, scope, course, wanted.limit, _by_words(reads, scope, course, wanted.limit))
    place = Place(_last_seq(reads, room), _FIRST_SCORE, 0, 0)
    scope["upto"] = place.upto
    counts = _counts(reads, words, scope)
    course = Course(place, weights_of(words, counts))
    near, compared = nearest(reads, embedder, scope, " ".join(words)) if embedder is not None and words else ([], 0)
    rows = _by_words(reads, scope, course, wanted.limit + 2 * MOST_MIXED * bool(near))
    if near:
        course = _headed(reads, scope, course, Evidence(words, counts, compared), (rows, near))
    return _go_on(reads, scope, course, wanted.limit, rows)


def _headed(
    reads: Reads,
    scope: Mapping[str, str | int],
    course: Course,
    evidence: Evidence,
    found: tuple[Sequence[Row], Sequence[int]],
) -> Course:
    """Return how a search goes of which something is near, too: with what comes before the order by words."""
    words, weights = evidence.words, course.weights
    by_words, near = [row["number"] for row in found[0][:MOST_MIXED]], found[1]
    entries = _entries(reads, scope, dict.fromkeys((*by_words, *near)))
    has = {number: frozenset(words) & set(entry["words"].split(" ")) for number, entry in entries.items()}
    lists = ([Candidate(number, has[number]) for number in one] for one in (by_words, near))
    first = mixed(evidence, *lists)
    used = {word for word, weight in weights.items() if weight}
    head = Head(tuple(first), wordless=sum(not used & has[number] for number in first))
    return Course(course.place, weights, head)


def _go_on(
    reads: Reads, scope: Mapping[str, str | int], course: Course, limit: int, rows: Sequence[Row]
) -> tuple[list[Found], int, str | None]:
    """Return the page that comes next: of the head, and behind it of the order by words what the head has not.

    `rows`: the order by words from its place on, one more than a page of what the head has not.
    """
    place, head = course.place, course.head
    used = [word for word, weight in course.weights.items() if weight]
    later = [row for row in rows if row["number"] not in head.numbers]
    numbers = head.numbers[head.shown : head.shown + limit]
    entries = _entries(reads, {**scope, "upto": place.upto}, numbers)
    tail = later[: limit - len(numbers)]
    shown = [*(entries[number] for number in numbers if number in entries), *tail]
    head = head._replace(shown=head.shown + len(numbers))
    if tail:
        place = place._replace(**{name: tail[-1][name] for name in ("score", "seq", "part")})
    more = head.shown < len(head.numbers) or len(later) > len(tail)
    counted = (rows[0]["n"] if rows else 0) + head.wordless
    return _whole(reads, scope, shown, used), counted, cursor_of(Course(place, course.weights, head)) if more else None


def _by_words(reads: Reads, scope: Mapping[str, str | int], course: Course, limit: int) -> list[Row]:
    """Return entries that have words, the best first, behind a place; and how many there are with any.

    They are one more than the limit, and than what the head may have of them.
    """
    used = {word: weight for word, weight in course.weights.items() if weight}
    if not used:
        return []
    given = {**scope, **course.place._asdict(), "words": codec.encode(used)}
    return reads.rows("room_found", **given, limit=limit + 1 + len(course.head.numbers))


def _entries(reads: Reads, scope: Mapping[str, str | int], numbers: Iterable[int]) -> dict[int, Row]:
    wanted = {str(number): 0 for number in numbers}
    rows = reads.rows("room_entries_numbered", **scope, wanted=codec.encode(wanted)) if wanted else []
    return {row["number"]: row for row in rows}


_PARAMETER: Mapping[SearchKind, str] = {"message": "messages", "memory": "lines", "file": "files"}


def _last_seq(reads: Reads, room: str) -> int:
    head = reads.row("room_head", shard=shard_of(room), room=room)
    if head is None:
        raise missing_room(room)
    return int(head["next_seq"]) - 1


def _counts(reads: Reads, words: Sequence[str], scope: Mapping[str, str | int]) -> dict[str, int]:
    """Return how many texts have each word, up to `COMMON`."""
    if not words:
        return {}
    asked = codec.encode(dict.fromkeys(words, 1))
    rows = reads.rows("room_word_counts", **scope, words=asked, most=COMMON)
    return {row["word"]: row["n"] for row in rows if row["n"]}


def _whole(reads: Reads, scope: Mapping[str, str | int], rows: Sequence[Row], words: Sequence[str]) -> list[Found]:
    """Return what entries lead to, in their order; what the company may not read after all is left out."""
    texts = dict(_texts(reads, str(scope["company"]), str(scope["room"]), rows))
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
        found_by=_found_by(entry, words),
    )
    return Found(hit, given["text"])


def _found_by(entry: Row, words: Sequence[str]) -> FoundBy:
    """Say how an entry was found. The order by words has only what has some; of the head, the words are known."""
    return "words" if "words" not in entry or set(words) & set(entry["words"].split(" ")) else "meaning"
