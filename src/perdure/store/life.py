"""Whether a store may still be used: open, not failed, and in the process that opened it."""

from __future__ import annotations

import os

from perdure.errors import StoreFailed


class Life:
    """The end of a store, once it has come. `fail` may be called from any thread; the first failure stays."""

    def __init__(self, where: str) -> None:
        self.closed = False
        self.failed: StoreFailed | None = None
        self._where = where
        self._pid = os.getpid()

    @property
    def ours(self) -> bool:
        """False in a process that was forked from the one that opened the store."""
        return self._pid == os.getpid()

    def fail(self, error: StoreFailed) -> None:
        self.failed = self.failed or error

    def check(self) -> None:
        """Raise StoreFailed if the store is of no more use: with the code of what ended it, `store_closed` or
        `store_forked`."""
        if not self.ours:
            raise StoreFailed(
                f"{self._where} was opened before this process was forked, and belongs to the parent. Open it in the "
                "process that uses it.",
                code="store_forked",
            )
        if self.closed:
            raise closed()
        if self.failed:
            raise StoreFailed(self.failed.message, code=self.failed.code)


def closed() -> StoreFailed:
    """Return the error for a store used after `close`."""
    return StoreFailed("the store is closed; open it again to go on", code="store_closed")
