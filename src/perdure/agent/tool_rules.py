"""Read the options of a tool that become its rules: pauses between tries, deadlines. Checked at once, in seconds."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from perdure.core.rules import TaskRules
from perdure.errors import InvalidInput

Redact = Callable[[Any], Any]

RETRY_PAUSE_SECONDS = 2.0
RETRY_FACTOR = 2.0
RETRY_CEILING_SECONDS = 60.0
RETRY_JITTER = 0.2
MAX_FACTOR = 1_000.0
MAX_SECONDS = 366 * 86_400


def read_rules(name: str, options: Mapping[str, Any]) -> TaskRules:
    """Return the rules that the options of tool `name` ask for. Raises `InvalidInput` (`bad_tool`)."""
    deadline = options.get("deadline_seconds")
    return TaskRules(
        pause_ms=milliseconds(name, "retry_pause_seconds", options.get("retry_pause_seconds", RETRY_PAUSE_SECONDS)),
        factor=_number(name, "retry_factor", options.get("retry_factor", RETRY_FACTOR), 1, MAX_FACTOR),
        ceiling_ms=milliseconds(
            name, "retry_ceiling_seconds", options.get("retry_ceiling_seconds", RETRY_CEILING_SECONDS)
        ),
        jitter=_number(name, "retry_jitter", options.get("retry_jitter", RETRY_JITTER), 0, 1),
        deadline_ms=0 if deadline is None else milliseconds(name, "deadline_seconds", deadline, least=0.001),
    )


def read_no_retry(name: str, given: object) -> tuple[type[Exception], ...]:
    """Return the exceptions after which a tool is not tried again. Raises `InvalidInput` (`bad_tool`)."""
    kinds: tuple[object, ...] = given if isinstance(given, tuple) else (given,)  # pyright: ignore[reportUnknownVariableType] - looked at below
    found = tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception))
    if len(found) != len(kinds):
        raise bad_tool(name, f"has no_retry={given!r:.80}; expected exception classes, as in `no_retry=(ValueError,)`")
    return found


def read_redact(name: str, given: object) -> Redact | None:
    """Return what takes out of a tool's results what must not be stored. Raises `InvalidInput` (`bad_tool`)."""
    if given is None:
        return None
    if not callable(given) or isinstance(given, type) or inspect.iscoroutinefunction(given):
        raise bad_tool(name, f"has redact={given!r:.80}; expected a plain function of one value")
    return given


def read_memory(name: str, given: object, *, isolated: bool) -> int:
    """Return the memory of an isolated body's process in bytes; 0 is no limit. Raises `InvalidInput` (`bad_tool`)."""
    if given is None:
        return 0
    if not isolated:
        raise bad_tool(name, "has memory_mb without isolated=True: only a process of its own can be bounded")
    return round(_number(name, "memory_mb", given, 64, 2**30) * 2**20)


def check_importable(name: str, function: object) -> None:
    """See that a fresh interpreter can find an isolated tool's function. Raises `InvalidInput` (`bad_tool`)."""
    place = getattr(function, "__qualname__", None)
    if place is None or "<" in place:
        raise bad_tool(
            name,
            "is isolated, and its process could not find it: declare it at the top level of a module, by `def`, not "
            "inside a function",
        )


def milliseconds(name: str, option: str, value: object, *, least: float = 0.0) -> int:
    """Return seconds, or a `timedelta`, as whole milliseconds, rounded up. Raises `InvalidInput` (`bad_tool`)."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= MAX_SECONDS:
        raise bad_tool(name, f"has {option}={value!r}; expected seconds from {least:g} to {MAX_SECONDS}")
    return math.ceil(value * 1000)


def _number(name: str, option: str, value: object, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise bad_tool(name, f"has {option}={value!r}; expected a number from {least:g} to {most:g}")
    return float(value)


def bad_tool(name: str, why: str) -> InvalidInput:
    """Return the refusal of a tool's declaration."""
    end = "" if why.endswith("?") else "."
    return InvalidInput(f"tool {name} {why}{end}", code="bad_tool", tool=name)
