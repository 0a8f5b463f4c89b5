"""Run an execution's log against the code as it is now, and write nothing: does the new code ask for what is recorded?

Bodies of steps do not run. What the code does outside steps it does, as it would on any re-run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

from perdure.core.events import Event, Kind
from perdure.core.ids import new_id
from perdure.core.items import Item
from perdure.core.ports import Clock, Random
from perdure.core.tokens import Issuer
from perdure.errors import LeaseLost
from perdure.flow.driver import Run
from perdure.flow.durable import DurableDefinition
from perdure.flow.scope import scoped_tasks
from perdure.system import SystemClock, SystemRandom
from perdure.worker.pace import within
from perdure.worker.stable import function_of

_TOKENS = Issuer("00" * 32)
"""No token is opened, and what is recorded of one does not tell its secret."""
IO_SECONDS = 5.0
"""How long the code may wait for the world outside a step."""


async def rerun(definition: DurableDefinition, log: Sequence[Event], clock: Clock, random: Random) -> str | None:
    """Return why the code does not go with the log; None if it does. On a loop that `scoped_tasks` was called for."""
    execution = f"rerun of {len(log)} events"
    run = Run(execution, function_of(definition, log[0].data["input"], _TOKENS), clock, _ids(clock, random))
    journal = _Nothing()
    # A pause behind the log: what is recorded is handed over, and nothing that is not begins.
    pause = Event(log[-1].seq + 1, Kind.PAUSED, "", "", {"reason": "user", "message": "", "by": ""}, log[-1].at_ms)
    try:
        await within(clock, IO_SECONDS, lambda: run.drive(journal, [*log, pause]))
    except TimeoutError:
        return f"after {IO_SECONDS:g} s it still waits for the world outside a step"
    finally:
        await run.close()
    return journal.why


def rerun_all(logs: Sequence[tuple[DurableDefinition, Sequence[Event]]]) -> list[str | None]:
    """Run each log against its function, one after another, on a loop made for it; return what `rerun` does of each."""
    clock, random = SystemClock(), SystemRandom()

    async def all_of_them() -> list[str | None]:
        scoped_tasks(asyncio.get_running_loop())
        return [await rerun(definition, log, clock, random) for definition, log in logs]

    return asyncio.run(all_of_them())


def _ids(clock: Clock, random: Random) -> Callable[[str], str]:
    return lambda prefix: new_id(prefix, clock, random)


class _Nothing:
    """A journal that takes nothing and remembers why a run could not go on."""

    def __init__(self) -> None:
        self.why: str | None = None

    async def record(self, seen: int, items: Sequence[Item]) -> list[Event]:
        raise LeaseLost("nothing is written in a check")

    async def events(self, after: int) -> list[Event]:
        return []

    async def park(self, seen: int, active_ms: int) -> list[Event]:
        return []

    async def finish(
        self, seen: int, active_ms: int, event: Literal["complete", "fail", "end"], data: str
    ) -> list[Event] | Literal["ended", "held"]:
        return "ended"

    async def halt(self, event: Literal["pause", "stick"], reason: str, message: str) -> None:
        self.why = message
