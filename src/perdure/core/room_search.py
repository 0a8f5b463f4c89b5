"""Search in rooms: how text is cut into words, what they weigh, and how what was found is shown. Pure.

The words are cut here and not by a database, so both find the same. How much a word weighs comes of what the asking
company may read, and of nothing else.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

from perdure.core.rooms import EVERYBODY
from perdure.errors import InvalidInput

SearchKind = Literal["message", "memory", "file"]
FoundBy = Literal["words", "meaning"]
KINDS: tuple[SearchKind, ...] = ("message", "memory", "file")
MOST_WORDS = 32
"""Different words of a query that count: its first ones."""
MOST_READ = 10_000
"""Characters of a query that are read."""
MOST_FOUND = 100
"""Of one page."""
COMMON = 1_000
"""A word that so many texts have finds nothing beside rarer ones."""
SNIPPET = 240
"""Characters of a snippet, at most."""

_WORD_LENGTH = 64
_BEFORE = 40
"""Characters that a snippet shows before its first hit."""
_LOOKED_AT = 20
"""Hits of a text that a snippet is chosen among."""

# What stands for itself, without spaces around it: ideographs, kana, emoji and other signs.
_ALONE = "\u2190-\u2bff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001f000-\U0003ffff"
_WORD = re.compile(rf"[{_ALONE}]|(?:(?![{_ALONE}])[^\W_])+")
_PIECE = re.compile(rf"[{_ALONE}]|(?:(?![{_ALONE}])\S)+")
_PLACE = r"(\d{1,18})\.(\d{1,18})\.(\d{1,18})\.(\d{1,18})\.(\d{1,5}(?:-\d{1,5}){0,31})"
_CURSOR = re.compile(_PLACE + r"(?:\.(\d{1,3})\.(\d{1,3})\.([\w-]{11,1200}))?", re.ASCII)
_NUMBER = 8
"""Bytes of an entry's number in a cursor."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Something in a room that has words of a query, or means something like them."""

    kind: SearchKind
    id: str
    """Of the message, the line, or the version of a file."""
    seq: int
    """Its place in the room's ledger."""
    company: str
    author: str
    at_ms: int
    snippet: str
    """The stretch of it that has the most of the words, or its beginning. It is data from whoever wrote it."""
    steered_by: tuple[str, ...] = ()
    """Whose text was before the agent that wrote it, its own company's apart."""
    thread: str = ""
    """Of a message: what it is about."""
    file: str = ""
    """Of a passage: the file's name."""
    version: int = 0
    passage: int = 0
    """Of a passage: its number in the file."""
    found_by: FoundBy = "words"
    """`meaning`: it has none of the words, and means something like them."""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """What was found, the best first."""

    items: tuple[Hit, ...]
    found: int
    """How many there are that the company may read, of those that were there when the search began. By their meaning a
    search finds 40 at most."""
    cursor: str | None
    """Where to go on; None: there is no more."""


class Place(NamedTuple):
    """Where a page of a search begins, in the order by words."""

    upto: int
    """The end of the room's ledger as the search began: what came later is not found, so pages do not shift."""
    score: int
    seq: int
    part: int


class Head(NamedTuple):
    """What comes before the order by words, as it was when the search began: entries, by their numbers."""

    numbers: tuple[int, ...] = ()
    shown: int = 0
    """How many of them the pages before have shown."""
    wordless: int = 0
    """How many of them have none of the words."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a search goes on."""

    place: Place
    weights: Mapping[str, int]
    head: Head = field(default_factory=Head)


# -- words -------------------------------------------------------------------------------------------------------------


def words_of(text: str) -> list[str]:
    """Return the different words of a text, in their order. Case, accents and forms of letters make no difference."""
    return list(dict.fromkeys(one[:_WORD_LENGTH] for one in _WORD.findall(_folded(text))))


def asked_words(query: str) -> list[str]:
    """Return the words of a query that count. Nothing in it is a command: it has words, and they are looked for."""
    return words_of(query[:MOST_READ])[:MOST_WORDS]


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(one for one in apart if unicodedata.category(one)[0] != "M")


def weights_of(words: Sequence[str], counts: Mapping[str, int]) -> dict[str, int]:
    """Return what each word weighs, by how many texts have it: the rarer, the more; 0: it is not looked for."""
    weights = {word: _weight(counts.get(word, 0)) for word in words}
    if any(weights.values()):
        return weights
    return {word: int(counts.get(word, 0) > 0) for word in words}  # all are common: each counts alike


def _weight(texts: int) -> int:
    return 1 + round(100 * math.log2(COMMON / texts)) if 0 < texts < COMMON else 0


# -- entries -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """What can be found: whose, and where it stands."""

    room: str
    company: str
    kind: SearchKind
    id: str
    seq: int


