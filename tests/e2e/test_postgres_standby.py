"""The primary is killed in the middle of executions, its synchronous standby promoted: what was acknowledged is there.

Two servers and two workers, real processes, with the addresses of both databases. Executions are begun all the while.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import postgres_server
from cli_processes import PATIENCE, Running, until
from cluster import Cluster, Following, running_cluster
from perdure.core.events import Kind
from postgres_standby import either, promote, synchronous_standby

BEGUN_BEFORE = 2
"""Executions that run when the primary dies."""
BEGUN_MEANWHILE = 4


class Beginning:
    """Begins one execution after the other, each acknowledged before the next."""

    def __init__(self, cluster: Cluster, server: Running) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(cluster, server), name="beginning")
        self._thread.start()

    def _run(self, cluster: Cluster, server: Running) -> None:
        try:
            for _ in range(BEGUN_MEANWHILE):
                cluster.begin(server)
        except BaseException as error:  # noqa: BLE001 - the test's to see
            self._error = error

    def end(self) -> None:
        """Return once all have begun."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error


@contextmanager
def with_standby(binaries: Path, primary: str, standbys: list[postgres_server.Server]) -> Iterator[str]:
    """Put a standby behind a primary; yield the address of both, and keep the standby."""
    with synchronous_standby(binaries, primary) as standby:
        standbys.append(standby)
        yield either(primary, standby.address)


def see_to_the_end(cluster: Cluster, server: Running, execution: str) -> None:
    """Say yes to what an execution asks for, rule on what was begun as the primary died, and see that it completes."""
    cluster.approve_when_asked(server, execution)
    with cluster.at(server) as runtime:

        def completed() -> bool:
            cluster.rule(runtime, execution)
            return runtime.attach(execution).get_status().status == "completed"

        until(completed, "an execution that completes")


def test_what_was_acknowledged_survives_the_promotion_of_a_synchronous_standby(tmp_path: Path) -> None:
    binaries = postgres_server.find_binaries()
    assert binaries, "no PostgreSQL binaries"
    standbys: list[postgres_server.Server] = []
    with running_cluster(tmp_path, binaries, reach=lambda at: with_standby(binaries, at, standbys)) as cluster:
        first, second = cluster.servers
        following = [Following(cluster, second, cluster.begin(first)).start() for _ in range(BEGUN_BEFORE)]
        beginning = Beginning(cluster, second)
        following[0].until(Kind.TASK_COMPLETED)
        cluster.postgres.kill()
        killed = time.monotonic()
        promote(standbys[0])
        beginning.end()
        for execution in cluster.begun:
            see_to_the_end(cluster, first, execution)
        for one in following:
            events = one.end()
            assert [event.seq for event in events] == list(range(1, len(events) + 1)), "what was told is there"
            assert events[-1].kind == Kind.COMPLETED
        assert cluster.judge() == []
        resumed = min(at for one in following for at, _ in one.events if at > killed) - killed
        sys.stdout.write(f"an execution moved on {resumed:.1f} s after the kill\n")
