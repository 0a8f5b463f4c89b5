"""Replies in the making, told from the server that asks the model to those at which somebody looks on: by the database.

A server says of which executions somebody looks on there, while another one holds them. That one then writes what its
models say, in pieces; else nothing is written at all. `Elsewhere` looks for both, in one view for all readers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perdure.core.codec import decode
from perdure.core.ids import new_id
from perdure.core.ports import Clock, Random
from perdure.engine.relay import (
    ONLOOKING_MS,
    Onlooker,
    Piece,
    Relayed,
    Reply,
    Telling,
    Watching,
    say_onlookers,
    tell_onlookers,
)
from perdure.errors import PerdureError
from perdure.log import get_log
from perdure.server.bridge import Bridge
from perdure.server.live import LiveText, LiveTexts, live_topic
from perdure.store.protocol import Row
from perdure.store.tx import Note

log = get_log(__name__)

PAUSE_SECONDS = 0.25
"""Between two times of telling: what models said meanwhile goes together, in one commit."""
MOST_CHARACTERS = 65_536
"""Told at a time, of all replies together; the rest a pause later."""
MOST_REPLIES = 64
"""Told at once by one server. Of others it is said that they are heard elsewhere, until there is room."""
AWAY_SECONDS = 5.0
"""Until it is tried again, where the database does not take it."""
SERVER = "srv_"
"""How the ids of executors begin."""


class Relay:
    """Both halves for one server. Lives on the executor's loop; `of` is for any thread."""

    def __init__(self, texts: LiveTexts, holder: str, bridge: Bridge, clock: Clock, random: Random) -> None:
        """`texts` are those that its models make, `holder` as whom it drives executions. `bridge` writes what need not
        last."""
        self._texts = texts
        self._bridge = bridge
        self._speaker = Speaker(texts, bridge, clock, random)
        self._listener = Listener(holder)

    async def run(self) -> None:
        """Tell what there is to tell, until cancelled."""
        await self._speaker.run()

    def of(self, execution: str, after: int) -> Iterable[LiveText]:
        """Return the replies that are made here, and elsewhere as `Listener.of` does: of each step one."""
        here, there = self._texts.of(execution), self._listener.of(execution, after)
        if not there:
            return here
        # The last holder's: another one may not know yet that it is none any more.
        return {text.address: text for text in sorted((*here, *there), key=lambda text: text.fence)}.values()

    def watching(self, followed: Iterable[str]) -> Watching:
        """Return what to look for, where somebody looks on here at these executions."""
        asked = self._texts.executions()
        return Watching(asked, self._listener.known(one for one in followed if one not in asked))

    def found(self, seen: Relayed, now_ms: int) -> list[Note]:
        """Take what a look found; return whom to have look."""
        self._speaker.take(seen.onlookers)
        if wanted := self._listener.wanted(seen.told, now_ms):
            self._bridge.tell(say_onlookers, wanted)
        return [Note(*live_topic(execution)) for execution in self._listener.take(seen.told)]


class Speaker:
    """Tells what models say here. Owner: the executor's loop."""

    def __init__(self, texts: LiveTexts, bridge: Bridge, clock: Clock, random: Random) -> None:
        self._texts = texts
        self._bridge = bridge
        self._clock = clock
        self._random = random
        self._onlookers: Mapping[str, Onlooker] = {}
        """By the last look."""
        self._told: dict[LiveText, _Told] = {}
        self._stir = asyncio.Event()

    def take(self, onlookers: Mapping[str, Onlooker]) -> None:
        """Take where somebody looks on from elsewhere."""
        self._onlookers = onlookers
        if onlookers:
            self._stir.set()

    async def run(self) -> None:
        """Tell until cancelled. What cannot be told is seen when it is recorded: that ends no server."""
        while True:
            await self._stir.wait()
            self._stir.clear()
            while self._onlookers or self._told:
                await self._clock.sleep(PAUSE_SECONDS if await self._tell() else AWAY_SECONDS)

    async def _tell(self) -> bool:
        """Tell what is new. Says whether the database took it."""
        over = [told.reply for text, told in self._told.items() if not self._stands(text, told)]
        self._told = {text: told for text, told in self._told.items() if self._stands(text, told)}
        telling = Telling(over, self._begin(), self._pieces())
        if not (telling.over or telling.begun or telling.pieces):
            return True
        try:
            await self._bridge.run(tell_onlookers, telling)
        except PerdureError as error:
            log.warning("relay.not_told", code=error.code, action="none: it is told anew, or seen when it is recorded")
        except Exception:
            log.exception("relay.failed", action="it is told anew, or seen when it is recorded")
        else:
            return True
        self._told.clear()  # what of it is there nobody knows
        return False

    def _stands(self, text: LiveText, told: _Told) -> bool:
        """Whether a reply is still made, and still told to those to whom it was told before."""
        onlooker = self._onlookers.get(told.reply.execution)
        same = onlooker is not None and onlooker.since_ms == told.since_ms
        return same and text in self._texts.of(told.reply.execution) and (told.reply.told or not self._room)

    @property
    def _room(self) -> int:
        """How many replies more may be told."""
        return MOST_REPLIES - sum(told.reply.told for told in self._told.values())

    def _begin(self) -> list[Reply]:
        """Return the replies of which nothing is told yet; the longest looked on at first."""
        begun: list[Reply] = []
        for execution, onlooker in sorted(self._onlookers.items(), key=lambda one: one[1].since_ms):
            for text in self._texts.of(execution):
                if text not in self._told:
                    # It is made now, so the look that found this head came before its record.
                    id = new_id("rly", self._clock, self._random)
                    given = (execution, id, text.address, text.attempt, text.fence, onlooker.head)
                    reply = Reply(*given, told=self._room > 0)
                    self._told[text] = _Told(reply, onlooker.since_ms)
                    begun.append(reply)
        return begun

    def _pieces(self) -> list[Piece]:
        """Return what comes next of each text, and count it as told."""
        longer = [(text, told) for text, told in self._told.items() if told.reply.told and text.length > told.length]
        share = MOST_CHARACTERS // max(len(longer), 1)
        pieces: list[Piece] = []
        for text, told in longer:
            end = min(text.length, told.length + share)
            pieces.append(Piece(told.reply, told.length, text.between(told.length, end)))
            told.length = end
        return pieces


