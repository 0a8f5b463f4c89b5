"""The verbs about what comes from outside or by the calendar: signals, tokens, schedules. Parts of `wire.api.Api`."""

from __future__ import annotations

from typing import Protocol

from perdure.core.codec import Json
from perdure.core.schedules import ScheduleRequest, ScheduleView
from perdure.core.views import Started


class WaitsApi(Protocol):
    """What may be sent into an execution that waits, or will."""

    async def map_step(self, execution: str, old: str, new: str, *, by: str = "", reason: str = "") -> int:
        """Say that what the log of a stuck execution calls `old` its code now calls `new`; return the event's `seq`.

        Addresses, or, both with a `/` at the end, scopes with all in them. Resume it then. Raises `Conflict`
        (`not_stuck`), `NotFound` (`no_such_step`) and `InvalidInput` (`bad_address`).
        """
        ...

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


class SchedulesApi(Protocol):
    """Starts by the calendar. Each tick begins one execution, whatever restarts in between."""

    async def create_schedule(self, request: ScheduleRequest, *, by: str = "") -> ScheduleView:
        """Make a schedule. The same one again changes nothing.

        Raises `Conflict` (`schedule_exists`) for another of that name, and `InvalidInput` (`bad_schedule`).
        """
        ...

    async def schedules(self) -> list[ScheduleView]: ...

    async def schedule(self, name: str) -> ScheduleView:
        """Return one. Raises `NotFound`."""
        ...

    async def pause_schedule(self, name: str) -> ScheduleView:
        """Begin nothing until it is resumed. Raises `NotFound`."""
        ...

    async def resume_schedule(self, name: str) -> ScheduleView:
        """Go on with the next tick from now. Raises `NotFound`."""
        ...

    async def delete_schedule(self, name: str) -> None:
        """Take it away; what it began goes on. Raises `NotFound`."""
        ...

    async def trigger_schedule(self, name: str, *, nonce: str = "") -> Started:
        """Begin now what it begins, beside its ticks. The same `nonce` begins nothing more. Raises `NotFound`, and
        `Conflict` (`schedule_busy`) where it begins nothing beside what it began last, and that has not ended."""
        ...
