"""Whether a `transactional` action left the record that its mode promises. A note in the context of its body.

Knows nothing of databases: `perdure.ledger` says what it recorded, and whoever runs the body asks.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from perdure.errors import PermanentError

NO_LEDGER_RECORD = "no_ledger_record"
"""Code of the failure of an action that ended without the record it promised."""


@dataclass(slots=True)
class Witness:
    """What is expected of one body. Owner: the body's context; copies of that context share it."""

    key: str
    seen: bool = False

    def demand(self, what: str) -> None:
        """Raise `PermanentError` (`no_ledger_record`) unless a record under the key was committed, or found."""
        if not self.seen:
            raise PermanentError(
                f"{what} is transactional and returned without a record under its key {self.key!r}: nothing keeps it "
                "from acting twice. Act inside `with perdure.ledger.once(connection, key) as effect:`, with the "
                "idempotency key of the call, or choose another delivery.",
                code=NO_LEDGER_RECORD,
            )


_expected: ContextVar[Witness | None] = ContextVar("perdure_witness", default=None)


def expect_record(key: str) -> Witness:
    """Have a record under `key` expected from here on, in the calling `contextvars.Context` only."""
    witness = Witness(key)
    _expected.set(witness)
    return witness


def check_key(key: str) -> None:
    """Raise `PermanentError` (`wrong_ledger_key`) where another key is expected: a record under this one would be
    looked for in vain by the next attempt."""
    witness = _expected.get()
    if witness is not None and witness.key != key:
        raise PermanentError(
            f"a transactional action should record itself under its own key {witness.key!r}, found {key!r}: the next "
            "attempt would not find it. Give `once` the idempotency key of the call.",
            code="wrong_ledger_key",
        )


def saw_record() -> None:
    """The record that is expected here is durable."""
    witness = _expected.get()
    if witness is not None:
        witness.seen = True
