"""What happened on stage, as plain facts: which processes lived when, what the log and the model endpoint say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from perdure.core.codec import Json
from perdure.core.events import Event
from perdure.core.views import ApprovalView, ExecutionView
from perdure.demo.plan import Plan
from perdure.demo.processes import Life
from perdure.demo.watch import Facts
from perdure.testing.evidence import Entry


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The scripted model's process."""

    pid: int
    url: str
    log: str
    """The file in which it counts what it is asked."""


@dataclass(frozen=True, slots=True)
class Story:
    """One demo that was played to its end. Times in milliseconds since 1970."""

    plan: Plan
    execution: str
    """The id that the first client printed."""
    view: ExecutionView
    events: tuple[Event, ...]
    lives: tuple[Life, ...]
    """Servers and clients, in the order of their start."""
    asked: tuple[Entry, ...] | None
    """The model endpoint's log; None for a real model, whose log is its provider's."""
    executions: int
    """How many the server knows."""
    printed: str
    """What the last client printed."""
    began_ms: int
    ended_ms: int

    @property
    def result(self) -> Json:
        """The agent's last words; None if there are none."""
        return self.view.output.get("result") if isinstance(self.view.output, dict) else None

    def life(self, role: str, nth: int) -> Life:
        """Return the n-th process of a role, from 0."""
        return [life for life in self.lives if life.role == role][nth]


class Stage(Protocol):
    """Where a demo is shown, and where it asks. Called in the order in which things happen."""

    def opens(self, plan: Plan) -> None:
        """Nothing has been started yet."""
        ...

    def endpoint(self, endpoint: Endpoint) -> None:
        """The model endpoint answers."""
        ...

    def started(self, life: Life) -> None:
        """A process was started, or, with `ready_ms`, does its work now."""
        ...

    def begun(self, execution: str) -> None:
        """The first client printed the id of the execution."""
        ...

    def happened(self, event: Event) -> None:
        """The execution's log grew."""
        ...

    def killed(self, life: Life) -> None:
        """A process was killed."""
        ...

    def seen(self, facts: Facts) -> None:
        """The server was asked how things stand, with a process dead."""
        ...

    def decide(self, approval: ApprovalView) -> Literal["approve", "reject"] | None:
        """Ask a person. None: there is nobody to ask."""
        ...
