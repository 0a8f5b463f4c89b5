"""A cluster whose primary is killed under load, and whose synchronous standby takes its place, among other blows."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import postgres_server
from crash_case import Case
from crash_cluster import ClusterRun
from crash_gale import Act
from crash_postgres import Postgres, address
from postgres_server import Server
from postgres_standby import either, folder_of, promote, synchronous_standby

PROMOTIONS = "standbys promoted"


@dataclass(frozen=True, slots=True)
class Pair:
    """A primary, and a standby without which it acknowledges nothing."""

    primary: Server
    standby: Server


class PromotionRun(ClusterRun):
    """A run in which the primary dies about half way through the storm."""

    def __init__(self, case: Case, folder: Path, pair: Pair) -> None:
        super().__init__(case, folder, Postgres(pair.primary, contextlib.nullcontext), None)
        self._pair = pair
        self._promoted = False

    def _acts(self) -> Sequence[Act]:
        return ("kill", "kill all", "stop", "end sessions")

    def _fronted(self) -> Sequence[str]:
        return ()

    def _address(self, server: str, name: str) -> str:
        return either(address(name, folder_of(self._pair.primary.address)), self._pair.standby.address)

    def _blow(self, now: float, storm: object) -> None:
        assert self.case.storm is not None
        if not self._promoted and self._gale.left <= self.case.storm.blows // 2:
            self._befell()
            self._pair.primary.kill()
            promote(self._pair.standby)
            self._postgres = Postgres(self._pair.standby, contextlib.nullcontext)
            self._promoted = True
            self._made[PROMOTIONS] += 1
            self._befell()
        super()._blow(now, storm)


@contextlib.contextmanager
def pair_under(folder: Path) -> Generator[Pair]:
    """Have a primary and its standby while the block lasts."""
    binaries = postgres_server.find_binaries()
    assert binaries, "no PostgreSQL binaries"
    with (
        postgres_server.running_server(binaries, under=folder) as primary,
        synchronous_standby(binaries, primary.address, under=folder) as standby,
    ):
        yield Pair(primary, standby)
