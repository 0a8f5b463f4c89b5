"""A store whose commits happen and are reported lost, as over a connection that breaks at COMMIT: all is run twice."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from perdure.store.protocol import Again, Connection, Store


class UnsureStore:
    """`Store` over another."""

    def __init__(self, inner: Store) -> None:
        self.id, self.token_key, self.dialect, self.shared = inner.id, inner.token_key, inner.dialect, inner.shared
        self.read, self.fleeting, self.close = inner.read, inner.fleeting, inner.close
        self.unsure = False
        """Whether the next transactions are reported lost, each once."""
        self.lost = 0
        """How many were."""
        self._inner = inner
        self._told = False

    @contextmanager
    def write(self) -> Generator[Connection]:
        with self._inner.write() as connection:
            yield connection
        if self.unsure and not self._told:
            self._told = True
            self.lost += 1
            raise Again("the connection broke at COMMIT")
        self._told = False
