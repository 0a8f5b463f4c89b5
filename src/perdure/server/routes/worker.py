"""The worker API: lease, begin, report, beat, hand back, alive. The hot path: no framework between socket and queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from starlette.types import Send

from perdure.core.work import MAX_PROGRESS, MAX_SAVED_BYTES, Answer, Begin, Held, Report, WorkerInfo
from perdure.errors import InvalidInput, PerdureError
from perdure.server.call import Call
from perdure.server.guard import ClientGone
from perdure.wire import codec, routes
from perdure.wire.bodies import AnswersReply, HeldBody, LeaseBody, ReportBody, TasksReply

MAX_WAIT_SECONDS = 60.0
MAX_ITEMS = 1000
"""Lanes, slots, reports or held tasks in one request."""
_MAX_PROGRESS_TEXT = 6 * MAX_PROGRESS + 2
"""As JSON text, where a character may take six."""
MIN_LEASE_MS = 100
MAX_LEASE_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Operation:
    """One route: what it takes, what it gives (None: a stream of lines), and who does it."""

    takes: type
    gives: type | None
    run: Callable[[Call, Any], Awaitable[object | None]]
    """Returns the reply, or None if it has answered by itself."""
    says: str


async def lease(call: Call, body: LeaseBody) -> TasksReply:
    """Wait for tasks while the client is there to take them: who hung up gets none."""
    wish = body.request
    check_many("request.lanes", wish.lanes)
    check_range("request.slots", wish.slots, 1, MAX_ITEMS)
    check_range("request.lease_ms", wish.lease_ms, MIN_LEASE_MS, MAX_LEASE_MS)
    check_range("wait_seconds", body.wait_seconds, 0, MAX_WAIT_SECONDS)
    with call.streams.place(call.principal.company, "waiting leases", call.limits.polls):
        work = call.tasks.lease(wish, wait_seconds=body.wait_seconds)
        return TasksReply(tuple(await call.streams.run(work, call.receive)))


async def begin(call: Call, body: Begin) -> AnswersReply:
    """Commit the claim of an `at_most_once` task."""
    _check_items("", (body,))
    return AnswersReply((await call.tasks.begin(body),))


async def report(call: Call, body: ReportBody) -> AnswersReply:
    """Take how attempts ended."""
    _check_items("reports", body.reports)
    return _answers(await call.tasks.report(body.worker, body.reports))


async def beat(call: Call, body: HeldBody) -> AnswersReply:
    """Prolong leases."""
    _check_items("held", body.held)
    return _answers(await call.tasks.beat(body.worker, body.held))


async def hand_back(call: Call, body: HeldBody) -> AnswersReply:
    """Take tasks back that never began."""
    _check_items("held", body.held)
    return _answers(await call.tasks.hand_back(body.worker, body.held))


async def alive(call: Call, body: WorkerInfo) -> None:
    """Send a line at every sign of life, naming the queues. When the client goes, the source hears of it; when the
    server goes, the backend has been told before and knows that it was not the worker."""
    check_many("lanes", body.lanes)
    check_range("slots", body.slots, 0, MAX_ITEMS)
    check_range("pid", body.pid, 0, codec.MAX_INT)
    with call.streams.place(call.principal.company, "liveness connections", call.limits.polls):
        line = _Line(call.send)
        try:
            await call.streams.run(_signs_of_life(call, body, line), call.receive)
        except ClientGone:
            return
        except PerdureError:
            if not line.open:
                raise
        await line.close()


OPERATIONS: dict[str, Operation] = {
    routes.LEASE: Operation(LeaseBody, TasksReply, lease, "Reserve tasks, waiting for the first one"),
    routes.BEGIN: Operation(Begin, AnswersReply, begin, "Commit the claim of an at_most_once task before its body"),
    routes.REPORT: Operation(ReportBody, AnswersReply, report, "Say how attempts ended"),
    routes.BEAT: Operation(HeldBody, AnswersReply, beat, "Prolong leases"),
    routes.HAND_BACK: Operation(HeldBody, AnswersReply, hand_back, "Return tasks that never began"),
    routes.ALIVE: Operation(WorkerInfo, None, alive, "Hold the liveness connection: a line at every sign of life"),
}


class _Line:
    """A streamed reply that begins with its first sign of life, so that a refusal before it keeps its status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.open = False

    async def write(self, text: str) -> None:
        if not self.open:
            self.open = True
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-accel-buffering", b"no")]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": text.encode() + b"\n", "more_body": True})

    async def close(self) -> None:
        if self.open:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def _signs_of_life(call: Call, info: WorkerInfo, line: _Line) -> None:
    async with aclosing(cast("Any", call.tasks.alive(info))) as signs:
        async for sign in signs:
            await line.write(sign)


def _answers(answers: Iterable[Answer]) -> AnswersReply:
    return AnswersReply(tuple(answers))


def _check_items(where: str, items: tuple[Begin | Held | Report, ...]) -> None:
    check_many(where, items)
    for number, item in enumerate(items):
        _check_said(item)
        if not (item.execution.isascii() and 0 <= item.fence <= codec.MAX_INT):
            _refuse_item(f"{where}[{number}]." if where else "", item)


def _check_said(item: Begin | Held | Report) -> None:
    progress = item.progress if isinstance(item, Held) else None
    saved = None if isinstance(item, Begin) else item.saved
    if len(progress or "") > _MAX_PROGRESS_TEXT or len(saved or "") > MAX_SAVED_BYTES:
        raise InvalidInput(
            f"progress is at most {MAX_PROGRESS} characters, and what a body saves {MAX_SAVED_BYTES:,} bytes."
        )


def _refuse_item(place: str, item: Begin | Held | Report) -> None:
    check_range(f"{place}fence", item.fence, 0, codec.MAX_INT)
    field = f"{place}execution"
    raise InvalidInput(f"{field} is {item.execution[:80]!r}, which is no id of an execution.", fields=[field])


def check_many(field: str, items: tuple[Any, ...]) -> None:
    """Raise `InvalidInput` for more items than go into one request."""
    if len(items) > MAX_ITEMS:
        raise InvalidInput(f"{field} holds {len(items):,} items; at most {MAX_ITEMS:,} go into one request.")


def check_range(field: str, value: float, least: float, most: float) -> None:
    """Raise `InvalidInput` for a number out of bounds."""
    if not least <= value <= most:
        raise InvalidInput(f"{field} is {value}; expected {least:,} to {most:,}.", fields=[field])
