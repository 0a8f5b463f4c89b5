"""What a handle does about values that are too large for its execution's log."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from perdure.client.large import load, save
from perdure.core.blobs import reference_in
from perdure.wire.api import Api

T = TypeVar("T")


class Connection(Protocol):
    """What a handle needs of a runtime."""

    @property
    def api(self) -> Api:
        """The verbs, on the runtime's service loop."""
        ...

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the service loop and block until it is done."""
        ...

    async def join(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the service loop and await it from any other."""
        ...


class Values:
    """The verbs of a handle about large values."""

    execution_id: str
    _runtime: Connection

    async def load_async(self, value: Any) -> Any:
        """Return what a value from this execution's log holds: itself, or, if it stands for one that was too large for
        a log, that one, fetched now. All of it is then in memory: `save` needs no more than a piece.

        Raises `NotFound` (`no_blob`) if this execution's log does not refer to it.
        """
        ref = reference_in(value)
        return value if ref is None else await self._runtime.join(load(self._runtime.api, self.execution_id, ref))

    def load(self, value: Any) -> Any:
        return self._runtime.wait(self.load_async(value))

    async def save_async(self, value: Any, path: str | os.PathLike[str]) -> int:
        """Write the JSON text of a value from this execution's log into a file, a piece at a time; return its bytes.

        Raises as `load`, and `OSError`.
        """
        return await self._runtime.join(save(self._runtime.api, self.execution_id, value, path))

    def save(self, value: Any, path: str | os.PathLike[str]) -> int:
        return self._runtime.wait(self.save_async(value, path))
