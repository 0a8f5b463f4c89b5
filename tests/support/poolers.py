"""The poolers in transaction mode that tests put before PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgbouncer import find_pgbouncer, pgbouncer
from postgres_fronts import in_front
from transaction_pooler import TransactionPooler


@contextmanager
def pooled(kind: str, server: Path) -> Iterator[Path]:
    """Yield the folder of a pooler's socket: PgBouncer's, or of the tests' own, which never gives a session twice in a
    row."""
    if kind == "own":
        with in_front(TransactionPooler, server) as (_, folder):
            yield folder
        return
    binary = find_pgbouncer()
    if binary is None:
        pytest.skip("no PgBouncer: it is Debian's package pgbouncer")
    with pgbouncer(binary, server) as folder:
        yield folder
