"""How a browser comes to act for a key: a link that is good once, and the session that it is exchanged for.

Both are rows beside the keys, by their hashes, and no key themselves. They are in the store, so whichever server of a
store redeems a link, no other does; and a session goes on wherever its browser is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core.credentials import hash_of
from perdure.engine.keys import KEYS, Principal
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Reads, Row
from perdure.store.tx import Tx

LINK = "pdl_"
"""What the secret of a link begins with."""
SESSION = "pds_"
LINK_MS = 10 * 60_000
"""How long a link is good."""
SESSION_MS = 14 * 24 * 3_600_000
"""How long a session lasts."""
MOST_SHOWN = 1_000
"""Keys of a company that are shown."""


@dataclass(frozen=True, slots=True)
class AddLink:
    """A new link, whose secret the caller made. `who`: for whom its session will act."""

    who: Principal
    secret: str


@dataclass(frozen=True, slots=True)
class Redeem:
    """A link, and the secret of the session that it is to become."""

    link: str
    session: str


def _link(row: Redeem) -> tuple[str, ...]:
    return (row.link,)


@operation()
def add_link(tx: Tx, rows: Sequence[AddLink]) -> Steps[int]:
    """Keep links; forget those, and sessions, whose time is over. Returns when each ends, by the store's clock."""
    yield ()
    for kind, life_ms in ((LINK, LINK_MS), (SESSION, SESSION_MS)):
        tx.run("delete_old_logins", kind=kind, before_ms=tx.now_ms - life_ms)
    for row in rows:
        _keep(tx, row.who, LINK, row.secret)
    return [tx.now_ms + LINK_MS] * len(rows)


@operation(keys=_link)
def redeem(tx: Tx, rows: Sequence[Redeem]) -> Steps[Principal | None]:
    """Exchange each link for a session, once; the same exchange again is that one. None for a link that is unknown, too
    old, or was used."""
    yield ()
    return [_redeem(tx, row) for row in rows]


@operation()
def end_session(tx: Tx, rows: Sequence[str]) -> Steps[None]:
    """Forget sessions. One that is unknown is forgotten already."""
    yield ()
    for secret in rows:
        tx.run("delete_login", kind=SESSION, hash=hash_of(secret), after_ms=0)
    return [None] * len(rows)


def session_of(reads: Reads | Tx, secret: str, now_ms: int) -> Principal | None:
    """Return for whom a session acts, or None if there is no such one any more."""
    row = reads.row("login_by_hash", kind=SESSION, hash=hash_of(secret), after_ms=now_ms - SESSION_MS)
    return None if row is None else Principal(row["company"], row["name"])


def _redeem(tx: Tx, row: Redeem) -> Principal | None:
    found = {"kind": LINK, "hash": hash_of(row.link), "after_ms": tx.now_ms - LINK_MS}
    link = tx.row("login_by_hash", **found)
    # Whoever deletes the row has redeemed it: two servers may both have seen it.
    if link is None or not tx.run("delete_login", **found):
        return session_of(tx, row.session, tx.now_ms)  # made before, and the answer was lost
    who = Principal(link["company"], link["name"])
    _keep(tx, who, SESSION, row.session)
    return who


def _keep(tx: Tx, who: Principal, kind: str, secret: str) -> None:
    tx.run("insert_key", hash=hash_of(secret), company=who.company, name=who.name, prefix=kind, now_ms=tx.now_ms)


def keys_view(reads: Reads, company: str, now_ms: int) -> tuple[list[Row], int]:
    """Return the rows of a company's keys, without their hashes, and how many sessions it has."""
    keys = reads.rows("keys_in_use", company=company, keys=KEYS, limit=MOST_SHOWN)
    found = reads.row("sessions_of", company=company, session=SESSION, after_ms=now_ms - SESSION_MS)
    return keys, found["n"] if found else 0
