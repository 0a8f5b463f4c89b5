"""Blows at random moments on servers, workers and database of a cluster under load: `./dev crash cluster --seconds N`.

Servers are killed, or stopped for longer than their lease; workers are killed; the database is restarted. Then no blow
falls any more, everything has to come to its end, and the checker judges by what the world counted.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import postgres_server
from cli_processes import Running
from cluster import SERVER_LEASE_MS, Cluster, running_cluster
from crash_agent import PROMPT, Surroundings, agent
from perdure import AgentRuntime
from perdure.errors import PerdureError

MOST_SECONDS = 120.0
"""For everything to come to its end after the last blow."""
LOAD = 4
"""Reports under way at a time."""
STOP_SECONDS = SERVER_LEASE_MS / 1000 * 1.7


@dataclass
class Storm:
    """The blows. After `run` everything lives. On the main thread: the database dies with the thread that starts it."""

    cluster: Cluster
    dice: random.Random
    blows: Counter[str] = field(default_factory=Counter[str])
    living: list[Running] = field(default_factory=list[Running])
    """Servers that are neither dead nor stopped."""

    def run(self, seconds: float) -> None:
        """Strike for so long."""
        kinds = {
            "server killed": self._kill_server,
            "server stopped": self._stop_server,
            "worker killed": self._kill_worker,
            "database restarted": self._restart_database,
        }
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(self.dice.uniform(0.3, 2.0))
            name = self.dice.choices(list(kinds), (4, 3, 3, 1))[0]
            kinds[name]()
            self.blows[name] += 1

    def _kill_server(self) -> None:
        server = self._take()
        server.end(signal.SIGKILL)
        time.sleep(self.dice.uniform(0, 3))
        self.living.append(self.cluster.start_server(server.port))

    def _stop_server(self) -> None:
        server = self._take()
        server.send(signal.SIGSTOP)
        time.sleep(STOP_SECONDS)
        server.send(signal.SIGCONT)
        self.living.append(server)

    def _kill_worker(self) -> None:
        worker = self.cluster.workers.pop(self.dice.randrange(len(self.cluster.workers)))
        worker.end(signal.SIGKILL)
        self.cluster.start_worker(self.dice.choice(self.living))

    def _restart_database(self) -> None:
        self.cluster.postgres.stop()
        time.sleep(self.dice.uniform(0, 2))
        self.cluster.postgres.start()

    def _take(self) -> Running:
        return self.living.pop(self.dice.randrange(len(self.living)))


@dataclass
class Load:
    """Reports that are begun, approved and, where nobody knows what happened, ruled on, at whichever server lives."""

    cluster: Cluster
    storm: Storm
    open: set[str] = field(default_factory=set[str])
    begun: int = 0
    ending: threading.Event = field(default_factory=threading.Event)
    """Begin no more, and end when all that was begun has ended."""
    error: BaseException | None = None

    def run(self) -> None:
        """Keep reports under way until `ending`, and see them through."""
        try:
            while not self.ending.is_set() or self.open:
                self.look(begin=not self.ending.is_set())
                time.sleep(0.05)
        except BaseException as error:  # noqa: BLE001 - the run's to see
            self.error = error

    def look(self, begin: bool) -> None:
        """Do what is to be done now at one server. One that does not answer is left alone."""
        server = self.storm.dice.choice(list(self.storm.living) or self.cluster.servers)
        try:
            with self.cluster.at(server) as runtime:
                if begin and len(self.open) < LOAD:
                    self._begin(runtime)
                for execution in list(self.open):
                    self._tend(runtime, execution)
        except PerdureError as error:
            sys.stdout.write(f"  {server.url}: {error.code}\n")

    def _begin(self, runtime: AgentRuntime) -> None:
        surroundings = Surroundings(self.cluster.world, self.cluster.home.folder / "exports")
        handle = runtime.start(agent(surroundings), PROMPT, idempotency_key=f"report {self.begun}")
        self.begun += 1  # else the same key is asked for again: it may have been begun
        self.open.add(handle.execution_id)
        self.cluster.begun.append(handle.execution_id)

    def _tend(self, runtime: AgentRuntime, execution: str) -> None:
        handle = runtime.attach(execution)
        status = handle.get_status()
        if status.status in ("completed", "failed", "cancelled"):
            self.open.discard(execution)
        for _ in status.approvals[:1]:
            handle.approve(by="ops")
        self.cluster.rule(runtime, execution)


def storm(folder: Path, *, seconds: float, seed: int, servers: int, workers: int) -> list[str]:
    """Run one storm; return what is wrong, and print what was done."""
    binaries = postgres_server.find_binaries()
    assert binaries, "no PostgreSQL binaries"
    with running_cluster(folder, binaries, servers, workers) as cluster:
        blows = Storm(cluster, random.Random(seed), living=list(cluster.servers))
        load = Load(cluster, blows)
        thread = threading.Thread(target=load.run, name="load", daemon=True)
        thread.start()
        blows.run(seconds)
        load.ending.set()
        thread.join(MOST_SECONDS)
        if load.error is not None:
            raise load.error
        problems: list[str] = []
        problems += [f"{execution} did not end" for execution in sorted(load.open)]
        cluster.servers.append(blows.living[0])
        problems += cluster.judge()
        logs = [one for one in cluster.home.folder.glob("*.log") if "Traceback" in one.read_text()]
        problems += [f"{one}: an error that nobody expected" for one in logs]
        sys.stdout.write(f"seed {seed}: {load.begun} reports, {dict(blows.blows)}, problems: {len(problems)}\n")
        return problems


def main() -> int:
    """Run a storm and say what came of it."""
    parser = argparse.ArgumentParser(prog="./dev crash cluster", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="perdure-cluster-"))
    problems = storm(folder, seconds=given.seconds, seed=given.seed, servers=given.servers, workers=given.workers)
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    sys.stdout.write(f"left in {folder}\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
