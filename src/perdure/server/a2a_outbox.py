"""Tell others of what A2A tasks do, by requests to where they asked to be told. Each server of a store takes its share.

At least once, in the order of the log, and each receiver by one server at a time: who has it holds it for a lease,
begins no request that might outlast that, and says then how far the receiver was told. Nothing that a receiver says is
trusted: where it is, how long it takes and how much it answers are bounded, and redirects are not followed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

import anyio
import httpx2
from anyio.abc import TaskGroup

from perdure import failpoints
from perdure.core.ports import Clock, Random
from perdure.doors.a2a_story import Object, Story, as_of_0_3
from perdure.engine.a2a_push import (
    TOPIC,
    DuePush,
    MissedPush,
    TakePush,
    ToldPush,
    any_push,
    due_pushes,
    free_pushes,
    missed_push,
    take_push,
    told_push,
)
from perdure.engine.a2a_read import a2a_task
from perdure.errors import NotFound, Retryable, StoreFailed
from perdure.log import get_log
from perdure.server.bridge import Bridge
from perdure.server.hub import Hub, stirred
from perdure.server.store_time import StoreTime
from perdure.store.protocol import Reads
from perdure.toolbox.guarded_http import CONNECT_SECONDS, AddressRefused, GuardedTransport, Outbound, Resolve, resolve
from perdure.version import VERSION
from perdure.wire import codec

log = get_log(__name__)

LOOK_SECONDS = 0.5
"""Between two looks while anybody is to be told of anything."""
IDLE_SECONDS = 15.0
"""Otherwise: for those that another server took on and left behind."""
LEASE_MS = 40_000
"""How long a receiver is one server's: longer than the requests about one event may take, which are two at most."""
REQUEST_SECONDS = 15.0
MOST_BYTES = 64 * 1024
"""Of an answer, which nobody reads."""
AT_A_TIME = 16
"""Receivers that one server speaks to."""
OF_ONE_COMPANY = 4
"""Of them: one company's, that are slow, do not keep the others waiting."""
SEEN = 500
"""Receivers that a look sees."""
MOST_TRIES = 15
"""In a row; about three hours."""
PAUSE_MS = 1_000
"""Before the second try; then twice as long each time."""
MOST_PAUSE_MS = 3_600_000
SHOWN = 300
"""Letters of what went wrong."""


class Missed(Exception):
    """A receiver did not take it."""


@dataclass(frozen=True, slots=True)
class News:
    """What there is to tell of a task."""

    steps: tuple[tuple[int, list[Object]], ...]
    """Up to which event they were told once they have these messages; the last one goes to the end of the log."""
    over: bool
    """Whether there is never more."""


@dataclass(frozen=True, slots=True)
class Outside:
    """How to get to receivers, and who else does."""

    outbound: Outbound
    shared: bool = True
    """Whether other servers of the store may be telling, too."""
    resolve: Resolve = resolve


