"""Make one model step out of up to three requests: who waits, how long, and when to stop.

Nothing is stored here: waits above `LONGEST_WAIT_SECONDS` are handed back for a stored timer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from perdure import failpoints
from perdure.core.ports import Clock
from perdure.models.port import ModelError, ModelFailure, ModelPort, ModelReply, ModelRequest

REQUESTS = 3
"""Requests of one step in all, at a provider's own address."""

REQUESTS_AT_BASE_URL = 1
"""Requests of one step at an address that the agent's owner supplied."""

LONGEST_WAIT_SECONDS = 20.0
"""A longer wish of the provider is not slept through."""

MOST_WAIT_SECONDS = 86_400.0
"""A day: who asks for more is asked again after it. One absurd header must not park an execution for years."""

PAUSES_SECONDS = (2.0, 8.0)
"""Before the second and the third request, when the provider names no wait."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One request that brought no reply."""

    kind: ModelFailure
    message: str
    retry_after: float | None = None
    """Seconds the provider asked to wait."""
    maybe_billed: bool = True
    """False when the request surely never reached the provider."""


@dataclass(frozen=True, slots=True)
class Replied:
    """The model answered."""

    reply: ModelReply
    requests: int
    """Requests of this step so far, `already_tried` included: likewise in the other outcomes."""
    failures: tuple[Failure, ...] = ()
    """What went wrong before, oldest first; only those of this call."""


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The provider asked for a long wait. Store a timer, then call again with `already_tried=requests`."""

    after_seconds: float
    requests: int
    message: str
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class PauseFor:
    """Someone has to set a key or to pay. Nothing is lost: after that, the step is called anew."""

    kind: Literal["key", "quota"]
    message: str
    requests: int = 0
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """No reply will come: the request is at fault, or (`transient`) all requests are used up."""

    kind: ModelFailure
    message: str
    requests: int
    failures: tuple[Failure, ...] = ()


ModelOutcome = Replied | RetryLater | PauseFor | Refused


async def call_model(port: ModelPort, request: ModelRequest, *, clock: Clock, already_tried: int = 0) -> ModelOutcome:
    """Return what became of one model step; never raises `ModelError`.

    A rate limit, an overload, a server failure, a broken stream and a time-out are tried again, up to `REQUESTS` in
    all. `Retry-After` is waited for exactly: here up to `LONGEST_WAIT_SECONDS`, in all up to `MOST_WAIT_SECONDS`.
    `already_tried` is the number of requests that earlier owners of this step may have made: they use up second tries,
    but one request is always made, because a step whose request was in flight when its process died has to be asked
    again.
    """
    limit = REQUESTS_AT_BASE_URL if request.base_url is not None else REQUESTS
    made = already_tried
    failures: list[Failure] = []
    while True:
        failpoints.hit("model.send")
        try:
            # The first request, which is nearly always the only one, is asked as it came.
            reply = await port.request(replace(request, attempt=made + 1) if made else request)
        except ModelError as error:
            failpoints.hit("model.received")
            made += 1
            failures.append(Failure(error.kind, error.message, error.retry_after, error.maybe_billed))
        else:
            failpoints.hit("model.received")
            return Replied(reply, made + 1, tuple(failures))
        end = _next(failures, made, limit)
        if not isinstance(end, (int, float)):
            return end
        await clock.sleep(end)


def _next(failures: list[Failure], made: int, limit: int) -> float | RetryLater | PauseFor | Refused:
    """Return the seconds to wait before another request, or how the step ends."""
    last, past = failures[-1], tuple(failures)
    if last.kind in ("key", "quota"):
        return PauseFor(last.kind, last.message, made, past)
    if last.kind != "transient":
        return Refused(last.kind, last.message, made, past)
    if made >= limit:
        tries = "after 1 request" if made == 1 else f"after {made} requests"
        owner = " (one request only at a base_url of the agent)" if limit == REQUESTS_AT_BASE_URL else ""
        return Refused(last.kind, f"{last.message} Given up {tries}{owner}.", made, past)
    if last.retry_after is None or math.isnan(last.retry_after):
        return PAUSES_SECONDS[min(made, len(PAUSES_SECONDS)) - 1]
    if last.retry_after > LONGEST_WAIT_SECONDS:
        return RetryLater(min(last.retry_after, MOST_WAIT_SECONDS), made, last.message, past)
    return float(last.retry_after)
