"""Calls from one thread to another's event loop, many for the price of one: waking a loop costs more than a call."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable


class Mailbox:
    """Takes calls from any thread and runs them on `loop`, in order; those put before it looks share one wake-up."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._calls: deque[Callable[[], None]] = deque()
        self._called = False
        """Whether the loop was woken and has not looked yet."""

    def put(self, call: Callable[[], None]) -> bool:
        """Have `call` run soon. Says whether the loop still takes calls."""
        self._calls.append(call)
        if self._called:
            return not self.loop.is_closed()
        self._called = True
        try:
            self.loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            return False
        return True

    def _run(self) -> None:
        self._called = False  # before looking: a call that is put from here on wakes the loop again
        while self._calls:
            self._calls.popleft()()


class Mailboxes:
    """The mailbox of each loop, so that all who call into one share its wake-ups. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards `_known`."""
        self._known: dict[asyncio.AbstractEventLoop, Mailbox] = {}

    def of(self, loop: asyncio.AbstractEventLoop) -> Mailbox:
        """Return the mailbox of a loop; those of closed loops are forgotten."""
        with self._lock:
            if loop not in self._known:
                self._known = {known: box for known, box in self._known.items() if not known.is_closed()}
                self._known[loop] = Mailbox(loop)
            return self._known[loop]
