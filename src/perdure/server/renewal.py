"""Prolong an executor's leases, and mend where it and the store disagree about what it owns.

A run whose lease was lost is told to stop. What the store says we own and nobody here drives was claimed by a request
whose answer got lost: it is given back.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from perdure.core.ports import Clock
from perdure.engine.sweep import Drop, Renew, drop, renew
from perdure.errors import LeaseLost, PerdureError
from perdure.flow.runs import Live, Runs
from perdure.log import get_log
from perdure.server.bridge import Bridge
from perdure.server.leases import Leases

log = get_log(__name__)


class Renewal:
    """Renews three times in a lease's life. Start with `run`, on the loop of the executor whose leases and runs it is
    given; it ends when cancelled."""

    def __init__(self, bridge: Bridge, clock: Clock, holder: str, lease_ms: int, leases: Leases, runs: Runs) -> None:
        self._bridge = bridge
        self._clock = clock
        self._holder = holder
        self._lease_ms = lease_ms
        self._leases = leases
        self._runs = runs
        self._strangers: Set[str] = frozenset()
        """Owned by us in the store and not here, at the last renewal: their grants may still have been on the way."""

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            await self._clock.sleep(self._lease_ms / 3000)
            asked_ms = self._clock.monotonic_ms()
            driven, claimed = dict(self._runs.driven), self._leases.executions()
            if not driven and not claimed and not self._strangers:
                self._leases.renewed(asked_ms, {})
                continue
            fences = await self._renew()
            if fences is not None:
                self._leases.renewed(asked_ms, fences)
                self._stop_lost(driven, fences)
                # What was let go of during the renewal, or claimed, is no stranger.
                await self._give_back(fences.keys() - claimed - self._leases.executions())
            elif self._leases.quiet_ms > self._lease_ms * 0.8:
                for live in driven.values():
                    live.run.interrupt(LeaseLost("the lease could not be renewed in time"))

    async def _renew(self) -> dict[str, int] | None:
        """Return the fence of each execution that we own; None if the store did not say."""
        try:
            return await self._bridge.run(renew, Renew(self._holder, self._lease_ms))
        except PerdureError as error:
            log.warning("executor.renew_failed", code=error.code, action="will try again")
            return None

    def _stop_lost(self, driven: Mapping[str, Live], fences: Mapping[str, int]) -> None:
        for execution, live in driven.items():
            if fences.get(execution) != live.fence and self._runs.driven.get(execution) is live:
                live.run.interrupt(LeaseLost(f"execution {execution} is owned by somebody else"))

    async def _give_back(self, strangers: Set[str]) -> None:
        """Give back those that were strangers at the last renewal, too."""
        lost = strangers & self._strangers
        self._strangers = strangers - lost
        if lost:
            try:
                await self._bridge.run(drop, Drop(self._holder, tuple(sorted(lost))))
            except PerdureError as error:
                log.warning("executor.drop_failed", code=error.code, action="will try again")
                self._strangers |= lost
