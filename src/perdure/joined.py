"""The verbs of a store that another process owns, asked of whoever owns it now.

A request that met no answer is asked again of the next owner. Those that must not be done twice carry a key of their
own, or are looked at first: what the former owner committed is found there, and not done again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from perdure.core import states
from perdure.core.codec import Json
from perdure.core.events import Event, Kind
from perdure.core.live import LiveNews
from perdure.core.ports import Clock, Random
from perdure.core.room_files import NewFile
from perdure.core.rooms import Act, Leave, OpenTask, Post, Remember, Written
from perdure.core.views import (
    ApprovalView,
    Decision,
    EffectView,
    ExecutionView,
    ForkEdits,
    Ruling,
    Started,
    StartRequest,
)
from perdure.errors import Conflict, NotFound, PerdureError, Unauthorized, Unreachable
from perdure.wire.api import Api, TaskSource
from perdure.wire.errors import NOT_SENT

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""How long a verb is asked again of one owner that does not answer. While owners follow each other it goes on, and
following and waiting go on for ever."""
ASKS = "admin"
"""Who asks where nobody is named: so the owner's door has it, and so it stays when this process is the owner."""


class Over(Exception):
    """The owner that was asked is not the owner any more."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One owner, as this process reaches it."""

    api: Api
    source: TaskSource
    owned: bool = False
    """This process is the owner itself: it cannot be gone."""
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def unless_over(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns. Raises `Over` as soon as somebody else owns the store."""
        if self.owned:
            return await work
        asked = asyncio.ensure_future(work)
        over = asyncio.ensure_future(self.over.wait())
        try:
            await asyncio.wait((asked, over), return_when=asyncio.FIRST_COMPLETED)
            # What is asked while it is hung up breaks in its own way, and says no more than that it is over.
            if not asked.done() or (self.over.is_set() and asked.exception() is not None):
                raise Over
            return asked.result()
        finally:
            over.cancel()
            if not asked.done():
                asked.cancel()
                await asyncio.wait((asked,))

    async def aclose(self) -> None:
        """Hang up."""
        await self.api.aclose()
        close = getattr(self.source, "aclose", None)
        if close is not None:
            await close()


class JoinedApi:
    """`Api` over whichever process owns the store. Belongs to the service loop."""

    def __init__(
        self,
        current: Callable[[], Place],
        moved: Callable[[Place], Awaitable[None]],
        clock: Clock,
        random: Random,
    ) -> None:
        """`current` gives the owner to ask; `moved` returns when it may be another one, or after a moment."""
        self._current, self._moved, self._clock, self._random = current, moved, clock, random

    async def ask(self, call: Callable[[Api], Coroutine[Any, Any, T]]) -> T:
        """Ask until an owner answers. `call` may be made again after it was done: see `_once`."""
        asked: Place | None = None
        until_ms = 0
        while True:
            place = self._current()
            if place is not asked:
                asked, until_ms = place, self._clock.monotonic_ms() + round(PATIENCE_SECONDS * 1000)
            try:
                return await place.unless_over(call(place.api))
            except Over:
                continue
            except PerdureError as error:
                if place.owned or not _nobody_there(error) or self._clock.monotonic_ms() > until_ms:
                    raise
            await self._moved(place)

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Return a verb that may be said twice: it reads, or the second time changes nothing."""
        if verb.startswith("_"):
            raise AttributeError(verb)
        return lambda *given, **more: self.ask(lambda api: getattr(api, verb)(*given, **more))

    async def start(self, request: StartRequest) -> Started:
        """Begin an execution, once: without a key of the caller's it gets one of its own."""
        own = request.idempotency_key is None
        if own:
            request = replace(request, idempotency_key=f"auto-{self._chance()}")
        started = await self.ask(lambda api: api.start(request))
        return replace(started, created=True) if own else started

    async def follow(self, execution: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Yield the log above `after` until the execution has ended, from owner to owner, without gap or repeat."""
        async with aclosing(self._followed(execution, after, live=False)) as news:
            async for one in news:
                yield cast("Event", one)

    async def follow_live(self, execution: str, *, after: int = 0) -> AsyncIterator[Event | LiveNews]:
        """Yield what `follow` yields, and what models say meanwhile."""
        async with aclosing(self._followed(execution, after, live=True)) as news:
            async for one in news:
                yield one

    async def _followed(self, execution: str, after: int, *, live: bool) -> AsyncGenerator[Event | LiveNews]:
        while True:
            place = self._current()
            follow = place.api.follow_live if live else place.api.follow
            news = follow(execution, after=after)
            try:
                while (one := await place.unless_over(_next(news))) is not None:
                    after = one.seq if isinstance(one, Event) else after
                    yield one
            except Over:
                continue
            except PerdureError as error:
                if place.owned or not _nobody_there(error):
                    raise
            else:
                return
            finally:
                with contextlib.suppress(PerdureError):
                    await cast("Any", news).aclose()
            await self._moved(place)

    async def wait(self, execution: str) -> None:
        """Return once the execution has ended, whoever saw it through."""
        while True:
            place = self._current()
            try:
                return await place.unless_over(place.api.wait(execution))
            except Over:
                continue
            except PerdureError as error:
                if place.owned or not _nobody_there(error):
                    raise
            await self._moved(place)

    async def send(self, execution: str, text: str, *, by: str = "", dedupe: str | None = None) -> int:
        key = dedupe or f"auto-{self._chance()}"
        return await self.ask(lambda api: api.send(execution, text, by=by, dedupe=key))

    async def signal(
        self, execution: str, name: str, value: Json = None, *, by: str = "", dedupe: str | None = None
    ) -> int:
        key = dedupe or f"auto-{self._chance()}"
        return await self.ask(lambda api: api.signal(execution, name, value, by=by, dedupe=key))

    async def trigger_schedule(self, name: str, *, nonce: str = "") -> Started:
        nonce = nonce or f"auto-{self._chance()}"
        return await self.ask(lambda api: api.trigger_schedule(name, nonce=nonce))

    async def fork(
        self, execution: str, at: int, edits: ForkEdits, *, by: str = "", idempotency_key: str | None = None
    ) -> Started:
        """Fork an execution, once: without a key of the caller's it gets one of its own."""
        key = idempotency_key or f"auto-{self._chance()}"
        started = await self.ask(lambda api: api.fork(execution, at, edits, by=by, idempotency_key=key))
        return started if idempotency_key else replace(started, created=True)

    async def create_room(self, name: str, *, key: str = "", by: str = "") -> Written:
        key = key or f"auto-{self._chance()}"
        return await self.ask(lambda api: api.create_room(name, key=key, by=by or ASKS))

    async def write_in_room(self, room: str, act: Act, *, by: str = "") -> Written:
        if isinstance(act, Post | OpenTask | Remember) and not act.key:
            act = replace(act, key=f"auto-{self._chance()}")
        if isinstance(act, Leave):
            gone = Written(room, 0, created=False)
            return await self._taken(lambda api: api.write_in_room(room, act, by=by or ASKS), gone)
        return await self.ask(lambda api: api.write_in_room(room, act, by=by or ASKS))

    async def put_room_file(self, room: str, file: NewFile, *, by: str = "") -> Written:
        named = file if file.key else replace(file, key=f"auto-{self._chance()}")
        return await self.ask(lambda api: api.put_room_file(room, named, by=by or ASKS))

    async def delete_schedule(self, name: str) -> None:
        await self._taken(lambda api: api.delete_schedule(name), None)

    async def delete_secret(self, name: str) -> None:
        await self._taken(lambda api: api.delete_secret(name), None)

    async def withdraw_agent(self, agent: str) -> None:
        await self._taken(lambda api: api.withdraw_agent(agent), None)

    async def remove_room_hook(self, name: str) -> None:
        await self._taken(lambda api: api.remove_room_hook(name), None)

    async def pause(self, execution: str, *, by: str = "", reason: str = "") -> None:
        await self._once(
            lambda api: api.pause(execution, by=by, reason=reason),
            _stands(execution, lambda view: view.state == states.Execution.PAUSED),
        )

    async def resume(self, execution: str, *, by: str = "") -> None:
        held = (states.Execution.PAUSED, states.Execution.STUCK)
        await self._once(
            lambda api: api.resume(execution, by=by), _stands(execution, lambda view: view.state not in held)
        )

    async def cancel(self, execution: str, *, by: str = "", reason: str = "") -> None:
        """Cancel once: a second cancel would skip the cleanup."""
        await self._once(
            lambda api: api.cancel(execution, by=by, reason=reason),
            _stands(
                execution,
                lambda view: view.state == states.Execution.CANCELLING or view.state in states.TERMINAL,
            ),
        )

    async def decide(
        self, approval: str, decision: Decision, *, by: str = "", reason: str = "", **more: Any
    ) -> ApprovalView:
        """Decide once: a decision of ours that the former owner had recorded is ours, and no conflict."""
        tries = 0

        async def attempt(api: Api) -> ApprovalView:
            nonlocal tries
            tries += 1
            try:
                return await api.decide(approval, decision, by=by, reason=reason, **more)
            except Conflict:
                ours = [
                    one for one in await api.approvals(state=None) if one.id == approval and _ours(one.decided_by, by)
                ]
                if tries == 1 or not ours or ours[0].decision != decision:
                    raise
                return ours[0]

        return await self.ask(attempt)

    async def rule(
        self, execution: str, address: str, ruling: Ruling, *, by: str = "", reason: str = "", value: Json = None
    ) -> EffectView:
        """Rule once, likewise."""
        tries = 0

        async def attempt(api: Api) -> EffectView:
            nonlocal tries
            tries += 1
            try:
                return await api.rule(execution, address, ruling, by=by, reason=reason, value=value)
            except Conflict:
                if tries == 1 or not await _was_ruled(api, execution, address, by, ruling):
                    raise
                return next(one for one in await api.effects(execution=execution) if one.address == address)

        return await self.ask(attempt)

    async def aclose(self) -> None:
        """Nothing: the places are closed by their owner."""

    async def _once(
        self, act: Callable[[Api], Coroutine[Any, Any, None]], done: Callable[[Api], Coroutine[Any, Any, bool]]
    ) -> None:
        """Act, and look whether it was done before acting again."""
        tries = 0

        async def attempt(api: Api) -> None:
            nonlocal tries
            tries += 1
            if tries == 1 or not await done(api):
                await act(api)

        await self.ask(attempt)

    async def _taken(self, take: Callable[[Api], Coroutine[Any, Any, T]], gone: T) -> T:
        """Take something away. Whoever is asked after another owner and has none is believed: that one took it away."""
        tries = 0

        async def attempt(api: Api) -> T:
            nonlocal tries
            tries += 1
            try:
                return await take(api)
            except NotFound:
                if tries == 1:
                    raise
                return gone

        return await self.ask(attempt)

    def _chance(self) -> str:
        return self._random.token(16).hex()


def _nobody_there(error: PerdureError) -> bool:
    """Whether the error says that the owner is gone, or going; or that somebody else took its port."""
    return isinstance(error, Unreachable | Unauthorized) or error.code in NOT_SENT or error.code == "not_perdure"


def _stands(execution: str, as_wanted: Callable[[ExecutionView], bool]) -> Callable[[Api], Coroutine[Any, Any, bool]]:
    async def look(api: Api) -> bool:
        return as_wanted(await api.execution(execution))

    return look


async def _was_ruled(api: Api, execution: str, address: str, by: str, ruling: Ruling) -> bool:
    """Whether the log says that the last ruling on an effect is this one."""
    last, after = None, 0
    while events := await api.events(execution, after=after):
        after = events[-1].seq
        ruled = [one.data for one in events if one.kind is Kind.EFFECT_RULED and one.address == address]
        last = ruled[-1] if ruled else last
    return last is not None and last.get("ruling") == ruling and _ours(last.get("by"), by)


def _ours(recorded: object, by: str) -> bool:
    """Whether a name in the log is the one we gave; without one, the owner wrote down its key's."""
    return recorded == by or (not by and recorded == ASKS)


async def _next(news: AsyncIterator[T]) -> T | None:
    return await anext(news, None)
