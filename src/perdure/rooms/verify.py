"""Check an exported ledger of a room: `python verify.py FILE [--head SEQ:HASH]`. One file, nothing but Python.

Copy it to whoever wants to check, and let them read it: it trusts neither the server nor Perdure. An export is JSON, a
record a line: each event as it is stored, then the end of the ledger. The hash of each event covers it and, by the
hash before it, all that came before. Whoever can write the file and knows this can write a whole new chain, or cut the
tail off together with the record of the end. Against that, each company keeps a head elsewhere, a `SEQ:HASH` that
`perdure rooms export` told it; with `--head` the ledger has to reach it and agree with it.
"""

from __future__ import annotations

import io
import json
import sys
from hashlib import blake2b
from typing import Any, Iterable, NamedTuple, Optional, Sequence, TextIO, cast  # noqa: UP035 - runs on what Python there is

HASH_BYTES = 16
EVENT = ("record", "room", "seq", "kind", "address", "digest", "data", "at_ms", "hash")
END = ("record", "room", "head", "last_seq")


class Found(NamedTuple):
    """What following one ledger found."""

    room: str
    events: int
    """How many are what they were."""
    head: str
    """`SEQ:HASH` of the last of them: keep it elsewhere, and nothing before it can change unnoticed."""
    broken_at: Optional[int]  # noqa: UP045 - runs on what Python there is
    """The first event that is not what it was; None if all are."""
    why: str

    @property
    def holds(self) -> bool:
        return self.broken_at is None


def hash_of(previous: str, room: str, event: dict[str, Any]) -> str:
    """Return the hash of an event after one of hash `previous`: of its parts, joined by NUL, which no text holds."""
    parts = (previous, room, *(event[name] for name in ("seq", "kind", "address", "digest", "at_ms", "data")))
    text = "\0".join(map(str, parts))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).hexdigest()


def check(lines: Iterable[bytes], heads: Sequence[str] = ()) -> Found:
    """Follow an exported ledger to its end, or to the first event that is not what it was.

    `heads` were kept elsewhere, each `SEQ:HASH`. Raises ValueError for one that is not written so.
    """
    wanted = dict(map(read_head, heads))
    ledger = _Ledger()
    for number, line in enumerate(lines, 1):
        why = ledger.take(_record(line), number, wanted)
        if why:
            return ledger.broken(why)
    return ledger.end(wanted)


def read_head(text: str) -> tuple[int, str]:
    """Return what `SEQ:HASH` says."""
    seq, _, digest = text.strip().partition(":")
    if not (
        seq.isascii() and seq.isdigit() and len(digest) == 2 * HASH_BYTES and set(digest) <= set("0123456789abcdef")
    ):
        raise ValueError(f"a head is written SEQ:HASH, as `perdure rooms export` tells it; found {text[:80]!r}")
    return int(seq), digest


class _Ledger:
    """One ledger, while its lines come."""

    def __init__(self) -> None:
        self._room: str = ""
        self._events = 0
        self._head = ""
        self._ended = False

    def take(self, record: dict[str, Any], number: int, wanted: dict[int, str]) -> str:
        """Look at the next record; return what is wrong with it."""
        if self._ended:
            return f"line {number} comes after the ledger's end"
        if _is(record, END, texts=("room", "head"), numbers=("last_seq",)) and record["record"] == "ledger":
            return self._take_end(record)
        texts = ("room", "kind", "address", "digest", "data", "hash")
        if not _is(record, EVENT, texts, ("seq", "at_ms")) or record["record"] != "event":
            return f"line {number} is no record of an export"
        return self._take_event(record, wanted)

    def _take_event(self, event: dict[str, Any], wanted: dict[int, str]) -> str:
        seq = self._events + 1
        if event["seq"] != seq:
            return f"event {seq} is missing: event {event['seq']} stands in its place"
        if self._events and event["room"] != self._room:
            return f"event {seq} is of another room, {event['room'][:80]}"
        found = hash_of(self._head, event["room"], event)
        if found != event["hash"]:
            return f"event {seq} was changed: its hash is {event['hash'][:32]}, computed {found}"
        if wanted.get(seq, found) != found:
            return f"event {seq} is not the one whose hash was kept: {wanted[seq]}. It, or one before it, was changed"
        self._room, self._events, self._head = event["room"], seq, found
        return ""

    def _take_end(self, end: dict[str, Any]) -> str:
        self._ended = True
        if end["last_seq"] != self._events:
            return f"the ledger has {self._events} events and should have {end['last_seq']}"
        if end["head"] != self._head or end["room"] != self._room:
            return f"the record of the end does not fit the last event: hash {end['head'][:32]}, computed {self._head}"
        return ""

    def broken(self, why: str) -> Found:
        return Found(self._room, self._events, self._shown(), self._events + 1, why)

    def end(self, wanted: dict[int, str]) -> Found:
        if not self._ended:
            return self.broken(f"the file ends after event {self._events}, before its ledger does")
        last = max(wanted, default=0)
        if last > self._events:
            return self.broken(f"the ledger ends at event {self._events}, and the hash of event {last} was kept")
        return Found(self._room, self._events, self._shown(), None, "")

    def _shown(self) -> str:
        return f"{self._events}:{self._head}"


def _record(line: bytes) -> dict[str, Any]:
    """Return a line's record; what is none is an empty one."""

    def once(pairs: list[tuple[str, Any]]) -> Any:
        return dict(pairs) if len(dict(pairs)) == len(pairs) else None  # a name twice: who would be believed?

    try:
        found = json.loads(line.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _is(record: dict[str, Any], names: Sequence[str], texts: Sequence[str], numbers: Sequence[str]) -> bool:
    """Say whether a record has these fields and no other: nothing in the file is left unhashed."""
    return (
        set(record) == set(names)
        and all(type(record[name]) is str and "\0" not in record[name] for name in texts)
        and all(type(record[name]) is int for name in numbers)
    )


def main(given: Sequence[str]) -> int:
    """Check the named file and say what was found. Exit code 0: it holds; 1: it does not; 2: it was not checked."""
    heads = [given[at + 1] for at, word in enumerate(given[:-1]) if word == "--head"]
    files = [word for at, word in enumerate(given) if word != "--head" and (at == 0 or given[at - 1] != "--head")]
    if len(files) != 1 or given[-1] == "--head":
        _say("usage: python verify.py FILE [--head SEQ:HASH]...", sys.stderr)
        return 2
    try:
        with open(files[0], "rb") as lines:
            found = check(lines, heads)
    except (OSError, ValueError) as error:
        _say(f"{files[0]}: {error}", sys.stderr)
        return 2
    said = f"{found.events} events, up to {found.head}" if found.holds else found.why
    _say(f"{'✓' if found.holds else '✗'} {found.room}  {said}", sys.stdout)
    return 0 if found.holds else 1


def _say(text: str, where: TextIO) -> None:
    if isinstance(where, io.TextIOWrapper):
        where.reconfigure(encoding="utf-8", errors="replace")
    where.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
