"""Which workers are connected to which server of a database that several share. For people: no lease depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core.codec import Json
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Reads
from perdure.store.sql_store import names
from perdure.store.tx import Tx

BELIEVED_MS = 60_000
"""How long after its server last said so a worker counts as connected."""


@dataclass(frozen=True, slots=True)
class Presence:
    """What a server says of one worker."""

    company: str
    worker: str
    server: str
    info: str | None
    """What the worker says of itself, as JSON; None: it is connected to this server no more."""


@operation(keys=lambda row: (f"presence/{row.company}/{row.worker}",))
def say_present(tx: Tx, rows: Sequence[Presence]) -> Steps[None]:
    """Keep what is said, and forget whom nobody speaks of any more. In the order of keys: two servers may meet."""
    yield ()
    for row in sorted(rows, key=lambda row: (row.company, row.worker)):
        name = {"company": row.company, "worker": row.worker, "server": row.server}
        if row.info is None:
            tx.run("forget_worker", **name)
        else:
            tx.run("keep_worker", **name, info=row.info, now_ms=tx.now_ms)
    tx.run("forget_workers", before_ms=tx.now_ms - BELIEVED_MS)
    return [None] * len(rows)


@dataclass(frozen=True, slots=True)
class StillHere:
    """What a server says again of workers that it spoke of before."""

    server: str
    workers: Sequence[tuple[str, str]]
    """Company and worker of each."""


@operation()
def say_still_present(tx: Tx, rows: Sequence[StillHere]) -> Steps[int]:
    """Return of how many it was known; the others have to be spoken of in full."""
    yield ()
    return [_touch(tx, row) for row in rows]


def _touch(tx: Tx, row: StillHere) -> int:
    tree: dict[str, dict[str, Json]] = {}
    for company, worker in row.workers:
        tree.setdefault(company, {})[worker] = 0
    wanted: dict[str, Json] = {**tree}
    return tx.run("touch_workers", server=row.server, wanted=names("touch_workers", wanted), now_ms=tx.now_ms)


def present(reads: Reads, company: str, now_ms: int) -> list[str]:
    """Return what a company's workers say of themselves, those of every server."""
    rows = reads.rows("workers_seen", company=company, since_ms=now_ms - BELIEVED_MS)
    return [row["info"] for row in rows]
