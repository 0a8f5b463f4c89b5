"""What a server writes into a shared database and need not last: by a writer beside the one whose commits do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from perdure.errors import StoreFailed
from perdure.mailbox import Mailboxes
from perdure.server.bridge import Bridge
from perdure.server.reading import Queries
from perdure.store.protocol import Store
from perdure.store.tx import Note
from perdure.store.writer import Writer


class Fleeting:
    """Runs operations of which nothing is lost that anybody needs. It connects when there is something to write."""

    def __init__(self, store: Store, writer: Callable[..., Writer], mail: Mailboxes, reading: Queries) -> None:
        """`store` is one that several servers share; `writer` is called as `ThreadedWriter` is."""
        self._store = store.fleeting()
        self._writer: Any = writer(self._store, publish=_no_hints, on_failed=_no_matter)
        self.bridge = Bridge(self._store, self._writer, mail, reading)

    def stop(self) -> None:
        """Write what was submitted, and close. What fails here stops nobody."""
        self._writer.stop()
        self._store.close()


def _no_hints(_notes: Sequence[Note]) -> None:
    return


def _no_matter(_error: StoreFailed) -> None:
    return
