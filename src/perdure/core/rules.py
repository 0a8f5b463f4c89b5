"""What the author of an action asked for beyond its delivery: pauses, deadlines, what becomes of an unknown outcome.

Stored with every task as JSON that names only what differs from the defaults below, so these defaults never change.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, cast

from perdure.core import codec
from perdure.core.codec import Json
from perdure.errors import InvalidInput

_LONGEST_MS = 100 * 366 * 86_400_000
_MOST = 1_000.0


@dataclass(frozen=True, slots=True)
class TaskRules:
    """The rules of one task. Durations in milliseconds; 0 is none unless it says otherwise.

    Raises `InvalidInput` (`bad_rules`) for a value that is out of bounds.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    pause_ms: int = 2_000
    """Before the second try."""
    factor: float = 2.0
    """By which each further pause is longer than the one before it: 1 to 1,000."""
    ceiling_ms: int = 60_000
    """No pause of this policy is longer. A tool's own `RetryLater` and a server's `Retry-After` may ask for more."""
    jitter: float = 0.0
    """Each pause is cut by a random part of itself, from nothing up to this: 0 to 1."""
    deadline_ms: int = 0
    """For all attempts and the pauses between them, from the start of the first."""
    key_ttl_ms: int = 0
    """How long whoever is called remembers idempotency keys, from the start of the first attempt; 0 is for ever."""
    settle_ms: int | None = None
    """How long after begin a ruling "did not happen" must wait. None: the time-out and one lease."""
    probe: bool = False
    """Whether the author gave a function that finds out what became of it."""
    rule_by_ms: int = 0
    """How long after it became uncertain it is ruled over as `rule_as` says."""
    rule_as: str = ""
    """The ruling that the author declared for then."""
    simulate: bool = False
    """Whether the author gave what stands in for it in a fork, where it must not act."""

    def __post_init__(self) -> None:
        for name in _NAMES:
            if not _fits(name, found := getattr(self, name)):
                raise _bad(f"{name} cannot be {found!r:.80}")


def _fits(name: str, value: Json) -> bool:
    if name in ("probe", "simulate"):
        return isinstance(value, bool)
    if name == "rule_as":
        return isinstance(value, str)
    if name == "settle_ms" and value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    match name:
        case "factor":
            return 1 <= value <= _MOST
        case "jitter":
            return 0 <= value <= 1
        case _:
            return isinstance(value, int) and 0 <= value <= _LONGEST_MS


def _bad(why: str) -> InvalidInput:
    return InvalidInput(f"the rules of a task cannot be read: {why}.", code="bad_rules")


_NAMES = tuple(field.name for field in fields(TaskRules))
DEFAULT_RULES = TaskRules()


def rules_to_json(rules: TaskRules) -> dict[str, Json]:
    """Return only what differs from the defaults."""
    return {name: getattr(rules, name) for name in _NAMES if getattr(rules, name) != getattr(DEFAULT_RULES, name)}


@lru_cache(maxsize=256)
def rules_to_text(rules: TaskRules) -> str:
    """Return the JSON text that a task's row keeps."""
    return codec.encode_json(rules_to_json(rules), "rules")


def rules_from_json(value: Json) -> TaskRules:
    """Return the rules that `rules_to_json` wrote.

    Raises `InvalidInput` (`bad_rules`) for a field that is not known, too: a rule that is passed over in silence could
    be the one that keeps an action from running twice. A new field comes with a migration of the store, so that no
    version opens a store whose rules it cannot read.
    """
    if not isinstance(value, dict):
        raise _bad(f"expected an object, found {value!r:.80}")
    if unknown := sorted(value.keys() - set(_NAMES)):
        raise _bad(f"there is no rule {unknown[0]!r} in this version; was it written by a newer one?")
    return TaskRules(**cast("dict[str, Any]", value))


@lru_cache(maxsize=256)
def rules_from_text(text: str) -> TaskRules:
    """Return the rules that a task's row keeps. Raises like `rules_from_json`, and `ValueError` for what is no JSON."""
    return rules_from_json(codec.decode(text))