def entries_of(
    source: Source, texts: Mapping[int, str], readers: Sequence[str] = (EVERYBODY,)
) -> list[dict[str, str | int]]:
    """Return what is to be kept of texts, by their parts, for each who may read them, in the order of `number`."""
    made = [one for part, text in texts.items() for one in _entries(source, part, text, readers)]
    return sorted(made, key=lambda one: one["number"])


def _entries(source: Source, part: int, text: str, readers: Sequence[str]) -> Iterator[dict[str, str | int]]:
    words = " ".join(words_of(text))
    for reader in readers if words else ():
        yield {
            "number": _number(source.room, reader, source.id, str(part)),
            "room": source.room,
            "company": source.company,
            "reader": reader,
            "kind": source.kind,
            "id": source.id,
            "part": part,
            "seq": source.seq,
            "words": words,
        }


def _number(*key: str) -> int:
    """Return an entry's number: the same in every store, so that a copy needs no counter."""
    raw = hashlib.blake2b("\0".join(key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "big") >> 1


# -- pages -------------------------------------------------------------------------------------------------------------


def check_search(kinds: Sequence[str], limit: int) -> None:
    """Raise `InvalidInput` (`bad_search`) naming the field, what was expected and what was found."""
    for kind in kinds:
        if kind not in KINDS:
            raise _bad("kinds", f"one or more of {', '.join(KINDS)}", repr(kind[:40]))
    if not 1 <= limit <= MOST_FOUND:
        raise _bad("limit", f"1 to {MOST_FOUND}", str(limit))


def kinds_of(text: str) -> tuple[SearchKind, ...]:
    """Return kinds named with commas between; none for an empty text. `check_search` says which there are."""
    return cast("tuple[SearchKind, ...]", tuple(one.strip() for one in text.split(",")) if text else ())


def cursor_of(course: Course) -> str:
    """Return how a search goes on, as text."""
    text = ".".join((*map(str, course.place), "-".join(map(str, course.weights.values()))))
    if not course.head.numbers:
        return text
    raw = b"".join(number.to_bytes(_NUMBER, "big") for number in course.head.numbers)
    return f"{text}.{course.head.shown}.{course.head.wordless}.{base64.urlsafe_b64encode(raw).decode().rstrip('=')}"


def read_cursor(cursor: str, words: Sequence[str]) -> Course:
    """Return what `cursor_of` wrote for a query of these words. Raises `InvalidInput` (`bad_search`)."""
    match = _CURSOR.fullmatch(cursor)
    weights = [int(one) for one in match[5].split("-")] if match else []
    head = _head_of(match) if match else None
    if match is None or head is None or len(weights) != len(words):
        raise _bad("cursor", "what the page before gave, for the same query", repr(cursor[:80]))
    place = Place(*(int(one) for one in match.groups()[:4]))
    return Course(place, dict(zip(words, weights, strict=True)), head)


def _head_of(match: re.Match[str]) -> Head | None:
    """Return the head that a cursor tells; None if it is no head."""
    shown, wordless, text = match.groups()[5:]
    if text is None:
        return Head()
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return None
    cut = range(0, len(raw), _NUMBER)
    numbers = tuple(dict.fromkeys(int.from_bytes(raw[at : at + _NUMBER], "big") for at in cut))
    whole = len(raw) == len(numbers) * _NUMBER and max(numbers) < 2**63
    head = Head(numbers, int(shown), int(wordless))
    return head if whole and max(head.shown, head.wordless) <= len(numbers) else None


def _bad(field: str, expected: str, found: str) -> InvalidInput:
    return InvalidInput(f"{field} should be {expected}; found {found}.", code="bad_search", fields=[field])


# -- what is shown -----------------------------------------------------------------------------------------------------


def snippet_of(text: str, words: Sequence[str]) -> str:
    """Return the stretch of a text that has the most of the words, on one line; `…` stands where it was cut."""
    hits = _hits(text, frozenset(words))
    start = _best(hits)
    cut = text[start : start + SNIPPET]
    shown = " ".join(cut.split())
    return f"{'…' if start else ''}{shown}{'…' if start + SNIPPET < len(text) else ''}"


def _hits(text: str, words: frozenset[str]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for piece in _PIECE.finditer(text):
        found += ((piece.start(), word) for word in words_of(piece[0]) if word in words)
        if len(found) >= _LOOKED_AT:
            break
    return found


def _best(hits: Sequence[tuple[int, str]]) -> int:
    """Return where a snippet begins."""
    most, best = 0, 0
    for at, _ in hits:
        start = max(0, at - _BEFORE)
        inside = len({word for place, word in hits if start <= place < start + SNIPPET - _BEFORE})
        if inside > most:
            most, best = inside, start
    return best
