"""When a schedule's ticks are: five fields of cron, read in a time zone, as instants.

Around a change of the clocks, as Debian's cron does it: an hour or minute given as a number happens once on every day
that it is meant for (in a gap: right after it; in a repeated hour: the first time), one given as `*` follows the clock
on the wall as it goes, twice through a repeated hour. Pure, but for the zones' files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from perdure.errors import InvalidInput

FIELDS = 5
MOST_STEPS = 100_000
"""Ticks looked through for one answer: a pattern that needs more has none within reason."""
_FIRST_WINDOW_MS = 3_600_000


def check_calendar(cron: str, zone: str) -> None:
    """Raise `InvalidInput` (`bad_schedule`) for a pattern or a zone that cannot be read, or never comes."""
    if len(cron.split()) != FIELDS:
        raise _bad(
            f"the pattern {cron[:80]!r} has {len(cron.split())} fields; five are expected: minute, hour, day of the "
            "month, month, day of the week"
        )
    if next_tick(cron, zone, 0) is None:
        raise _bad(f"the pattern {cron[:80]!r} never comes")


def next_tick(cron: str, zone: str, after_ms: int) -> int | None:
    """Return the first tick later than `after_ms`; None if there is none in fifty years."""
    return next(_ticks(cron, zone, after_ms), None)


def coming_ticks(cron: str, zone: str, after_ms: int, most: int) -> list[int]:
    """Return the first ticks later than `after_ms`, in order."""
    return list(islice(_ticks(cron, zone, after_ms), most))


def latest_ticks(cron: str, zone: str, first_ms: int, now_ms: int, most: int) -> list[int]:
    """Return the ticks from `first_ms` to `now_ms`, both included, in order; of more than `most` the latest."""
    window_ms = _FIRST_WINDOW_MS
    while True:
        start_ms = max(first_ms - 1, now_ms - window_ms)
        found: deque[int] = deque(maxlen=most)
        for tick in _ticks(cron, zone, start_ms):
            if tick > now_ms:
                break
            found.append(tick)
        if len(found) == most or start_ms < first_ms:
            return list(found)
        window_ms *= 4


def _ticks(cron: str, zone: str, after_ms: int) -> Iterator[int]:
    where = _zone(zone)
    begin = datetime.fromtimestamp(after_ms // 1000, tz=UTC).astimezone(where)
    try:
        pattern = CronSim(cron, begin)
    except CronSimError as error:
        raise _bad(f"the pattern {cron[:80]!r} cannot be read: {error}") from None
    last_ms = after_ms
    for _ in range(MOST_STEPS):
        try:
            tick = next(pattern)
        except StopIteration:
            return
        at_ms = int(tick.astimezone(UTC).timestamp()) * 1000
        # Begun within a repeated hour the pattern may start with its first passage, which is over.
        if at_ms > last_ms:
            last_ms = at_ms
            yield at_ms


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise _bad(
            f"there is no time zone {name[:80]!r} on this machine; expected a name like Europe/Berlin or UTC. Does it "
            "have the package tzdata?"
        ) from None


def _bad(why: str) -> InvalidInput:
    return InvalidInput(f"{why}.", code="bad_schedule")
