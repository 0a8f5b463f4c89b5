"""Two servers whose every transaction may be in another session: one is killed, and the other carries on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import postgres_server
from cluster import Following, running_cluster
from perdure.core.events import Kind
from poolers import pooled
from postgres_standby import folder_of


@contextmanager
def through_a_pooler(kind: str, database: str) -> Iterator[str]:
    """Yield the address by which a pooler leads to a database."""
    folder = folder_of(database)
    with pooled(kind, Path(folder)) as pooler:
        yield database.replace(folder, str(pooler))


@pytest.mark.parametrize("kind", ["own", "pgbouncer"])
def test_servers_behind_a_pooler_take_over_from_each_other(tmp_path: Path, kind: str) -> None:
    binaries = postgres_server.find_binaries()
    assert binaries, "no PostgreSQL binaries"
    with running_cluster(tmp_path, binaries, reach=lambda at: through_a_pooler(kind, at)) as cluster:
        first, second = cluster.servers
        following = [Following(cluster, second, cluster.begin(first)).start() for _ in range(2)]
        following[0].until(Kind.TASK_COMPLETED)
        first.send(signal.SIGKILL)
        for one in following:
            cluster.approve_when_asked(second, one.execution)
            events = one.end()
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert events[-1].kind == Kind.COMPLETED
        assert cluster.judge() == []
        assert "Traceback" not in second.log.read_text()
