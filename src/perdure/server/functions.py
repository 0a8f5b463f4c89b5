"""Executions of durable functions in-process: workers here claim from here, and so do the HTTP routes of the others."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, assert_never

from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.events import Event
from perdure.core.functions import (
    ClaimedExecution,
    ClaimRequest,
    Claims,
    Entry,
    HeldExecution,
    Refusal,
    Reply,
)
from perdure.core.ids import shard_of
from perdure.core.items import Item, StartChild
from perdure.core.notices import is_notice
from perdure.core.work import Answer
from perdure.engine.claim import Claimed
from perdure.engine.lanes import (
    ClaimLanes,
    ReleaseExecutions,
    RenewExecutions,
    claim_lanes,
    latest_of,
    release_executions,
    renew_executions,
)
from perdure.engine.park import Finish, Halt, Park, Released, StillHeld, finish, halt, park
from perdure.engine.query import events_of, events_page, execution_row_of
from perdure.engine.record import News, Record, lost, record
from perdure.errors import InvalidInput, LeaseLost, NotFound, PerdureError, UserError
from perdure.server.direct import read_definition
from perdure.server.direct_blobs import DirectBlobs
from perdure.server.hub import DRAINING, stirred
from perdure.server.journal import DirectJournal
from perdure.store.protocol import Reads, Ref
from perdure.store.tx import Note
from perdure.wire.items import items_from_json

if TYPE_CHECKING:
    from perdure.server.node import Node

POLL_SECONDS = 5.0
"""How often a waiting claim looks without a hint."""
PAGE = 1_000
"""Events in one reply at most; fewer if they are large."""
REPLY_BYTES = 4_000_000
_TOLD = 10_000
"""Executions of which it is remembered how far their holders have heard."""

Speaking = Callable[[str], AbstractContextManager[Callable[[Sequence[Event]], None]]]
"""`DirectFunctionSource.speaking`."""


@dataclass(slots=True)
class _Poll:
    """What a waiting claim is told."""

    stir: asyncio.Event = field(default_factory=asyncio.Event)
    """To look at: news, or executions."""
    ready: bool = False
    """Whether some became ready. Each step of each execution stirs, and to ask the store each time would cost as much
    as the step."""


class DirectFunctionSource(DirectBlobs):
    """The durable functions of one company over a node."""

    def __init__(self, node: Node, company: str) -> None:
        DirectBlobs.__init__(self, node.bridge, company, node.parts.max_value_bytes)
        self._node = node
        self._bridge = node.bridge
        self._company = company
        self._speaking: Counter[str] = Counter()
        """Executions whose holder waits for an answer, which will bring all news along."""
        self._told: OrderedDict[str, int] = OrderedDict()
        """How far holders have heard, by execution: hints about that are none."""
        self._polls: dict[asyncio.Event, None] = {}
        """Whoever waits for executions or news, in the order in which they came: those that came first hear first."""

    async def claim(self, request: ClaimRequest, *, wait_seconds: float) -> Claims:
        """Claim executions; wait up to `wait_seconds` for the first one, or for news of a watched one."""
        clock = self._node.parts.clock
        until_ms = clock.monotonic_ms() + wait_seconds * 1000
        heard: dict[str, int] = {}
        async with self._listening(request, heard) as poll:
            heard.update(await self._latest(request.watch))
            claimed = await self._claim(request)
            while True:
                news = self._news(request.watch, heard)
                left = (until_ms - clock.monotonic_ms()) / 1000
                if claimed or news or left <= 0 or self._node.draining:
                    return Claims(tuple(self._given(one, request.lease_ms) for one in claimed), news)
                hinted = await stirred(poll.stir, min(left, POLL_SECONDS))
                if not hinted:
                    heard.update(await self._latest(request.watch))
                claim = request.slots and (poll.ready or not hinted)
                poll.stir.clear()  # before looking: what becomes ready meanwhile must wake us
                poll.ready = False
                claimed = await self._claim(request) if claim else []

    async def renew(self, worker: str, held: Sequence[HeldExecution], lease_ms: int) -> list[Answer]:
        """Prolong ownerships; `lease_lost` tells the holder to stop."""
        return await self._bridge.run(renew_executions, RenewExecutions(self._company, worker, lease_ms, tuple(held)))

    async def release(self, worker: str, held: Sequence[HeldExecution]) -> list[Answer]:
        """Return executions that this worker will not go on with, so that others may at once."""
        return await self._bridge.run(release_executions, ReleaseExecutions(self._company, worker, tuple(held)))

    def opened(self, worker: str, claimed: ClaimedExecution) -> HeardJournal:
        """Return the journal of a claimed execution."""
        ref = Ref(shard_of(claimed.execution), claimed.execution)
        journal = DirectJournal(self._bridge, self._node.parts.clock, ref, claimed.fence, self._company)
        return HeardJournal(journal, self.speaking, claimed.execution)

    async def journal(self, worker: str, entries: Sequence[Entry]) -> list[Reply]:
        """Give all entries to the writer at once, so that they share a commit; answer them one by one."""
        said = await asyncio.gather(*[self._answer(one) for one in entries], return_exceptions=True)
        return [_reply(one) for one in said]

    async def aclose(self) -> None:
        """Nothing is held open."""

    @contextmanager
    def speaking(self, execution: str) -> Generator[Callable[[Sequence[Event]], None]]:
        """While a holder waits for an answer about an execution, hints about it are none: the answer brings all along.

        Gives what to call with the events of that answer.
        """
        self._speaking[execution] += 1
        try:
            yield partial(self._tell, execution)
        finally:
            self._speaking[execution] -= 1
            if not self._speaking[execution]:
                del self._speaking[execution]
            for poll in self._polls:
                poll.set()

    async def _answer(self, entry: Entry) -> Reply:
        with self.speaking(entry.execution) as tell:
            reply = await self._say(entry)
            tell(reply.events)
            return reply

    def _say(self, entry: Entry) -> Coroutine[Any, Any, Reply]:
        ref = Ref(shard_of(entry.execution), entry.execution)
        match entry.verb:
            case "record":
                return self._record(entry, ref)
            case "events":
                return self._events(entry, ref)
            case "park":
                return self._let_go(park, Park(ref, entry.fence, entry.seen, entry.active_ms, self._company))
            case "finish":
                return self._finish(entry, ref)
            case "halt":
                return self._halt(entry, ref)
            case _:
                assert_never(entry.verb)

    async def _record(self, entry: Entry, ref: Ref) -> Reply:
        items = items_from_json(entry.items)
        for item in items:
            if isinstance(item, StartChild):
                _check_child(item)
        answer = await self._bridge.ask(record, Record(ref, entry.fence, entry.seen, items, self._company))
        return _news(answer)

    async def _events(self, entry: Entry, ref: Ref) -> Reply:
        def page(reads: Reads) -> tuple[list[Event], int]:
            row = execution_row_of(reads, self._company, entry.execution)
            if row["fence"] != entry.fence:  # what is told here counts as heard by whoever holds it
                raise lost(ref)
            return events_page(reads, entry.execution, entry.seen, PAGE), row["next_seq"] - 1

        events, last = await self._bridge.read(page)
        return Reply(Answer.ACCEPTED, tuple(events), more=bool(events) and events[-1].seq < last)

    async def _finish(self, entry: Entry, ref: Ref) -> Reply:
        if entry.event not in ("complete", "fail", "end"):
            raise InvalidInput(f"event is {entry.event!r}; `finish` takes complete, fail or end.", fields=["event"])
        row = Finish(ref, entry.fence, entry.seen, entry.active_ms, entry.event, entry.data, self._company)
        return await self._let_go(finish, row)

    async def _halt(self, entry: Entry, ref: Ref) -> Reply:
        if entry.event not in ("pause", "stick"):
            raise InvalidInput(f"event is {entry.event!r}; `halt` takes pause or stick.", fields=["event"])
        row = Halt(ref, entry.fence, entry.event, entry.reason, entry.message, self._company)
        return await self._let_go(halt, row)

    async def _let_go(self, operation: Any, row: Any) -> Reply:
        answer: News | Released | StillHeld = await self._bridge.ask(operation, row)
        match answer:
            case News():
                return _news(answer)
            case StillHeld():
                return Reply(Answer.ACCEPTED, outcome="held")
            case Released():
                said = Answer.ALREADY_ACCEPTED if answer.again else Answer.ACCEPTED
                return Reply(said, outcome="ended" if operation is finish else "released")

    def _given(self, one: Claimed, lease_ms: int) -> ClaimedExecution:
        return ClaimedExecution(
            execution=one.ref.execution,
            name=one.agent,
            build=one.build,
            fence=one.fence,
            lease_ms=lease_ms,
            last_seq=one.last_seq,
            active_ms=one.active_ms,
            events=tuple(events_of(one.events)),
            tokens=self._node.issuer(one.company),
        )

    async def _claim(self, request: ClaimRequest) -> list[Claimed]:
        return await self._bridge.run(claim_lanes, ClaimLanes(self._company, request))

    @asynccontextmanager
    async def _listening(self, request: ClaimRequest, heard: dict[str, int]) -> AsyncGenerator[_Poll]:
        poll = _Poll()

        def hear(note: Note) -> None:
            if note.rows:
                heard[note.key] = note.rows[-1]["seq"]
            poll.ready = poll.ready or note.topic == "ready"
            poll.stir.set()

        ready = [("ready", lane.name) for lane in request.lanes] if request.slots else []
        topics = [DRAINING, *ready, *(("events", execution) for execution in request.watch)]
        self._polls[poll.stir] = None
        try:
            with self._node.hub.listening(topics, hear):
                yield poll
        finally:
            self._polls.pop(poll.stir, None)

    async def _latest(self, watch: Mapping[str, int]) -> dict[str, int]:
        """Return how far the logs of watched executions go. Polling is the truth; hints may be lost."""
        wanted: dict[str, Json] = {execution: shard_of(execution) for execution in watch}
        return await self._bridge.glance(lambda reads: latest_of(reads, self._company, wanted)) if wanted else {}

    def _news(self, watch: Mapping[str, int], heard: Mapping[str, int]) -> dict[str, int]:
        return {
            execution: seq
            for execution, seq in heard.items()
            if seq > max(watch.get(execution, seq), self._told.get(execution, 0)) and not self._speaking[execution]
        }

    def _tell(self, execution: str, events: Sequence[Event]) -> None:
        """Remember how far the holder has heard."""
        if events:
            self._told[execution] = events[-1].seq
            self._told.move_to_end(execution)
        if len(self._told) > _TOLD:
            self._told.popitem(last=False)


class HeardJournal:
    """`Journal` of a worker in this process. What its answers bring along is no news to whoever waits for news."""

    def __init__(self, journal: DirectJournal, speaking: Speaking, execution: str) -> None:
        self._journal = journal
        self._speaking = speaking
        self._execution = execution

    async def record(self, seen: int, items: Sequence[Item]) -> list[Event]:
        with self._speaking(self._execution) as tell:
            events = await self._journal.record(seen, items)
            tell(events)
            return events

    async def events(self, after: int) -> list[Event]:
        with self._speaking(self._execution) as tell:
            events = await self._journal.events(after)
            tell(events)
            return events

    async def park(self, seen: int, active_ms: int) -> list[Event]:
        return await self._journal.park(seen, active_ms)

    async def finish(
        self, seen: int, active_ms: int, event: Literal["complete", "fail", "end"], data: str
    ) -> list[Event] | Literal["ended", "held"]:
        return await self._journal.finish(seen, active_ms, event, data)

    async def halt(self, event: Literal["pause", "stick"], reason: str, message: str) -> None:
        await self._journal.halt(event, reason, message)


def _check_child(item: StartChild) -> None:
    """See that what a worker wants to begin is what it says: of that name, and under its own fingerprint.

    Under another one it might stand for what servers alone begin, a wake, or for what is registered later.
    """
    said = (item.agent, item.definition, item.lane)
    known = read_definition(codec.encode_json(item.spec, "the child's definition"))
    if known != said or is_notice(item.spec) or not item.id.startswith("exe_"):
        raise InvalidInput(
            f"the child {item.id[:40]!r} at {item.address[:80]!r} is said to be {said!r:.200}, and its definition is "
            f"{known!r:.200}. An agent or a durable function, and an id `exe_…`, are expected.",
            code="bad_child",
        )


def _news(answer: News) -> Reply:
    """Return the events, as many as one reply holds: at least one."""
    rows, size = list(answer.events), 0
    for number, row in enumerate(rows):
        size += len(row["data"])
        if number and (size > REPLY_BYTES or number >= PAGE):
            return Reply(Answer.ACCEPTED, tuple(events_of(rows[:number])), more=True)
    return Reply(Answer.ACCEPTED, tuple(events_of(rows)))


def _reply(said: Reply | BaseException) -> Reply:
    """Return the reply. What cannot be recorded as it is contradicts, and touches no other entry; what a store cannot
    take now must be said again, so its error is raised."""
    match said:
        case Reply():
            return said
        case LeaseLost() | NotFound():
            return Reply(Answer.LEASE_LOST)
        case UserError():
            return Reply(Answer.CONFLICT, refusal=_refusal(said))
        case _:
            raise said


def _refusal(error: PerdureError) -> Refusal:
    return Refusal(error.status, error.code, error.message)
