"""Two servers and two workers on one PostgreSQL, real processes all: one is killed or stopped, the database restarted,
and the other carries on. A world counts what was done, and its judge is the checker of the crash runs.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator

import httpx2
import pytest

import postgres_server
from cli_processes import Running, until
from cluster import Cluster, Following, running_cluster
from cluster_agents import relay
from perdure.core.events import Kind


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    binaries = postgres_server.find_binaries()
    assert binaries, "no PostgreSQL binaries"
    with running_cluster(tmp_path_factory.mktemp("cluster"), binaries) as cluster:
        yield cluster


def note(text: str) -> None:
    """Keep a figure for who looks at the run with -rP. No measure: the machine is shared."""
    sys.stdout.write(text + "\n")


def is_ready(server: Running) -> bool:
    """Ask a server whether it can serve."""
    return httpx2.get(f"{server.url}/ready").status_code == 200


def complete(following: Following) -> None:
    """See that the events came whole and in order, and ended well."""
    events = following.end()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].kind == Kind.COMPLETED


def held_by(cluster: Cluster, server: Running) -> str:
    """Begin a report whose model keeps the server that has it waiting; return it once it does."""
    seen = len(cluster.world.entries())
    cluster.world.faults("model=hang@1")
    execution = cluster.begin(server)
    until(lambda: any(one.name == "model_reply" for one in cluster.world.entries()[seen:]), "a model that hangs")
    return execution


def resumed_seconds(following: Following, since: float) -> float:
    """Return how long after a moment the execution moved on."""
    return min(at for at, _ in following.events if at > since) - since


def test_each_server_knows_the_workers_of_all(cluster: Cluster) -> None:
    for server in cluster.servers:
        with cluster.at(server) as runtime:
            assert len(runtime.wait(runtime.api.workers())) == len(cluster.workers)


def test_a_durable_function_runs_at_a_worker_of_another_server(cluster: Cluster) -> None:
    first, second = cluster.servers
    worker = cluster.start_worker(second, "cluster_agents:relay")
    with cluster.at(first) as runtime:
        handle = runtime.start(relay, "hello")
        until(lambda: handle.get_status().status == "waiting", "the wait for a signal")
        handle.signal("word", "there")
        assert handle.result().output == "hello there"
    worker.end()
    cluster.workers.remove(worker)


def test_a_killed_server_is_carried_on_by_the_other(cluster: Cluster) -> None:
    first, second = cluster.servers[-2:]
    execution = held_by(cluster, first)
    following = Following(cluster, second, execution).start()
    following.until(Kind.STARTED)
    first.end(signal.SIGKILL)
    died = time.monotonic()
    cluster.approve_when_asked(second, execution)
    complete(following)
    assert cluster.judge() == []
    note(f"killed: resumed after {resumed_seconds(following, died):.2f} s")
    cluster.start_server(first.port)


def test_a_server_that_was_stopped_past_its_lease_changes_nothing(cluster: Cluster) -> None:
    second, first = cluster.servers[-2:]
    execution = held_by(cluster, first)
    following = Following(cluster, second, execution).start()
    following.until(Kind.STARTED)
    first.send(signal.SIGSTOP)
    stopped = time.monotonic()
    cluster.approve_when_asked(second, execution)
    complete(following)
    note(f"stopped: resumed after {resumed_seconds(following, stopped):.2f} s")
    first.send(signal.SIGCONT)
    until(lambda: is_ready(first), "the first server again")
    assert cluster.judge() == []


def test_a_database_that_comes_back_is_waited_for(cluster: Cluster) -> None:
    first, second = cluster.servers[-2:]
    execution = cluster.begin(first)
    following = Following(cluster, second, execution).start()
    following.until(Kind.TASK_COMPLETED)
    cluster.postgres.stop()
    until(lambda: not is_ready(first) and not is_ready(second), "servers that say that their store is away")
    cluster.postgres.start()
    back = time.monotonic()
    until(lambda: is_ready(first) and is_ready(second), "servers that are ready again")
    note(f"restarted: ready after {time.monotonic() - back:.2f} s")
    cluster.approve_when_asked(first, execution)
    complete(following)
    assert cluster.judge() == []
    for server in (first, second):
        assert "Traceback" not in server.log.read_text()
