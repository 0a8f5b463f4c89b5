"""What a tool may know of the call it serves. Plain facts and two questions; nothing here speaks to a server itself."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from perdure.errors import UserError


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


class _Unattended:
    """Stands in for the worker where there is none: in a unit test of a tool."""

    cancelled = False

    def beat(self) -> None:
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
    """What the runtime or worker was given as `dependencies`: pools, clients, settings."""
    pulse: Pulse = field(default=_UNATTENDED, repr=False, compare=False)
    """How the worker is reached; for `heartbeat` and `cancelled`."""

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
