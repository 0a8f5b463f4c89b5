"""End what stopped processes have open in a shared database: a transaction holds locks that everybody else waits for.

A process that was stopped in the middle of a transaction, or whose host or network is gone, does not end it. The
database has a timeout for that, which does not run after statements that were sent in a pipeline, as most are. Whoever
is ended so finds its connection lost, and runs its transaction again; if its leases ran out meanwhile, it is refused.
"""

from __future__ import annotations

from perdure.core.ports import Clock
from perdure.errors import Retryable
from perdure.log import get_log
from perdure.server.bridge import Bridge

log = get_log(__name__)

IDLE = "idle in transaction"
"""The database's word for it."""
IDLE_MS = 5_000
"""How long a transaction may lie idle, at most. Between two statements of ours there is hardly ever a millisecond."""


async def end_stalled(bridge: Bridge, clock: Clock, lease_ms: int) -> None:
    """Look until cancelled. What a stopped holder has locked is free as its lease runs out."""
    idle_ms = min(IDLE_MS, lease_ms // 2)
    while True:
        await clock.sleep(idle_ms / 1000)
        try:
            ended = await bridge.read(lambda reads: reads.rows("end_stalled", wanted=IDLE, idle_ms=idle_ms))
        except Retryable as error:
            log.debug("stalled.not_looked", code=error.code, action="will look again")
            continue
        if ended:
            log.warning("stalled.ended", sessions=len(ended), idle_ms=idle_ms, action="none: whoever it was goes on")
