"""Watch an execution from outside, by the public API alone, and wait for facts: never for time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from perdure.core import states
from perdure.core.events import Event
from perdure.core.views import ExecutionView, TaskView
from perdure.core.work import WorkerInfo
from perdure.errors import InternalError, UserError
from perdure.runtime import AgentRuntime

POLL_SECONDS = 0.04


@dataclass(frozen=True, slots=True)
class Facts:
    """What the server says at one moment."""

    view: ExecutionView
    tasks: tuple[TaskView, ...]
    workers: tuple[WorkerInfo, ...]

    @property
    def ended(self) -> bool:
        return self.view.state in states.TERMINAL

    @property
    def parked(self) -> bool:
        """Whether it waits, held by nobody."""
        return self.view.state == states.Execution.WAITING


class Watch:
    """One execution, watched. Belongs to the demo's thread."""

    def __init__(
        self,
        runtime: AgentRuntime,
        execution: str,
        happened: Callable[[Event], None],
        check: Callable[[], None],
        seconds: float,
    ) -> None:
        """`happened` is told each event once, in order. `check` raises if a process is gone that should be there.
        `seconds` is how long any wait may take.
        """
        self.events: list[Event] = []
        self._runtime = runtime
        self._execution = execution
        self._happened = happened
        self._check = check
        self._seconds = seconds

    def look(self) -> Facts:
        """Ask the server how things stand; tell what is new."""
        api = self._runtime.api
        after = self.events[-1].seq if self.events else 0
        for event in self._runtime.wait(api.events(self._execution, after=after)):
            self.events.append(event)
            self._happened(event)
        view = self._runtime.wait(api.execution(self._execution))
        tasks = self._runtime.wait(api.tasks(self._execution))
        return Facts(view, tuple(tasks), tuple(self._runtime.wait(api.workers())))

    def until(self, what: str, holds: Callable[[Facts], bool]) -> Facts:
        """Return the facts once they are as wanted. `what` completes "waited for ...".

        Raises `UserError` (`demo_stopped`) if the execution stands still or ends before, with its own words, and
        `InternalError` (`demo_broken`) if it takes too long.
        """
        deadline = time.monotonic() + self._seconds
        while True:
            facts = self.look()
            if holds(facts):
                return facts
            self._stands_still(what, facts)
            self._check()
            if time.monotonic() > deadline:
                raise InternalError(
                    f"the demo waited {self._seconds:g} s for {what}, in vain: {self._execution} is "
                    f"{facts.view.state}, at event {facts.view.last_seq}.",
                    code="demo_broken",
                )
            time.sleep(POLL_SECONDS)

    def _stands_still(self, what: str, facts: Facts) -> None:
        view = facts.view
        if facts.ended or view.state in (states.Execution.PAUSED, states.Execution.STUCK):
            why = view.message or (view.failure.message if view.failure else "it has ended.")
            raise UserError(
                f"the demo waited for {what}; {self._execution} is {view.state} instead: {why}", code="demo_stopped"
            )
