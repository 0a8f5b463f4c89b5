"""One thing per event loop: connections belong to the loop that opened them.

Nothing is shared between loops, and a loop that is gone takes its thing with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Makes a thing on first use on each event loop and returns the same one afterwards."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._things: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def get(self) -> T:
        """Return this loop's thing."""
        loop = asyncio.get_running_loop()
        thing = self._things.get(loop)
        if thing is None:
            thing = self._things[loop] = self._make()
        return thing

    def pop(self) -> T | None:
        """Forget this loop's thing and return it, for its owner to close."""
        return self._things.pop(asyncio.get_running_loop(), None)
