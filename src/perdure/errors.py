"""Every error a user can meet, in one tree. The class says who acts next.

    PerdureError
    ├── UserError          fix your code, your input or your configuration
    │   ├── InvalidInput   ├── NotFound       ├── Conflict
    │   ├── Unauthorized   ├── StoreInUse     └── LimitExceeded
    ├── Retryable          we, or you, may simply try again later
    │   ├── Unreachable    ├── StoreFull    └── RetryLater
    ├── Terminal           nobody: this ended
    │   ├── ExecutionFailed ├── StoreFailed └── PermanentError
    ├── NotDone            a tool's word that it did nothing
    ├── LeaseLost          stop working on this now; somebody else owns it
    └── InternalError      a bug of ours: please report it

Each error carries a stable `code`, the same in Python, over HTTP and in the CLI's `--json`. A message names the
thing, what was expected, what was found, and what to do next.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

_LONGEST_SECONDS = 366 * 86_400


class PerdureError(Exception):
    """Root of the tree. `code` is stable across releases; `status` is the HTTP status it travels with."""

    default_code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

    def __init__(self, message: str, *, code: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.details = details
        """Machine-readable facts behind the message: ids, limits, names."""


class UserError(PerdureError):
    """The caller has to change something before trying again."""

    default_code = "user_error"
    status = 400


class InvalidInput(UserError):
    """A value, a schema, an option or a body is not what was expected."""

    default_code = "invalid_input"
    status = 422


class NotFound(UserError):
    """There is no such thing, or it belongs to another company: the two are never told apart."""

    default_code = "not_found"
    status = 404


class Conflict(UserError):
    """The thing exists, and is in a state that does not allow this."""

    default_code = "conflict"
    status = 409


class Unauthorized(UserError):
    """The key is missing, wrong or revoked."""

    default_code = "unauthorized"
    status = 401


class StoreInUse(UserError):
    """Another process owns this SQLite file and is alive."""

    default_code = "store_in_use"
    status = 409


class LimitExceeded(UserError):
    """A size, a count, a rate or a budget was passed."""

    default_code = "limit_exceeded"
    status = 413


class Retryable(PerdureError):
    """Nothing is wrong with the request; it may be sent again."""

    default_code = "retry_later"
    status = 503


class Unreachable(Retryable):
    """The server did not answer at the address given."""

    default_code = "server_unreachable"


class StoreFull(Retryable):
    """The disk is full: writes are refused, reads still work, nothing accepted was lost."""

    default_code = "store_full"
    status = 507


class RetryLater(Retryable):
    """Raise it in a tool: this try failed, and the next one shall begin `after` so long, and not earlier.

    `after` is a `timedelta` or seconds, from 0 to 366 days; it replaces the pause of the tool's retry policy, which
    counts without it. The try counts: when the tool's attempts or its deadline are used up, the call has failed for
    good. Raises `InvalidInput` for an `after` that is none.
    """

    default_code = "retry_later"

    def __init__(self, message: str = "", *, after: timedelta | float | None = None, **details: Any) -> None:
        seconds = after.total_seconds() if isinstance(after, timedelta) else after
        if seconds is not None and not 0 <= seconds <= _LONGEST_SECONDS:
            raise InvalidInput(f"RetryLater(after={after!r}): expected a time from 0 seconds to 366 days.")
        super().__init__(message or "to be tried again later", **details)
        self.after_seconds = seconds
        """None: after the pause of the policy."""


class Terminal(PerdureError):
    """This ended and cannot go on."""

    default_code = "terminal"
    status = 410


class ExecutionFailed(Terminal):
    """An execution ended in `failed` or `cancelled`, and its output was asked for."""

    default_code = "execution_failed"


class StoreFailed(Terminal):
    """The disk or the database refused a write it had to make; this process must be restarted."""

    default_code = "store_failed"
    status = 503


class PermanentError(Terminal):
    """Raise it in a tool: trying again cannot change this. The call has failed for good, whatever attempts are left.

    Under `at_most_once` it says nothing about whether the tool acted: the call is uncertain all the same.
    """

    default_code = "permanent"


class NotDone(PerdureError):
    """Raise it in a tool: nothing happened, and nothing of it is still on its way. The call has failed.

    Under `at_most_once` it is the only failure that leaves no doubt: any other makes the call uncertain. It is tried
    again as often as the tool's `retries` say: there, none by default.
    """

    default_code = "not_done"
    status = 409


class LeaseLost(PerdureError):
    """The fence moved on: somebody else owns this work now. Stop at once; nothing you write will count."""

    default_code = "lease_lost"
    status = 409


class InternalError(PerdureError):
    """A promise of ours does not hold. Please report it with the message."""


_BY_STATUS: dict[int, type[PerdureError]] = {
    401: Unauthorized,
    404: NotFound,
    409: Conflict,
    413: LimitExceeded,
    422: InvalidInput,
    503: Retryable,
    507: StoreFull,
}


def from_wire(status: int, code: str, message: str, details: dict[str, Any] | None = None) -> PerdureError:
    """Rebuild the error a server sent. Unknown statuses become `UserError` below 500 and `InternalError` above."""
    if code == LeaseLost.default_code:
        return LeaseLost(message, **(details or {}))
    kind = _BY_STATUS.get(status) or (UserError if status < 500 else InternalError)
    return kind(message, code=code, **(details or {}))
