"""The replies that models are still at, put together from their pieces, as one reader of an execution sees them.

Sans-IO: news in, texts out. A later attempt takes the place of an earlier one, and the record that of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure.core.events import Event
from perdure.core.live import Delta, LiveNews, Reset, voids


@dataclass(frozen=True, slots=True)
class InTheMaking:
    """One of them."""

    attempt: int
    text: str
    """What came so far."""


class Replies:
    """Those of one execution. Owner: whoever follows it."""

    def __init__(self) -> None:
        self._made: dict[str, InTheMaking] = {}

    @property
    def made(self) -> Mapping[str, InTheMaking]:
        """By the address of their step, in the order in which they began."""
        return self._made

    def take(self, news: Event | LiveNews) -> None:
        """Take what came: an event, a piece, or that the pieces are void."""
        match news:
            case Event():
                self._made = {address: one for address, one in self._made.items() if not voids(news, address)}
            case Delta():
                known = self._made.get(news.address)
                text = known.text if known is not None and news.offset else ""
                self._made[news.address] = InTheMaking(news.attempt, text + news.text)
            case Reset():
                self._made = {}
