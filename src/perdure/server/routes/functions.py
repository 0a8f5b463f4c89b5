"""The worker API for durable functions: claim, renew, release, journal. As `worker`, with nothing between."""

from __future__ import annotations

from perdure.core.functions import Claims
from perdure.errors import InvalidInput
from perdure.server.call import Call
from perdure.server.routes import worker
from perdure.server.routes.worker import (
    MAX_LEASE_MS,
    MAX_WAIT_SECONDS,
    MIN_LEASE_MS,
    Operation,
    check_many,
    check_range,
)
from perdure.wire import codec, routes
from perdure.wire.bodies import AnswersReply, ClaimBody, JournalBody, JournalReply, OwnedBody

MAX_CLAIMS = 64
"""Executions in one reply: each brings a part of its log."""
MAX_KNOWN = 10_000
"""Executions whose coroutine a worker says it has, or owns."""


async def claim(call: Call, body: ClaimBody) -> Claims:
    """Wait for executions while the client is there to take them: who hung up gets none."""
    wish = body.request
    check_many("request.lanes", wish.lanes)
    check_range("request.slots", wish.slots, 0, MAX_CLAIMS)
    check_range("request.lease_ms", wish.lease_ms, MIN_LEASE_MS, MAX_LEASE_MS)
    check_range("wait_seconds", body.wait_seconds, 0, MAX_WAIT_SECONDS)
    for field, some in (("known", wish.known), ("watch", wish.watch)):
        check_range(f"the number of request.{field}", len(some), 0, MAX_KNOWN)
        for execution, seq in some.items():
            _check_execution(f"request.{field}", execution)
            check_range(f"request.{field}[{execution}]", seq, 0, codec.MAX_INT)
    with call.streams.place(call.principal.company, "waiting claims", call.limits.polls):
        work = call.functions.claim(wish, wait_seconds=body.wait_seconds)
        return await call.streams.run(work, call.receive)


async def renew(call: Call, body: OwnedBody) -> AnswersReply:
    """Prolong ownerships."""
    check_range("lease_ms", body.lease_ms, MIN_LEASE_MS, MAX_LEASE_MS)
    _check_held(body)
    return AnswersReply(tuple(await call.functions.renew(body.worker, body.held, body.lease_ms)))


async def release(call: Call, body: OwnedBody) -> AnswersReply:
    """Take executions back."""
    _check_held(body)
    return AnswersReply(tuple(await call.functions.release(body.worker, body.held)))


async def journal(call: Call, body: JournalBody) -> JournalReply:
    """Write in the logs of executions, and read them."""
    check_many("entries", body.entries)
    for number, entry in enumerate(body.entries):
        _check_execution(f"entries[{number}].execution", entry.execution)
        for field, value in (("fence", entry.fence), ("seen", entry.seen), ("active_ms", entry.active_ms)):
            check_range(f"entries[{number}].{field}", value, 0, codec.MAX_INT)
    return JournalReply(tuple(await call.functions.journal(body.worker, body.entries)))


WORKER_OPERATIONS: dict[str, Operation] = {
    **worker.OPERATIONS,
    routes.CLAIM: Operation(ClaimBody, Claims, claim, "Own executions of durable functions, waiting for the first one"),
    routes.RENEW: Operation(OwnedBody, AnswersReply, renew, "Prolong ownerships of executions"),
    routes.RELEASE: Operation(
        OwnedBody, AnswersReply, release, "Return executions that this worker will not go on with"
    ),
    routes.JOURNAL: Operation(
        JournalBody, JournalReply, journal, "Write in the logs of owned executions, and read them"
    ),
}
"""Every route of the worker API."""


def _check_held(body: OwnedBody) -> None:
    check_many("held", body.held)
    for number, held in enumerate(body.held):
        _check_execution(f"held[{number}].execution", held.execution)
        check_range(f"held[{number}].fence", held.fence, 0, codec.MAX_INT)


def _check_execution(field: str, execution: str) -> None:
    if not execution.isascii():
        raise InvalidInput(f"{field} is {execution[:80]!r}, which is no id of an execution.", fields=[field])
