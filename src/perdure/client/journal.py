"""The log of an execution that this worker owns, over HTTP: one request at a time for all of a worker's executions.

What queued while a request was under way goes into the next one. While the server is away it is sent again and again,
and nothing of it is lost: whoever holds the fence may still say what it did.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from perdure.client.channel import Ask, Channel
from perdure.core.events import Event
from perdure.core.functions import Entry, Reply
from perdure.core.items import Item
from perdure.core.ports import Clock
from perdure.core.work import Answer
from perdure.errors import LeaseLost, PerdureError, Retryable, from_wire
from perdure.log import get_log
from perdure.wire import codec, routes
from perdure.wire.bodies import JournalReply
from perdure.wire.items import items_to_json

log = get_log(__name__)

MOST_ENTRIES = 500
_ENVELOPE_BYTES = 256 * 1024
PAUSE_SECONDS = 1.0
"""Between the tries of a request that the channel gave up on."""


@dataclass(slots=True)
class _Letter:
    """An entry as it travels, and who waits for its reply."""

    text: bytes
    reply: asyncio.Future[Reply]


class JournalPost:
    """Sends what a worker has to say in logs. Owner: its source, on its loop."""

    def __init__(self, channel: Channel, worker: str, clock: Clock) -> None:
        self._channel = channel
        self._worker = codec.dump(worker)
        self._clock = clock
        self._waiting: deque[_Letter] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._in_trouble = False

    def put(self, entry: Entry) -> asyncio.Future[Reply]:
        """Have an entry sent with the next request; await its reply. Cancelled before it was sent, it never is."""
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Letter(codec.dump(entry), reply))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send_all(), name="perdure journal")
        return reply

    async def aclose(self) -> None:
        """Send nothing more."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        for letter in self._waiting:
            letter.reply.cancel()
        self._waiting.clear()

    async def _send_all(self) -> None:
        while batch := self._next():
            try:
                await self._send(batch)
            except BaseException:
                for letter in batch:
                    letter.reply.cancel()
                raise

    def _next(self) -> list[_Letter]:
        """Take what fits into one request, in order: at least one."""
        batch: list[_Letter] = []
        size = 0
        while self._waiting and len(batch) < MOST_ENTRIES:
            if self._waiting[0].reply.done():
                self._waiting.popleft()
                continue
            size += len(self._waiting[0].text) + 1
            if batch and size > routes.MAX_BODY_BYTES - _ENVELOPE_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _send(self, batch: list[_Letter]) -> None:
        """Send until there is an answer. A request refused as a whole is taken apart, to find who is to blame."""
        while True:
            try:
                replies = await self._ask(batch)
            except Retryable as error:
                self._met(error)
                await self._clock.sleep(PAUSE_SECONDS)
                continue
            except PerdureError as error:
                if len(batch) == 1:
                    _answer(batch[0], error)
                    return
                for letter in batch:
                    await self._send([letter])
                return
            self._over()
            for letter, reply in zip(batch, replies, strict=True):
                _answer(letter, reply)
            return

    async def _ask(self, batch: list[_Letter]) -> Sequence[Reply]:
        entries = b",".join(letter.text for letter in batch)
        body = b'{"worker":%s,"entries":[%s]}' % (self._worker, entries)
        found = await self._channel.call(Ask("journal", "POST", routes.JOURNAL, body=body))
        return codec.load(JournalReply, found).replies

    def _met(self, error: Retryable) -> None:
        if not self._in_trouble:
            self._in_trouble = True
            log.warning("journal.unanswered", reason=error.message, action="sending again until the server answers")

    def _over(self) -> None:
        if self._in_trouble:
            self._in_trouble = False
            log.info("journal.answered_again")


class HttpJournal:
    """One execution under one fence. Its verbs raise `LeaseLost` once somebody else holds it."""

    def __init__(self, post: JournalPost, execution: str, fence: int) -> None:
        self._post = post
        self._execution = execution
        self._fence = fence

    async def record(self, seen: int, items: Sequence[Item]) -> list[Event]:
        """Append, and return all events above `seen`."""
        entry = Entry(self._execution, self._fence, "record", seen, items=items_to_json(items))
        return await self._whole(await self._say(entry))

    async def events(self, after: int) -> list[Event]:
        """Read events above `after`, all of them."""
        return await self._whole(await self._say(Entry(self._execution, self._fence, "events", after)))

    async def park(self, seen: int, active_ms: int) -> list[Event]:
        """Let go, or return the events that were not seen."""
        return await self._whole(
            await self._say(Entry(self._execution, self._fence, "park", seen, active_ms=active_ms))
        )

    async def finish(
        self, seen: int, active_ms: int, event: Literal["complete", "fail", "end"], data: str
    ) -> list[Event] | Literal["ended", "held"]:
        """End it, or return the events that were not seen."""
        entry = Entry(self._execution, self._fence, "finish", seen, active_ms=active_ms, event=event, data=data)
        reply = await self._say(entry)
        match reply.outcome:
            case "ended" | "held":
                return reply.outcome
            case _:
                return await self._whole(reply)

    async def halt(self, event: Literal["pause", "stick"], reason: str, message: str) -> None:
        """Pause or stick it, and let go."""
        entry = Entry(self._execution, self._fence, "halt", event=event, reason=reason, message=message)
        await self._say(entry)

    async def _say(self, entry: Entry) -> Reply:
        reply = await self._post.put(entry)
        match reply.answer:
            case Answer.LEASE_LOST:
                raise LeaseLost(f"execution {self._execution}: its fence moved on; somebody else owns it now.")
            case Answer.CONFLICT if reply.refusal is not None:
                raise from_wire(reply.refusal.status, reply.refusal.code, reply.refusal.message)
            case _:
                return reply

    async def _whole(self, reply: Reply) -> list[Event]:
        """Return the events of a reply, and read those that it had no room for."""
        events = list(reply.events)
        while reply.more:
            reply = await self._say(Entry(self._execution, self._fence, "events", events[-1].seq))
            events += reply.events
        return events


def _answer(letter: _Letter, answer: Reply | PerdureError) -> None:
    if letter.reply.done():  # nobody waits any more
        return
    if isinstance(answer, Reply):
        letter.reply.set_result(answer)
    else:
        letter.reply.set_exception(answer)
