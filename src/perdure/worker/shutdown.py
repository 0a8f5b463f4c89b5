"""Leave in order: what never began goes back, what runs may finish for a time, then it is stopped.

Nothing is ever said of a body whose end was not seen: its lease runs out instead.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure.core.ports import Clock
from perdure.log import get_log
from perdure.worker.attempt import STOP_SECONDS, Attempts
from perdure.worker.grip import Grip, Phase
from perdure.worker.pace import first_of
from perdure.worker.slots import Slots

log = get_log(__name__)

SETTLE_SECONDS = 2.0
"""How long stopping waits for a last request, other than the reports."""


async def leave(slots: Slots, attempts: Attempts, clock: Clock, left_to_drain: Callable[[], int]) -> int:
    """End all attempts; return how many bodies could not be stopped. Takes `left_to_drain` and a few seconds."""
    for grip in slots.grips:
        if grip.phase is Phase.RESERVED:
            grip.leave()
    await slots.until_free(left_to_drain)
    for grip in slots.grips:
        grip.leave()
        if grip.phase is Phase.BEGINNING:
            grip.abandon()
    until_ms = clock.monotonic_ms() + round((STOP_SECONDS + SETTLE_SECONDS) * 1000)
    await slots.until_free(lambda: until_ms - clock.monotonic_ms())
    await _leave_behind(slots.grips, attempts, clock)
    return slots.taken


async def _leave_behind(left: list[Grip], attempts: Attempts, clock: Clock) -> None:
    """Give up on bodies that cannot be stopped: what may be repeated goes back, so that others need not wait."""
    if not left:
        return
    tools = sorted({grip.task.tool for grip in left})
    log.warning("worker.left_running", tools=tools, action="end the process to stop them")
    returned = [grip for grip in left if grip.phase is Phase.ACTING and not grip.begun]
    if returned:
        await first_of(lambda: attempts.hand_back(returned), lambda: clock.sleep(SETTLE_SECONDS))
