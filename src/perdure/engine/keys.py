"""Companies and their API keys. A key is shown once; only its hash is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core.companies import PREFIX
from perdure.core.credentials import hash_of
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Reads
from perdure.store.tx import Tx

DEFAULT_COMPANY = "default"
KEYS = f"{PREFIX.rstrip('_')}%"
"""What the beginnings of keys are like, and those of links, sessions and hooks beside them are not."""


@dataclass(frozen=True, slots=True)
class AddKey:
    """A new key, already made by the caller."""

    company: str
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Principal:
    """Whose key it is. The company of everything a request does comes from here and nowhere else."""

    company: str
    name: str


@operation()
def add_key(tx: Tx, rows: Sequence[AddKey]) -> Steps[None]:
    """Store the hash of a key, and the company if it is new."""
    yield ()
    for row in rows:
        tx.run("insert_company", id=row.company, name=row.company, now_ms=tx.now_ms)
        tx.run(
            "insert_key",
            hash=hash_of(row.key),
            company=row.company,
            name=row.name,
            prefix=row.key[: len(PREFIX) + 4],
            now_ms=tx.now_ms,
        )
    return [None] * len(rows)


def principal_of(reads: Reads, key: str) -> Principal | None:
    """Return whose key this is, or None if it is unknown or revoked."""
    if not key.startswith(PREFIX):
        return None
    row = reads.row("key_by_hash", hash=hash_of(key))
    return None if row is None else Principal(row["company"], row["name"])
