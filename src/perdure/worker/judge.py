"""What an exception of a tool's body means for the next try: whether there is one, and after what pause.

Whatever the user's code raises is judged here and nowhere else; nothing here can raise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perdure.agent.context import Cancelled
from perdure.core.delivery import NOT_DONE
from perdure.core.retry import instant_of, pause_asked_for
from perdure.errors import InvalidInput, LeaseLost, LimitExceeded, NotDone, PermanentError, RetryLater
from perdure.log import get_log

log = get_log(__name__)

MAX_TEXT_BYTES = 8 * 1024
"""Of an error, or of the receipt for a result that cannot be stored."""


@dataclass(frozen=True, slots=True)
class Raised:
    """It raised, or what it returned cannot be stored."""

    code: str
    message: str
    permanent: bool = False
    """Running it again cannot change it."""
    retry_after_ms: int | None = None
    """The pause that the tool, or whom it called, asked for."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """It let itself be stopped."""

    message: str


def judge(
    error: BaseException,
    tool: str,
    *,
    no_retry: tuple[type[Exception], ...] = (),
    now_ms: int = 0,
    hide: Callable[[str], str] = str,
) -> Raised | Stopped:
    """Say what `error` means. `now_ms` is this process's wall clock, for dates in a `Retry-After`. `hide`, which cannot
    raise, takes out of a text what must not be told, before it is cut.
    """

    def told(text: str) -> str:
        return shorten(hide(text))

    match error:
        case asyncio.CancelledError() | Cancelled() | LeaseLost():
            return Stopped(told(_words(error)))
        case InvalidInput(code="invalid_arguments" | "unserialisable") | LimitExceeded(code="too_large"):
            return Raised(error.code, told(error.message), permanent=True)
        case PermanentError():
            return Raised(error.code, told(error.message), permanent=True)
        case NotDone():
            return Raised(NOT_DONE, told(error.message))
        case RetryLater():
            after = error.after_seconds
            pause_ms = None if after is None else round(after * 1000)
            return Raised(error.code, told(error.message), retry_after_ms=pause_ms)
        case _ if no_retry and isinstance(error, no_retry):
            return Raised("not_retryable", told(_words(error)), permanent=True)
        case _:
            log.debug("tool.raised", tool=tool, exc_info=error)
            return Raised("tool_error", told(_words(error)), retry_after_ms=_retry_after(error, now_ms))


def _retry_after(error: BaseException, now_ms: int) -> int | None:
    """Return the pause that an HTTP reply behind `error` asks for, by whatever library: its `Retry-After`."""
    for owner in (error, _part(error, "response")):
        headers = _part(owner, "headers")
        asked = _header(headers, "Retry-After")
        if asked is not None:
            said_ms = instant_of(_header(headers, "Date") or "")  # a date is meant by the clock of who wrote it
            return pause_asked_for(asked, now_ms if said_ms is None else said_ms)
    return None


def _part(owner: object, name: str) -> Any:
    try:
        return getattr(owner, name, None)
    except Exception:  # noqa: BLE001 - a property of the user's
        return None


def _header(headers: Any, name: str) -> str | None:
    try:
        value: object = headers.get(name) or headers.get(name.lower())  # a plain dict knows only one spelling
    except Exception:  # noqa: BLE001 - whatever it is, it holds no headers
        return None
    return value if isinstance(value, str) else None


def describe(error: BaseException) -> str:
    """Return `Type: text`, short enough to store and to show to a model."""
    return shorten(_words(error))


def _words(error: BaseException) -> str:
    kind = type(error).__qualname__
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - `__str__` is the user's code
        text = "(its text cannot be shown)"
    return f"{kind}: {text}" if text else kind


def shorten(text: str) -> str:
    """Cut `text` to `MAX_TEXT_BYTES`, saying how much is missing."""
    if len(text) * 4 <= MAX_TEXT_BYTES or len(text.encode("utf-8", "surrogatepass")) <= MAX_TEXT_BYTES:
        return text
    kept = text.encode("utf-8", "surrogatepass")[: MAX_TEXT_BYTES - 64].decode("utf-8", "ignore")
    return f"{kept}… ({len(text) - len(kept):,} more characters)"
