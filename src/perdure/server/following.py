"""One reader of one log: what is in it, what comes to it, and what models say meanwhile. No gap in the log, no repeat.

Whatever is appended is given, however slowly it is read; of what models say a slow reader gets larger pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from perdure.core import states
from perdure.core.events import LAST, Event
from perdure.core.ids import check_named
from perdure.core.live import LiveNews
from perdure.engine import query
from perdure.server.heard import Heard
from perdure.server.live import Shown, live_topic
from perdure.store.protocol import Reads
from perdure.store.tx import Note

if TYPE_CHECKING:
    from perdure.server.node import Node

PAGE = 1_000
POLL_SECONDS = 5.0
"""How often a follower looks without a hint."""


class Following:
    """Where one reader stands. Lives on the loop that reads it."""

    def __init__(self, node: Node, company: str, execution: str, after: int, *, live: bool) -> None:
        """`live`: give what models say, too."""
        self._node = node
        self._company = company
        self._execution = execution
        self._after = after
        self._heard = Heard()
        self._stir = asyncio.Event()
        self._quiet = False
        """Whether nothing was heard for so long that it is time to look."""
        self._alarm: asyncio.TimerHandle | None = None
        """Will say so."""
        self._in_vain = False
        """Whether the log was read last and had nothing more."""
        self._events: list[Event] = []
        self._goes_on = False
        """Whether the log went on behind the page that was read last."""
        self._shown = Shown(lambda: node.replies(execution, self._after)) if live else None

    async def news(self) -> AsyncGenerator[Event | LiveNews]:
        """Yield it all, until the execution has ended. Raises `NotFound`."""
        check_named(execution=self._execution)
        with ExitStack() as until:
            until.callback(self._rest)
            until.enter_context(self._node.hub.listening([("events", self._execution)], self._hear))
            await self._read()  # after we began to listen: nothing falls between
            if self._shown is not None:  # after we read: whoever may not is told of no text, and has nobody tell any
                until.enter_context(self._node.hub.listening([live_topic(self._execution)], self._hear))
            while not (self._in_vain and await self._over()):
                for event in self._events:
                    self._pass(event)
                    yield event
                if self._events and self._events[-1].kind in LAST:
                    return
                for live in await self._more():
                    yield live

    async def _more(self) -> Sequence[LiveNews]:
        """Get more of the log, or return a piece of what models say meanwhile."""
        self._in_vain = False
        self._events = self._heard.after(self._after)
        while not (self._events or self._heard or self._goes_on or self._quiet):
            self._stir.clear()
            if self._shown is not None and (live := next(self._shown.news(), None)) is not None:
                return (live,)
            self._alarm = self._alarm or asyncio.get_running_loop().call_later(POLL_SECONDS, self._give_up)
            await self._stir.wait()
            self._events = self._heard.after(self._after)
        self._rest()
        if not self._events:  # nothing was heard for long, or something is missing
            await self._read()
        return ()

    def _hear(self, note: Note) -> None:
        if note.rows:  # a hint of text has none
            self._heard.take(note.rows)
        self._stir.set()

    def _pass(self, event: Event) -> None:
        self._after = event.seq
        if self._shown is not None:
            self._shown.passed(event)

    async def _read(self) -> None:
        def page(reads: Reads) -> tuple[list[Event], bool]:
            return page_of(reads, self._company, self._execution, self._after, PAGE)

        self._events, self._goes_on = await self._node.bridge.read(page)
        self._in_vain = not self._events

    async def _over(self) -> bool:
        """Whether nothing will ever come after what was given."""
        row = await self._node.bridge.read(lambda reads: query.execution_row_of(reads, self._company, self._execution))
        return row["state"] in states.TERMINAL and row["next_seq"] - 1 <= self._after

    def _give_up(self) -> None:
        self._alarm, self._quiet = None, True
        self._stir.set()

    def _rest(self) -> None:
        """Be silent until there is something to wait for again."""
        self._quiet = False
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


def page_of(reads: Reads, company: str, execution: str, after: int, limit: int) -> tuple[list[Event], bool]:
    """Return a page of a log, and whether the log went on behind it. Raises `NotFound`."""
    row = query.execution_row_of(reads, company, execution)
    found = query.events_page(reads, execution, after, limit)
    return found, bool(found) and found[-1].seq < row["next_seq"] - 1
