"""Show code what its own step gave before the log has it, so that what it asks for next is written along with it.

One record ahead at most, and nothing leaves the run meanwhile: bodies begin once the log has all. Should an event of
somebody else's come first, only what was done is written, and the run that was shown too much is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core import codec
from perdure.core.events import Event, Kind
from perdure.core.items import Item, StepDone
from perdure.errors import UserError
from perdure.flow.asks import Ask
from perdure.flow.desk import Desk
from perdure.flow.journal import Journal, PreviewJournal
from perdure.flow.replay import Replay


class Overtaken(Exception):
    """Something stands in the log before what the code was shown. What it did since never happened."""


class Preview:
    """What one run was shown too early. Owner: its driver."""

    def __init__(self, replay: Replay, desk: Desk) -> None:
        self.shown: Event | None = None
        """Handed to the code, and not in the log."""
        self.journal: PreviewJournal | None = None
        """None: nothing is shown early."""
        self._replay = replay
        self._desk = desk
        self._held: list[Ask] = []
        """What the code asked for since, and what must not begin yet."""

    def show(self, heard: int) -> bool:
        """Have the code shown what its only step gave. False if there is more to it, or something may come first.

        `heard`: the newest `seq` known to exist. The store's time of the event is not known yet, and given as 0.
        """
        item, last = self._desk.outbox[0], self._replay.last_seq
        if self.journal is None or self.shown is not None or not isinstance(item, StepDone):
            return False
        if len(self._desk.outbox) > 1 or self._desk.bodies or not self._replay.used_up or heard > last:
            return False
        self.shown = Event(last + 1, Kind.STEP_RECORDED, item.address, item.digest, codec.decode(item.data), 0)
        self._replay.feed((self.shown,))
        return True

    def begin(self, asks: tuple[Ask, ...]) -> None:
        """Begin what the code asked for, or what of it is only to be written."""
        if self.shown is None:
            self._desk.begin(asks)
        else:
            self._held += self._desk.begin_writing(asks)

    async def write(self, journal: Journal, items: Sequence[Item]) -> list[Event]:
        """Write what was shown, what came of it, and whatever else there is.

        Raises `Overtaken`; and what `record` raises for items that the log refuses, with what was done written all the
        same.
        """
        shown, self.shown = self.shown, None
        if shown is None or self.journal is None:
            return await journal.record(self._replay.last_seq, items)
        try:
            news = await self.journal.record_previewed(shown.seq - 1, items)
        except UserError:
            await journal.record(shown.seq - 1, items[:1])
            raise
        if news is None:
            raise Overtaken
        held, self._held = self._held, []
        self._desk.begin(tuple(ask for ask in held if not ask.abandoned))
        return news
