"""Run the bodies of steps that belong to the holder itself, and keep what they give until it is written down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Literal

from perdure.core.ids import action_key
from perdure.core.items import BeginStep, EndStep, SimulatedStep, StepDone
from perdure.core.states import Reason
from perdure.core.work import Failure
from perdure.errors import PerdureError
from perdure.flow.asks import Ask
from perdure.flow.context import Body, Paused, Try, Unsuccessful


class Halt(Exception):
    """The run must not go on as it is: paused until somebody acts, or stuck until somebody looks."""

    def __init__(self, event: Literal["pause", "stick"], reason: str, message: str) -> None:
        super().__init__(message)
        self.event: Literal["pause", "stick"] = event
        self.reason = reason
        self.message = message

    @classmethod
    def poison(cls, what: str, error: BaseException) -> Halt:
        """Return the halt for an error that trying again would not change, a bug of ours or the author's."""
        text = error.message if isinstance(error, PerdureError) else f"{type(error).__name__}: {error}"
        return cls("stick", Reason.POISON, f"{what}: {text}")


class Bodies:
    """The bodies of one run. Owner: its driver, on its loop."""

    def __init__(
        self, execution: str, done: Callable[[StepDone | EndStep | SimulatedStep], None], gone: Callable[[], None]
    ) -> None:
        """Each body ends in `done` with its result, or sets `broke`, or was cancelled; then `gone` is called."""
        self.broke: Halt | None = None
        """Why the run must not go on, if a body said so."""
        self._execution = execution
        self._gone = gone
        self._done = done
        self._running: dict[str, asyncio.Task[None]] = {}
        """By action key; without those that have said what they gave."""
        self._cancelled: set[str] = set()
        """Names of the tasks that we cancelled ourselves."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """Asked for once, which takes a system call."""

    def __bool__(self) -> bool:
        """Whether any runs."""
        return bool(self._running)

    def start(self, ask: Ask, body: Body, takeovers: int) -> None:
        """Run a body in a task of its own."""
        attempt = Try(action_key(self._execution, ask.address), takeovers)
        self._go(self._run(ask, body, attempt), attempt.key)

    def start_claimed(self, ask: Ask, body: Body, nonce: str) -> None:
        """Run the body of a step that was claimed: however it ends is what is reported of the claim."""
        attempt = Try(action_key(self._execution, ask.address), 0)
        self._go(self._run_claimed(EndStep(ask.address, ask.digest, nonce, "cancelled"), body, attempt), attempt.key)

    def simulate(self, ask: Ask, body: Body, claim: BeginStep | None) -> None:
        """Run what stands in for a step's body in a fork; its record says so. `claim`: the one that is not made."""
        attempt = Try(action_key(self._execution, ask.address), 0)
        if claim is None:
            self._go(self._run(ask, body, attempt, ',"simulated":true'), attempt.key)
        else:
            end = SimulatedStep(ask.address, ask.digest, claim.name, claim.args)
            self._go(self._run_simulated(end, body, attempt), attempt.key)

    def _go(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._loop = self._loop or asyncio.get_running_loop()
        task = self._running[name] = self._loop.create_task(work, name=name)
        task.add_done_callback(self._forget)

    def cancel(self) -> list[asyncio.Task[None]]:
        """Cancel all of them; return the tasks, to be awaited."""
        left = list(self._running.values())
        for task in left:
            self._stop(task)
        return left

    def abandon(self, address: str) -> None:
        """Cancel the body of a step that nobody waits for any more; what it gives is not recorded."""
        if (task := self._running.get(action_key(self._execution, address))) is not None:
            self._stop(task)

    def _stop(self, task: asyncio.Task[None]) -> None:
        self._cancelled.add(task.get_name())
        task.cancel()

    async def _run(self, ask: Ask, body: Body, attempt: Try, mark: str = "") -> None:
        try:
            text = await body(attempt)
        except asyncio.CancelledError as error:
            if attempt.key not in self._cancelled:  # by something inside it: nobody would ever answer the step
                self.broke = Halt.poison(f"step {ask.address!r} was cancelled from within", error)
            raise
        except Paused as pause:
            self.broke = Halt("pause", pause.reason, pause.message)
        except Unsuccessful as end:
            self._say(attempt.key, StepDone(ask.address, ask.digest, f"{end.data[:-1]}{mark}}}"))
        except Exception as error:  # noqa: BLE001 - a bug in a body must stop this run only, and be seen
            self.broke = Halt.poison(f"step {ask.address!r} broke", error)
        else:
            self._say(attempt.key, StepDone(ask.address, ask.digest, f'{{"value":{text}{mark}}}'))

    async def _run_claimed(self, end: EndStep, body: Body, attempt: Try) -> None:
        try:
            end = replace(end, outcome="completed", value=await body(attempt))
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises is what its step came to
            end = replace(end, outcome="failed", failure=_failure(error))
        finally:
            self._say(attempt.key, end)

    async def _run_simulated(self, end: SimulatedStep, body: Body, attempt: Try) -> None:
        try:
            end = replace(end, value=await body(attempt))
        except Exception as error:  # noqa: BLE001 - as above
            end = replace(end, failure=_failure(error))
        self._say(attempt.key, end)

    def _say(self, key: str, item: StepDone | EndStep | SimulatedStep) -> None:
        self._running.pop(key, None)
        self._done(item)
        self._gone()

    def _forget(self, task: asyncio.Task[None]) -> None:
        if self._running.get(task.get_name()) is task:  # it said nothing
            del self._running[task.get_name()]
            self._gone()


def _failure(error: Exception) -> Failure:
    code = getattr(error, "code", None)
    return Failure(code if isinstance(code, str) else "raised", str(error) or type(error).__name__)