@dataclass(slots=True)
class _Told:
    """What was told of one text."""

    reply: Reply
    since_ms: int
    """Of those to whom it was."""
    length: int = 0


class Listener:
    """Knows what other servers tell. Owner: the executor's loop; `of` is for any thread."""

    def __init__(self, holder: str) -> None:
        self._holder = holder
        self._heard: Mapping[str, _Heard] = {}
        """By execution, as of the last look. Replaced as a whole."""

    def of(self, execution: str, after: int) -> tuple[LiveText, ...]:
        """Return the replies that are made elsewhere, to a reader who was given the log up to an event.

        Nothing, unless the look that found them knew just as much: of a reply that the reader was given, or of one that
        follows on what it was not, it is told no text.
        """
        found = self._heard.get(execution)
        return tuple(found.replies.values()) if found is not None and found.head == after else ()

    def known(self, followed: Iterable[str]) -> dict[str, Mapping[str, int]]:
        """Return how much is known of the replies of these executions."""
        return {one: self._heard[one].lengths if one in self._heard else {} for one in followed}

    def wanted(self, told: Mapping[str, Sequence[Row]], now_ms: int) -> list[str]:
        """Return the executions of which another server should know that somebody looks on here."""
        rows = [rows[0] for rows in told.values()]
        return [
            row["execution"]
            for row in rows
            if self._elsewhere(row) and (row["until_ms"] or 0) - now_ms < ONLOOKING_MS / 2
        ]

    def take(self, told: Mapping[str, Sequence[Row]]) -> list[str]:
        """Take what a look found; return the executions of which there is something to tell."""
        before = self._heard
        self._heard = {execution: self._listen(before.get(execution), rows) for execution, rows in told.items()}
        return [one for one, heard in self._heard.items() if heard.replies and heard.differs(before.get(one))]

    def _listen(self, before: _Heard | None, rows: Sequence[Row]) -> _Heard:
        known: Mapping[str, LiveText] = before.replies if before is not None else {}
        replies: dict[str, LiveText] = {}
        for row in rows:
            if row["reply"] is not None and self._elsewhere(row):
                text = replies.setdefault(row["reply"], known.get(row["reply"]) or _text(row))
                if row["begins"] == text.length:  # else something is missing before it, and it is no use
                    text.add(decode(row["piece"]))
        return _Heard(rows[0]["head"], replies, {id: text.length for id, text in replies.items()})

    def _elsewhere(self, row: Row) -> bool:
        """Whether another server, and no worker, holds an execution."""
        return row["holder"] is not None and row["holder"].startswith(SERVER) and row["holder"] != self._holder


@dataclass(frozen=True, slots=True)
class _Heard:
    """What a look found of an execution."""

    head: int
    """The last event of its log."""
    replies: Mapping[str, LiveText]
    lengths: Mapping[str, int]
    """Of their texts, as of this look."""

    def differs(self, before: _Heard | None) -> bool:
        """Whether an earlier look found something else."""
        return before is None or (before.head, before.lengths) != (self.head, self.lengths)


def _text(row: Row) -> LiveText:
    return LiveText(row["address"], row["attempt"], row["fence"], told=bool(row["told"]))
