"""Times and durations as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(at_ms: int) -> str:
    """Return a time as people read it, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(ms: int) -> str:
    """Return a duration as people say it: `40 s`, `5 min`, `3 h`, `2 d`."""
    seconds = max(ms, 0) / 1000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def plural(count: int, noun: str) -> str:
    """Return `1 call`, `2 calls`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
