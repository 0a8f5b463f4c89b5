"""A few read-only connections that threads take turns with. Both databases use it; it knows neither."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from queue import Empty, LifoQueue
from typing import Generic, Protocol, TypeVar

from perdure.store.life import closed

READERS = 4
"""Connections at most; a fifth reader waits for one of them."""


class Reader(Protocol):
    """One read-only connection."""

    def begin(self) -> None:
        """Fix the view that the following reads share."""
        ...

    def end(self) -> bool:
        """Let go of the view. False if the connection is of no more use."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


C = TypeVar("C", bound=Reader)


class ReaderPool(Generic[C]):
    """Opens connections when first needed. Safe from any thread; a block must not open another on the same thread."""

    def __init__(self, connect: Callable[[], C]) -> None:
        self._connect = connect
        # The one used last is taken first; `None` is a connection not yet opened.
        self._free: LifoQueue[C | None] = LifoQueue()
        self._closed = False
        self.out: set[C] = set()
        """Those in use now."""
        for _ in range(READERS):
            self._free.put(None)

    @contextmanager
    def reader(self) -> Generator[C]:
        """Lend a connection for one block, within one view."""
        reader = self._free.get()
        try:
            if self._closed:
                raise closed()
            reader = reader or self._connect()
            self.out.add(reader)
            reader.begin()
            yield reader
        finally:
            self._give_back(reader)

    def close(self) -> None:
        """Close what is free now, and what is in use as soon as it is given back. Those who wait are turned away."""
        self._closed = True
        idle = 0
        try:
            while True:
                reader = self._free.get_nowait()
                idle += 1
                if reader:
                    reader.close()
        except Empty:
            for _ in range(idle):
                self._free.put(None)

    def _give_back(self, reader: C | None) -> None:
        if reader:
            self.out.discard(reader)
            if not reader.end() or self._closed:
                reader.close()
                reader = None
        self._free.put(reader)