class Outbox:
    """Run `run` in one task until it is cancelled."""

    def __init__(self, bridge: Bridge, hub: Hub, clock: Clock, random: Random, outside: Outside) -> None:
        self._bridge, self._hub, self._random, self._outside = bridge, hub, random, outside
        self._time, self._clock = StoreTime(bridge, clock), clock
        self._busy: set[tuple[str, str, str]] = set()
        """Whom this server is telling, by company, task and name. Owner: the loop that it runs on."""
        self._stir = asyncio.Event()
        self._alone = not outside.shared
        """Whether it has yet to take over what the former owner of its file was at."""

    async def run(self) -> None:
        """Tell until cancelled. Raises only `StoreFailed`."""
        with self._hub.listening([(TOPIC, "")], lambda _: self._stir.set()):
            async with anyio.create_task_group() as group:
                while True:
                    self._stir.clear()  # before looking: what comes meanwhile is seen, or stirs again
                    await stirred(self._stir, await self._look(group))

    async def _look(self, group: TaskGroup) -> float:
        """Have those told who are to be now; return in how many seconds to look again."""
        try:
            if not await self._bridge.read(any_push):
                return IDLE_SECONDS
            if self._alone:
                await self._bridge.run(free_pushes, None)
                self._alone = False
            for push in await self._due():
                group.start_soon(self._tell, push)
        except StoreFailed:
            raise
        except Retryable as error:
            log.debug("a2a.push_put_off", code=error.code, action="will look again")
        return LOOK_SECONDS

    async def _due(self) -> list[DuePush]:
        """Return whom to tell now, as many as there are hands for."""
        now_ms = await self._time.now_ms()
        taken: list[DuePush] = []
        for one in await self._bridge.read(partial(due_pushes, now_ms=now_ms, limit=SEEN)):
            name = (one.company, one.execution, one.id)
            of_company = sum(company == one.company for company, _, _ in self._busy)
            if name not in self._busy and of_company < OF_ONE_COMPANY and len(self._busy) < AT_A_TIME:
                self._busy.add(name)
                taken.append(one)
        return taken

    async def _tell(self, push: DuePush) -> None:
        try:
            until_ms = self._clock.monotonic_ms() + LEASE_MS
            taken_ms = await self._bridge.run(take_push, TakePush(push.execution, push.id, push.due_ms, LEASE_MS))
            if taken_ms:
                await self._tell_all(push, taken_ms, until_ms)
        except StoreFailed:
            raise
        except Retryable as error:
            log.debug("a2a.push_put_off", code=error.code, action="will look again")
        except Exception as error:
            log.exception("a2a.push_failed", task=push.execution, error=type(error).__name__, action="its lease ends")
        finally:
            self._busy.discard((push.company, push.execution, push.id))
            self._stir.set()  # there may be others that waited for a hand

    async def _tell_all(self, push: DuePush, taken_ms: int, until_ms: int) -> None:
        """Tell what there is to tell, or as much of it as goes well while the receiver is surely ours; say how far."""
        try:
            news = await self._bridge.read(partial(_news, push=push))
        except NotFound:  # it was deleted meanwhile, and so is this
            return
        told = push.told_seq
        for seq, messages in news.steps:
            if self._clock.monotonic_ms() + len(messages) * REQUEST_SECONDS * 1000 > until_ms:
                break
            try:
                for message in messages:
                    await self._post(push, message)
            except Exception as error:  # noqa: BLE001 - whatever a receiver did: it is its own matter, and is kept
                if told == push.told_seq:
                    await self._miss(push, taken_ms, error)
                    return
                break  # first of all, that it was told so far
            told = seq
        over = news.over and told == news.steps[-1][0]
        await self._bridge.run(told_push, ToldPush(push.execution, push.id, taken_ms, told, over))

    async def _miss(self, push: DuePush, taken_ms: int, error: Exception) -> None:
        give_up = push.tries + 1 >= MOST_TRIES or isinstance(error, AddressRefused)
        pause_ms = min(PAUSE_MS * 2**push.tries, MOST_PAUSE_MS)
        pause = None if give_up else round(pause_ms * self._random.uniform(0.8, 1.2))
        why = f"{type(error).__name__}: {error}"[:SHOWN]
        said = {"task": push.execution, "push": push.id, "tries": push.tries + 1, "error": type(error).__name__}
        if give_up:
            log.warning("a2a.push_given_up", **said, action="`perdure a2a pushes` tells why; set it anew to go on")
        else:
            log.info("a2a.push_missed", **said, pause_ms=pause)
        await self._bridge.run(missed_push, MissedPush(push.execution, push.id, taken_ms, why, pause))

    async def _post(self, push: DuePush, message: Object) -> None:
        """Send one request. Raises what went wrong."""
        failpoints.hit("a2a_push.send")
        transport = GuardedTransport(self._outside.outbound, self._outside.resolve, max_bytes=MOST_BYTES)
        limit = httpx2.Timeout(REQUEST_SECONDS, connect=CONNECT_SECONDS)
        client = httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, timeout=limit)
        with anyio.fail_after(REQUEST_SECONDS):
            async with client:
                answer = await client.post(push.url, content=codec.dump(message), headers=_headers(push))
        failpoints.hit("a2a_push.received")
        if not answer.is_success:
            raise Missed(f"it answered {answer.status_code}")


def _headers(push: DuePush) -> dict[str, str]:
    kind = "application/json" if push.version.startswith("0.") else "application/a2a+json"
    headers = {"Content-Type": kind, "User-Agent": f"perdure/{VERSION}", "Accept-Encoding": "identity"}
    if push.token:
        headers["X-A2A-Notification-Token"] = push.token
    if push.scheme:
        headers["Authorization"] = f"{push.scheme} {push.credentials}".rstrip()
    return headers


def _news(reads: Reads, push: DuePush) -> News:
    """Return what is to be told of the log, as far as it goes. Raises `NotFound`."""
    task = a2a_task(reads, push.company, push.agent, push.execution)
    story = Story(task.execution, task.context, task.message)
    known = [event for event in task.events if event.seq <= push.told_seq]
    for event in known:
        story.feed(event)
    story.reach(push.told_seq, task.updated_ms)
    steps = [(event.seq, updates) for event in task.events[len(known) :] if (updates := story.feed(event))]
    steps.append((task.last_seq, story.reach(task.last_seq, task.updated_ms)))
    if push.version.startswith("0."):  # whoever asked in that version is told of the task as it is in the end
        told = any(updates for _, updates in steps)
        steps = [(task.last_seq, [as_of_0_3(story.task())] if told else [])]
    return News(tuple(steps), story.ended)
