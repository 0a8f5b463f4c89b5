"""The hash chain over a log: each event's hash covers the event and the hash before it, so also all that came before.

Pure. `store/tx.py` writes it, `check` follows it. It has no key: whoever can write the store and knows this file can
write a whole new chain. Against that, keep an execution's last hash, or an export, where they cannot write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

HASH_BYTES = 16


@dataclass(frozen=True, slots=True)
class Link:
    """One row of a log, or of the evidence after it, as it is stored. Nothing is decoded: the hash covers the text."""

    seq: int
    kind: str
    address: str
    digest: str
    data: str
    """JSON text."""
    at_ms: int
    hash: str
    """Empty in rows that are older than the chain."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """A stretch of an execution's log as it is stored, and where the log ended when it was read."""

    execution: str
    agent: str
    state: str
    head: str
    """Hash of the last row, as the execution's own row has it."""
    events: int
    """How many of the rows are the log; what follows was said after the execution had ended."""
    last_seq: int
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """What following a chain found."""

    links: int
    """Rows looked at."""
    unhashed: int
    """Rows at the beginning that are older than the chain: it does not cover them."""
    head: str
    """The hash of the last row, as computed; keep it elsewhere, and nothing before it can change unnoticed."""
    broken_at: int | None = None
    """The first `seq` that is not what it was."""
    why: str = ""


def hash_of(previous: str, execution: str, row: Mapping[str, Any]) -> str:
    """Return the hash of a row that follows one of hash `previous`.

    The parts are joined by NUL, which no stored text holds, so no two rows are joined to the same bytes.
    """
    text = (
        f"{previous}\0{execution}\0{row['seq']}\0{row['kind']}\0{row['address']}\0{row['digest']}\0{row['at_ms']}"
        f"\0{row['data']}"
    )
    # What UTF-8 does not have is refused when the row is bound, with an error that names it; not here.
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).hexdigest()


class Follower:
    """Follows one chain, row by row, from its beginning. Owner: whoever checks it."""

    def __init__(self, execution: str) -> None:
        self._execution = execution
        self._links = 0
        self._unhashed = 0
        self._head = ""
        self._broken: tuple[int, str] | None = None

    def take(self, links: Iterable[Link]) -> None:
        """Look at the next rows. After the first broken one nothing is looked at any more."""
        for link in links:
            if self._broken is not None:
                return
            why = self._look(link)
            if why:
                self._broken = (link.seq if link.seq == self._links + 1 else self._links + 1, why)
            self._links += 1

    @property
    def broken(self) -> bool:
        """Whether a row was met that is not what it was."""
        return self._broken is not None

    def end(self, head: str, last_seq: int) -> Checked:
        """Return what was found. `head` and `last_seq` are what the execution's own row says of its log's end."""
        if self._broken is None and self._links != last_seq:
            self._broken = (
                min(self._links, last_seq) + 1,
                f"the log has {self._links} rows and should have {last_seq}",
            )
        if self._broken is None and self._head != head:
            self._broken = (self._links, f"the log ends in hash {self._head or 'none'} and should in {head or 'none'}")
        seq, why = self._broken or (None, "")
        return Checked(self._links, self._unhashed, self._head, seq, why)

    def _look(self, link: Link) -> str:
        if link.seq != self._links + 1:
            return f"event {self._links + 1} is missing: event {link.seq} stands in its place"
        if not link.hash:
            if self._head:
                return f"event {link.seq} has no hash, and those before it have"
            self._unhashed += 1
            return ""
        texts = (link.kind, link.address, link.digest, link.data, link.hash)
        if any("\0" in text for text in texts):
            return f"event {link.seq} holds what no store accepts"
        row = {name: getattr(link, name) for name in ("seq", "kind", "address", "digest", "at_ms", "data")}
        found = hash_of(self._head, self._execution, row)
        self._head = link.hash
        return "" if found == link.hash else f"event {link.seq} was changed: its hash is {link.hash}, computed {found}"
