"""One event stream for a whole user interface: which executions changed, whether decisions wait, and logs as they grow.

Frames: `ready` once, after which nothing is missed; `executions` with those that changed; `approvals` with how many are
open; `log` with events of one execution that is followed; `delta` and `reset` with what a model says there, which is in
no log; `end` when its log is complete; `unknown` if there is no such one. `id` says how far each log was sent, as
`exe_1:14,exe_2:3`: who comes back with it goes on there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, cast

from starlette.types import Message, Send

from perdure.core.events import Event
from perdure.core.live import LiveNews
from perdure.core.views import ExecutionSummary
from perdure.errors import InvalidInput, NotFound
from perdure.server.call import Call
from perdure.server.changes import Changes
from perdure.server.stream import Lasting, piece
from perdure.wire import codec, frames
from perdure.wire.bodies_screen import FeedApprovals, FeedExecutions, FeedLive, FeedLog, FeedOf

MOST_FOLLOWED = 20
"""Logs on one stream."""


def followed(given: list[str], last_id: bytes | None) -> dict[str, int]:
    """Return the executions to follow, and behind which event of each. Raises `InvalidInput`."""
    last = dict(map(_place, last_id.decode("latin-1").split(","))) if last_id else {}
    wanted = dict(map(_place, given))
    if len(wanted) > MOST_FOLLOWED:
        raise InvalidInput(
            f"follow names {len(wanted)} executions; one stream follows at most {MOST_FOLLOWED}.", fields=["follow"]
        )
    return {execution: max(after, last.get(execution, 0)) for execution, after in wanted.items()}


def _place(text: str) -> tuple[str, int]:
    execution, _, after = text.partition(":")
    if not execution or not (after or "0").isdigit() or len(after) > 18:
        raise InvalidInput(
            f"{text[:60]!r} is no execution and event, as exe_1 or exe_1:14.", fields=["follow", "Last-Event-ID"]
        )
    return execution, int(after or "0")


class Feed(Lasting):
    """What changes, until its client goes or the server leaves. It never ends by itself."""

    def __init__(self, call: Call, changes: Changes, after: Mapping[str, int]) -> None:
        super().__init__(call.streams, call.principal.company, call.limits.streams)
        self._api = call.api
        self._changes = changes
        self._after = dict(after)

    async def pump(self, send: Send) -> None:
        """Send frames until cancelled. Raises the first error that reading met."""
        try:
            async with self._changes.watching() as watcher, asyncio.TaskGroup() as group:
                await send(_frame("ready", b"{}"))
                for execution in self._after:
                    group.create_task(self._follow(execution, send), name="feed.log")
                while True:
                    await _tell(*await watcher.news(), send)
        except ExceptionGroup as errors:
            raise _first(errors) from errors

    async def _follow(self, execution: str, send: Send) -> None:
        name = codec.dump(FeedOf(execution))
        try:
            async with aclosing(cast("Any", self._api.follow_live(execution, after=self._after[execution]))) as news:
                async for one in news:
                    await send(self._told(execution, one))
        except NotFound:
            await send(_frame("unknown", name))
            return
        await send(_frame("end", name))

    def _told(self, execution: str, one: Event | LiveNews) -> Message:
        if not isinstance(one, Event):
            return _frame(frames.kind_of(one), codec.dump(FeedLive(execution, one)))
        self._after[execution] = one.seq
        return _frame("log", codec.dump(FeedLog(execution, (one,))), self._id())

    def _id(self) -> bytes:
        return ",".join(f"{execution}:{after}" for execution, after in self._after.items()).encode()


async def _tell(executions: list[ExecutionSummary], open_approvals: int | None, send: Send) -> None:
    if executions:
        await send(_frame("executions", codec.dump(FeedExecutions(tuple(executions)))))
    if open_approvals is not None:
        await send(_frame("approvals", codec.dump(FeedApprovals(open_approvals))))


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    found = errors.exceptions[0]
    return _first(cast("ExceptionGroup[Exception]", found)) if isinstance(found, ExceptionGroup) else found


def _frame(kind: str, data: bytes, id: bytes = b"") -> Message:
    head = b"id: %s\n" % id if id else b""
    return piece(b"%sevent: %s\ndata: %s\n\n" % (head, kind.encode(), data))
