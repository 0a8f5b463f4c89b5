"""The verbs about waits: signals and tokens. A part of `wire.api.Api`."""

from __future__ import annotations

from typing import Protocol

from perdure.core.codec import Json


class WaitsApi(Protocol):
    """What may be sent into an execution that waits, or will."""

    async def signal(
        self, execution: str, name: str, value: Json = None, *, by: str = "", dedupe: str | None = None
    ) -> int:
        """Store a signal, whether or not anybody waits for it, and return its `seq`. The same `dedupe` again changes
        nothing, for the execution's life.

        Raises `Conflict`: `ended` when the execution has; `dedupe_conflict` if the key stands for something else.
        """
        ...

    async def complete_token(self, token: str, value: Json = None, *, by: str = "") -> None:
        """End a token's wait with a value. `token`: its secret, which is all the right one needs, or its id, for people
        of its company. The same answer again changes nothing.

        Raises `NotFound` (`no_such_token`) and `Conflict`: `token_used` after another answer, `token_expired`, `ended`,
        `not_waiting`.
        """
        ...

    async def fail_token(self, token: str, error: str, *, by: str = "") -> None:
        """End a token's wait with an error. Otherwise like `complete_token`."""
        ...
