"""What a tool may know of the call it serves, ask and tell. Nothing here speaks to a server itself."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from perdure.core import codec
from perdure.core.costs import cost_of
from perdure.core.work import MAX_PROGRESS, MAX_SAVED_BYTES
from perdure.errors import InvalidInput, UserError


class Cancelled(BaseException):
    """Raised by `ToolContext.heartbeat` once this call is not wanted any more.

    Derives from `BaseException`, so that `except Exception` in a tool does not keep the tool alive. Let it pass.
    """


class Pulse(Protocol):
    """The worker's side of a `ToolContext`. Safe to ask from any thread; never blocks."""

    @property
    def cancelled(self) -> bool:
        """Whether the body should stop."""
        ...

    def beat(self) -> None:
        """Have the lease prolonged if that is due. Raises `LeaseLost` or `Cancelled`."""
        ...

    def note(self, progress: str) -> None:
        """Have the newest progress shown, as JSON text."""
        ...

    def save(self, data: str) -> None:
        """Have the newest data, as JSON text, kept for the next attempt."""
        ...

    def charge(self, currency: str, amount: str) -> None:
        """Have a cost told with the result."""
        ...


class _Unattended:
    """Stands in for the worker where there is none: in a unit test of a tool."""

    cancelled = False

    def beat(self) -> None:
        return None

    def note(self, progress: str) -> None:
        return None

    def save(self, data: str) -> None:
        return None

    def charge(self, currency: str, amount: str) -> None:
        return None


_UNATTENDED = _Unattended()


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The call that a tool serves. Declare a parameter of this type and it is passed in; models never see it.

    In a unit test, make one yourself: every field has a default.
    """

    execution_id: str = ""
    step_id: str = ""
    """The address of this call in its execution's log."""
    attempt: int = 1
    """1 for the first try."""
    idempotency_key: str = ""
    """Equal on every attempt of this call and different for every other call: give it to whatever you call."""
    agent_name: str = ""
    tool_name: str = ""
    dependencies: Any = None
    """What its agent has as `Agent(dependencies=...)`: pools, clients, settings. None in an isolated tool."""
    last_checkpoint: Any = None
    """What an earlier attempt of this call gave `checkpoint` last; None if none did."""
    pulse: Pulse = field(default=_UNATTENDED, repr=False, compare=False)
    """How the worker is reached, by what stands below."""

    @property
    def cancelled(self) -> bool:
        """Whether this call should stop: cancelled, timed out, its lease lost, or its worker leaving."""
        return self.pulse.cancelled

    def heartbeat(self) -> None:
        """Ask whether to go on, and have the lease prolonged if that is due. Never blocks; call it often.

        The worker prolongs leases by itself: this is how a tool in a thread, which nobody can stop from outside,
        learns that it should. Raises `LeaseLost` when the call belongs to somebody else now and `Cancelled` when it
        is not wanted any more; both are known within a third of a lease.
        """
        self.pulse.beat()

    def progress(self, what: str | float) -> None:
        """Show people how far this call is: a fraction from 0 to 1, or a few words (the first 200 characters count).

        Never blocks. Only the newest is kept, and it is sent about once a second, so call it as often as you like.
        Raises `InvalidInput` for a fraction that is none.
        """
        if isinstance(what, str):
            self.pulse.note(codec.encode(what[:MAX_PROGRESS]))
        elif 0 <= what <= 1:
            self.pulse.note(codec.encode(round(float(what), 4)))
        else:
            raise InvalidInput(f"progress({what!r}): expected a fraction from 0 to 1, or a few words.")

    def checkpoint(self, data: Any) -> None:
        """Have `data` kept, so that a next attempt of this call finds it as `last_checkpoint` and goes on from there.

        JSON types, dataclasses and pydantic models, at most 256 KB; only the newest is kept. Never blocks: it is stored
        within about a quarter of a second while the server can be reached, and with the report of a failed attempt, so
        a worker that is killed may lose the very last. What holds no lease any more stores nothing.
        Raises `InvalidInput` (`unserialisable`) and `LimitExceeded` (`too_large`).
        """
        self.pulse.save(codec.encode(data, "checkpoint", MAX_SAVED_BYTES))

    def cost(self, amount: float | Decimal | str, currency: str = "USD") -> None:
        """Say what this call cost: kept with its result, or its failure, and shown in the ledger.

        Several add up, by currency; so do those of several attempts. An attempt whose worker is killed told nothing.
        Never blocks. Raises `InvalidInput` (`bad_cost`) for what is no amount or no currency.
        """
        self.pulse.charge(*cost_of(amount, currency))


_current: ContextVar[ToolContext] = ContextVar("perdure_tool")


def current_tool() -> ToolContext:
    """Return the context of the tool call that runs here. Raises `UserError` (`not_in_a_tool`) outside of one.

    Goes with the code: into coroutines, tasks and `asyncio.to_thread`; a bare `threading.Thread` starts without it.
    """
    try:
        return _current.get()
    except LookupError:
        raise UserError(
            "current_tool() was called where no tool runs. Call it in a tool that a worker runs; in a unit test, "
            "declare a parameter of type ToolContext and pass one.",
            code="not_in_a_tool",
        ) from None


def enter_tool(context: ToolContext) -> None:
    """Make `context` the current one, in the calling `contextvars.Context` only."""
    _current.set(context)
