"""Run crash cases over a PostgreSQL server of this process's own. As a program it answers cases, as `crash_driver`."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path

import postgres_server
from crash_case import Case, Outcome
from crash_cluster import SERVERS, ClusterRun
from crash_driver import answer, run_case
from crash_net import NETWORK, Net, why_not
from crash_postgres import Postgres
from crash_promotion import PromotionRun, pair_under


class OnPostgres:
    """Runs cases over a PostgreSQL server that the process has from its first case to its end."""

    def __init__(self, under: Path) -> None:
        """`under`: the folder that keeps what the server leaves, if the process is killed."""
        self._under = under
        self._held = contextlib.ExitStack()
        self._postgres: Postgres | None = None
        self._net: Net | None = None

    def __call__(self, case: Case) -> Outcome:
        """Run a case in a database of its own; or on a server of its own, if that is to be replaced."""
        if case.standby:
            with pair_under(self._under) as pair:
                return run_case(case, make=lambda one, folder: PromotionRun(one, folder, pair))
        if self._postgres is None:
            if not why_not():
                self._net = self._held.enter_context(contextlib.closing(Net(SERVERS)))
            self._postgres = self._held.enter_context(_postgres_under(self._under, self._net))
        postgres = self._postgres
        return run_case(case, make=lambda one, folder: ClusterRun(one, folder, postgres, self._net))

    def close(self) -> None:
        """End the server."""
        self._held.close()


@contextlib.contextmanager
def _postgres_under(folder: Path, net: Net | None) -> Generator[Postgres]:
    """Have a PostgreSQL server while the block lasts, on its own host if there is a network."""
    binaries = postgres_server.find_binaries()
    assert binaries, "no PostgreSQL binaries"
    at_the_host = net.at_the_host if net else contextlib.nullcontext
    with contextlib.ExitStack() as held:
        with at_the_host():
            server = held.enter_context(
                postgres_server.running_server(binaries, under=folder, network=NETWORK if net else "")
            )
        yield Postgres(server, at_the_host)


def main() -> None:
    """Answer cases until there are none."""
    with contextlib.closing(OnPostgres(Path("/tmp"))) as run:
        answer(run)


if __name__ == "__main__":
    main()
