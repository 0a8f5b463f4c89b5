"""Moments: now, and as people type them, so long ago or a date."""

from __future__ import annotations

import time
from datetime import datetime

import typer

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def now_ms() -> int:
    """Return the time by this machine's clock, in milliseconds since 1970."""
    return round(time.time() * 1000)


def moment_ms(given: str | None, option: str) -> int | None:
    """Return the moment that is meant, in milliseconds since 1970; what was before is 0.

    Raises `BadParameter`, naming the option.
    """
    if given is None:
        return None
    try:
        if given[-1:] in _UNITS and given[:-1].isdigit():
            seconds = time.time() - int(given[:-1]) * _UNITS[given[-1]]
        else:
            seconds = datetime.fromisoformat(given).astimezone().timestamp()
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{given!r} is no time: 30s, 10m, 2h, 3d (ago), or a date like 2026-05-01T12:00.", param_hint=option
        ) from None
    return max(0, round(seconds * 1000))
