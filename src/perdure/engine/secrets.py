"""Keep secrets that were sealed before: nothing here can open one.

A change says what it has seen, and happens only if that is still so; who is told that it is not looks again. So the
rows of a company are always under one data key, whoever sets and rotates at the same time, and whatever is killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.store.operation import Steps, operation
from perdure.store.protocol import Reads
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class SealedKey:
    """A company's data key under a server key."""

    id: str
    server_key: str
    """The id of that one."""
    wrapped: str


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A secret under its company's data key."""

    name: str
    version: int
    sealed: str
    set_by: str
    set_ms: int
    """0: now."""
    data_key: str
    """The id of the key that it is under."""


@dataclass(frozen=True, slots=True)
class Stored:
    """All secrets of a company at one moment."""

    company: str
    revision: int = 0
    """How often they were changed; 0 if they never were, and then there is no key."""
    key: SealedKey | None = None
    secrets: tuple[SealedSecret, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeSecrets:
    """Somebody sets secrets, takes some away, or seals all of them anew under another data key."""

    company: str
    seen: int
    """The revision that it stands on."""
    key: SealedKey
    """What the company's secrets are under afterwards: another one only if `put` holds all of them."""
    put: tuple[SealedSecret, ...] = ()
    drop: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(len(one.sealed) for one in self.put)


def _keys(row: ChangeSecrets) -> tuple[str, ...]:
    return (f"secrets/{row.company}",)


@operation(keys=_keys)
def change_secrets(tx: Tx, rows: Sequence[ChangeSecrets]) -> Steps[bool]:
    """Apply each change whole, or say False if somebody else was faster: then nothing of it happened."""
    yield ()
    done = {row.company: _change(tx, row) for row in sorted(rows, key=lambda row: row.company)}
    return [done[row.company] for row in rows]


def _change(tx: Tx, row: ChangeSecrets) -> bool:
    key = {"id": row.key.id, "server_key": row.key.server_key, "wrapped": row.key.wrapped}
    if row.seen == 0:
        changed = tx.run("insert_secret_key", company=row.company, **key, now_ms=tx.now_ms)
    else:
        changed = tx.run("change_secret_key", company=row.company, **key, seen=row.seen, now_ms=tx.now_ms)
    if not changed:
        return False
    for name in row.drop:
        tx.run("delete_secret", company=row.company, name=name)
    for one in sorted(row.put, key=lambda one: one.name):
        tx.run(
            "put_secret",
            company=row.company,
            name=one.name,
            version=one.version,
            data_key=one.data_key,
            sealed=one.sealed,
            set_by=one.set_by,
            set_ms=one.set_ms or tx.now_ms,
        )
    return True


def stored_secrets(reads: Reads, company: str) -> Stored:
    """Return all secrets of a company, as they are sealed."""
    key = reads.row("secret_key", company=company)
    if key is None:
        return Stored(company)
    rows = reads.rows("secrets_of", company=company)
    secrets = tuple(
        SealedSecret(row["name"], row["version"], row["sealed"], row["set_by"], row["set_ms"], data_key=row["data_key"])
        for row in rows
    )
    return Stored(company, key["revision"], SealedKey(key["id"], key["server_key"], key["wrapped"]), secrets)


def revision_of(reads: Reads, company: str) -> int:
    """Return how often a company's secrets were changed."""
    row = reads.row("secret_revision", company=company)
    return 0 if row is None else row["revision"]


def companies_with_secrets(reads: Reads) -> list[str]:
    """Return the companies that have a data key."""
    return [row["company"] for row in reads.rows("secret_companies")]


def known_server_key(reads: Reads) -> str | None:
    """Return the id of a server key that secrets of this store are under; None if it holds none."""
    row = reads.row("any_secret_key")
    return None if row is None else row["server_key"]
