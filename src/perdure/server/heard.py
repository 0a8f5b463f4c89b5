"""What a reader of a log has heard of it and not read yet. Bounded: what is dropped is a gap, and read from the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from perdure.core.events import Event
from perdure.engine.query import PAGE, PAGE_BYTES, events_of
from perdure.store.protocol import Params


class Heard:
    """The rows that hints brought while their reader was slow. Lives on the reader's loop."""

    def __init__(self) -> None:
        self._rows: deque[Params] = deque()
        self._letters = 0

    def __bool__(self) -> bool:
        return bool(self._rows)

    def take(self, rows: Sequence[Params]) -> None:
        """Keep what a hint brought. If a page or more is kept already, that is dropped first."""
        if len(self._rows) >= PAGE or self._letters >= PAGE_BYTES:
            self._rows.clear()
            self._letters = 0
        self._rows.extend(rows)
        self._letters += sum(len(row["data"]) for row in rows)

    def after(self, seq: int) -> list[Event]:
        """Take out, and return, all that follows an event without a gap; drop what is older."""
        ready: list[Params] = []
        while self._rows and self._rows[0]["seq"] <= seq + 1:
            row = self._rows.popleft()
            self._letters -= len(row["data"])
            if row["seq"] == seq + 1:
                ready.append(row)
                seq += 1
        return events_of(ready)
