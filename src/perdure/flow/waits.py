"""Waits and values of a durable function that come out the same when it is run again: sleeps, time, chance, patches."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from perdure.core import codec
from perdure.core.events import Event
from perdure.errors import InvalidInput
from perdure.flow.context import Try
from perdure.flow.scope import Scope, checked, here
from perdure.flow.steps import milliseconds

_FRACTION = 2.0**-53


async def sleep(
    delay: timedelta | float | None = None, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
) -> None:
    """Wait by the store's clock: at least this long, through restarts, holding no process. A number is seconds."""
    delay_ms = delay_ms_of(delay, timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))
    scope = here()
    await scope.context.sleep(scope.address("sleep"), delay_ms)


async def sleep_until(moment: datetime) -> None:
    """Wait until a moment, by the store's clock; return at once if it has passed.

    Raises `InvalidInput` (`bad_moment`) for one without a time zone.
    """
    if moment.tzinfo is None:
        raise InvalidInput(f"sleep_until({moment!r}): give the moment a time zone, such as UTC.", code="bad_moment")
    scope = here()
    delay = moment - await _now(scope, scope.address("sleep_until"))
    await scope.context.sleep(scope.address("sleep"), milliseconds(max(delay, timedelta(0))))


async def now() -> datetime:
    """Return the time, in UTC, by the store's clock. Recorded: run again, it is the same."""
    scope = here()
    return await _now(scope, scope.address("now"))


def random() -> float:
    """Return a number from 0 up to 1: the same when run again, another one in every execution, place and call."""
    return (int.from_bytes(_seeded("random")[:7], "big") >> 3) * _FRACTION


def uuid() -> str:
    """Return a UUID as text, random in form: the same when run again, another in every execution, place and call."""
    raw = bytearray(_seeded("uuid")[:16])
    raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


async def patched(name: str) -> bool:
    """Return whether this execution goes the new way: `if await patched("fee-v2"): new() else: old()`.

    True where this scope of the execution had not come further when the new code first ran, and recorded then; False,
    for ever, where its log was written by code without the patch. The old branch may go once no such execution lives.
    """
    scope = here()
    address = scope.address(f"patched {checked(name)}")
    return await scope.context.known(address, codec.digest("patched"), scope.path, _nothing)


def delay_ms_of(delay: timedelta | float | None, more: timedelta = timedelta(0)) -> int:
    """Return a duration given as one or as parts, in milliseconds. Raises `InvalidInput` (`bad_duration`)."""
    if delay is None:
        return milliseconds(more)
    return milliseconds((delay if isinstance(delay, timedelta) else timedelta(seconds=delay)) + more)


async def _now(scope: Scope, address: str) -> datetime:
    event: Event = await scope.context.record(address, codec.digest("now"), _nothing)
    return datetime.fromtimestamp(event.at_ms / 1000, UTC)


async def _nothing(_attempt: Try) -> str:
    return "null"


def _seeded(what: str) -> bytes:
    scope = here()
    text = f"{scope.context.execution}/{scope.address(what)}"
    return hashlib.blake2b(text.encode(), digest_size=32).digest()
