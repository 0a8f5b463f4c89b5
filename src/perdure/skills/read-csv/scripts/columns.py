"""What can be said about one column of text cells, and about the time between two.

Pure functions over lists of cells; an empty cell is one that was not filled in.
"""

from __future__ import annotations

import statistics
from collections import Counter
from datetime import UTC, datetime
from typing import Any

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DATE_PARTS = ("weekday", "hour", "date", "month")
TOP_VALUES = 12
LONGEST = 5


def kind_of(cells: list[str]) -> str:
    """Return `number`, `date`, `text` or `empty`: the narrowest that fits every cell that is filled in."""
    filled = [cell for cell in cells if cell]
    if not filled:
        return "empty"
    if all(number(cell) is not None for cell in filled):
        return "number"
    return "date" if all(instant(cell) is not None for cell in filled) else "text"


def number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    # Beyond this a float no longer holds every whole number: it is an account or a serial number, and text.
    return value if abs(value) < 1e15 and "_" not in cell else None


def instant(cell: str) -> datetime | None:
    """Return the moment a cell names. One without an offset is taken for UTC, so that any two can be compared."""
    try:
        moment = datetime.fromisoformat(cell)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def part_of(cell: str, part: str) -> str:
    """Return `part` of a date, or the whole cell when no part is asked for or it holds no date."""
    moment = instant(cell) if part else None
    if moment is None:
        return cell
    match part:
        case "weekday":
            return WEEKDAYS[moment.weekday()]
        case "hour":
            return f"{moment.hour:02}"
        case "month":
            return f"{moment:%Y-%m}"
        case _:
            return f"{moment:%Y-%m-%d}"


def summary(cells: list[str], kind: str) -> dict[str, Any]:
    filled = [cell for cell in cells if cell]
    report: dict[str, Any] = {"kind": kind, "empty": len(cells) - len(filled)}
    match kind:
        case "number":
            report |= _numbers([value for value in map(number, filled) if value is not None])
        case "date":
            report |= _dates([moment for moment in map(instant, filled) if moment is not None])
        case "text":
            counts = Counter(filled)
            top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:TOP_VALUES]
            # A column of names or ids has nothing to count; listing it would only be noise.
            report |= {"distinct": len(counts)} | ({"top": dict(top)} if len(counts) < len(filled) else {})
        case _:
            pass
    return report


def durations(header: list[str], cells: list[list[str]], kinds: list[str]) -> list[dict[str, Any]]:
    """Return the minutes from the first date column to each other one, with the longest cases."""
    dates = [i for i, kind in enumerate(kinds) if kind == "date"]
    return [_duration(header, cells, dates[0], later) for later in dates[1:]]


def _duration(header: list[str], cells: list[list[str]], start: int, end: int) -> dict[str, Any]:
    spans: list[tuple[float, int]] = []
    for row, (opened, closed) in enumerate(zip(cells[start], cells[end], strict=True)):
        first, last = instant(opened), instant(closed)
        if first and last:
            spans.append(((last - first).total_seconds() / 60, row))
    minutes = [span for span, _ in spans]
    longest = sorted(spans, key=lambda item: (-item[0], item[1]))[:LONGEST]
    return {
        "from": header[start],
        "to": header[end],
        "rowsWithBoth": len(spans),
        "medianMinutes": round(statistics.median(minutes), 1) if minutes else None,
        "meanMinutes": round(statistics.fmean(minutes), 1) if minutes else None,
        "longest": [
            {"minutes": round(span, 1), "row": {name: column[row] for name, column in zip(header, cells, strict=True)}}
            for span, row in longest
        ],
    }


def _numbers(values: list[float]) -> dict[str, Any]:
    stats = {
        "min": min(values),
        "max": max(values),
        "mean": statistics.fmean(values),
        "median": statistics.median(values),
        "sum": sum(values),
    }
    return {name: int(value) if value == int(value) else round(value, 4) for name, value in stats.items()}


def _dates(moments: list[datetime]) -> dict[str, Any]:
    weekdays = Counter(WEEKDAYS[moment.weekday()] for moment in moments)
    hours = Counter(f"{moment.hour:02}" for moment in moments)
    return {
        "first": min(moments).isoformat(),
        "last": max(moments).isoformat(),
        "byWeekday": {day: weekdays[day] for day in WEEKDAYS if day in weekdays},
        "byHour": dict(sorted(hours.items())),
    }
