"""Ticks around every change of the clocks, against an oracle that goes through time minute by minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest

from perdure.engine.calendar import check_calendar, latest_ticks, next_tick
from perdure.errors import InvalidInput

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEARS = (2025, 2026)
BY_THE_CLOCK = ("*/15 * * * *", "* * * * *", "0 * * * *")
"""Patterns that follow the clock on the wall as it goes."""
BY_THE_DAY = ("30 1 * * *", "30 2 * * *", "0,30 2,3 * * *", "0 0 * * *", "15 0,1,2,3 * * 0", "59 23 * * *")
"""Patterns that name a time: once on every day."""


def ms(*date: int, zone: str = "UTC") -> int:
    return round(datetime(*date, tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def offset(zone: ZoneInfo, at_ms: int) -> timedelta:
    found = datetime.fromtimestamp(at_ms / 1000, tz=UTC).astimezone(zone).utcoffset()
    assert found is not None
    return found


@cache
def transitions() -> dict[tuple[int, timedelta, timedelta], str]:
    """Return (when, offset before, offset after) of every change of the clocks in `YEARS`, with a zone that has it.

    Of changes at the same local time between the same offsets, on other dates, one stands for all.
    """
    found: dict[tuple[int, timedelta, timedelta], str] = {}
    shapes: set[tuple[int, timedelta, timedelta]] = set()
    days = range(ms(YEARS[0], 1, 1), ms(YEARS[-1], 12, 31), DAY)
    for name in sorted(available_timezones()):
        zone = ZoneInfo(name)
        for day, following in pairwise(days):
            before, after = offset(zone, day), offset(zone, following)
            if before == after:
                continue
            low, high = day, following
            while high - low > MINUTE:
                middle = (low + high) // 2 // MINUTE * MINUTE
                low, high = (middle, high) if offset(zone, middle) == before else (low, middle)
            if (high % DAY, before, after) not in shapes:
                shapes.add((high % DAY, before, after))
                found[high, before, after] = name
    return found


@cache
def parsed(cron: str) -> list[set[int]]:
    ranges = (range(60), range(24), range(1, 32), range(1, 13), range(7))
    return [
        set(span)
        if field == "*"
        else set(span[:: int(field[2:])])
        if "/" in field
        else {int(n) for n in field.split(",")}
        for field, span in zip(cron.split(), ranges, strict=True)
    ]


def fits(cron: str, local: datetime) -> bool:
    minute, hour, day, month, weekday = parsed(cron)
    return (
        local.minute in minute
        and local.hour in hour
        and local.day in day
        and local.month in month
        and (local.weekday() + 1) % 7 in weekday
    )


def oracle(cron: str, zone: ZoneInfo, first_ms: int, last_ms: int) -> list[int]:
    """Return the ticks in a stretch of time: by instants, or, for named times, by what each local day is to have."""
    if cron in BY_THE_CLOCK:
        minutes = range(first_ms, last_ms + 1, MINUTE)
        local = ((at, datetime.fromtimestamp(at / 1000, tz=UTC).astimezone(zone)) for at in minutes)
        return [at for at, when in local if fits(cron, when)]
    wanted: set[int] = set()
    naive = datetime.fromtimestamp(first_ms / 1000, tz=UTC).replace(tzinfo=None) - timedelta(days=2)
    for _ in range((last_ms - first_ms) // MINUTE + 3 * 1440):
        naive += timedelta(minutes=1)
        if fits(cron, naive):
            wanted.add(instant(zone, naive))
    return sorted(at for at in wanted if first_ms <= at <= last_ms)


def instant(zone: ZoneInfo, naive: datetime) -> int:
    """Return when a local time comes: the first time if it comes twice, the end of the gap if it never does."""
    while True:
        at = naive.replace(tzinfo=zone, fold=0)
        if at.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == naive:
            return round(at.timestamp() * 1000)
        naive += timedelta(minutes=1)


@pytest.mark.parametrize("cron", [*BY_THE_CLOCK, *BY_THE_DAY])
def test_every_change_of_the_clocks_in_every_zone(cron: str) -> None:
    assert len(transitions()) > 20, "the zones of this machine are not there"
    wrong: list[str] = []
    for (when, before, after), name in transitions().items():
        zone = ZoneInfo(name)
        first, last = when - 20 * HOUR, when + 20 * HOUR
        found = latest_ticks(cron, name, first, last, 10_000)
        if found != oracle(cron, zone, first, last):
            wrong.append(f"{name} {when} {before} -> {after}")
    assert not wrong


@pytest.mark.parametrize("cron", ["* * * * *", "30 2 * * *", "0,30 2,3 * * *"])
def test_the_next_tick_is_the_same_from_wherever_one_asks(cron: str) -> None:
    """Asked from every minute of both passages of a repeated hour, and of the hours around a gap."""
    for zone, whens in {
        "Europe/Berlin": (ms(2026, 3, 29, 1), ms(2026, 10, 25, 1)),
        "Australia/Lord_Howe": (ms(2026, 4, 4, 15), ms(2026, 10, 3, 15, 30)),
    }.items():
        for when in whens:
            ticks = latest_ticks(cron, zone, when - 5 * HOUR, when + 30 * HOUR, 10_000)
            for after in range(when - 4 * HOUR, when + 4 * HOUR, 7 * MINUTE):
                assert next_tick(cron, zone, after) == next(tick for tick in ticks if tick > after)


def test_a_named_hour_that_is_skipped_comes_right_after_the_gap() -> None:
    after = ms(2026, 3, 28, 12, zone="Europe/Berlin")
    assert next_tick("30 2 * * *", "Europe/Berlin", after) == ms(2026, 3, 29, 3, 0, zone="Europe/Berlin")


def test_a_named_hour_that_comes_twice_counts_once() -> None:
    first = ms(2026, 10, 25, 0, 30)
    assert next_tick("30 2 * * *", "Europe/Berlin", first - 1) == first
    assert next_tick("30 2 * * *", "Europe/Berlin", first) == ms(2026, 10, 26, 1, 30)
    assert next_tick("30 2 * * *", "Europe/Berlin", first + HOUR - MINUTE) == ms(2026, 10, 26, 1, 30)


def test_a_tick_is_later_than_what_was_asked_for_and_the_first_counts_in_a_stretch() -> None:
    noon = ms(2026, 5, 1, 12)
    assert next_tick("0 12 * * *", "UTC", noon) == noon + DAY
    assert next_tick("0 12 * * *", "UTC", noon - 1) == noon
    assert latest_ticks("0 12 * * *", "UTC", noon, noon + 2 * DAY, 10) == [noon, noon + DAY, noon + 2 * DAY]


def test_of_a_long_absence_only_the_latest_are_looked_up() -> None:
    now = ms(2036, 1, 1)
    found = latest_ticks("* * * * *", "Europe/Berlin", ms(2026, 1, 1), now, 3)
    assert found == [now - 2 * MINUTE, now - MINUTE, now]
    assert latest_ticks("0 0 29 2 *", "UTC", ms(2026, 1, 1), now, 3) == [ms(2028, 2, 29), ms(2032, 2, 29)]


@pytest.mark.parametrize(
    ("cron", "zone"),
    [
        ("", "UTC"),
        ("* * * *", "UTC"),
        ("0 * * * * *", "UTC"),
        ("61 * * * *", "UTC"),
        ("0 0 30 2 *", "UTC"),
        ("* * * * *", "Europe/Atlantis"),
        ("* * * * *", "../etc/passwd"),
        ("* * * * *", ""),
        ("é * * * *", "UTC"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(cron: str, zone: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_calendar(cron, zone)
    assert refused.value.code == "bad_schedule"
