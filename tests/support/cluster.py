"""Several servers and workers of the command line on one PostgreSQL, a world that counts, and a judge over it all."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import postgres_server
from cli_processes import PATIENCE, Home, Running, until
from crash_agent import PROMPT, Surroundings, agent
from perdure import AgentRuntime
from perdure.core.codec import Json
from perdure.core.events import Event, Kind
from perdure.errors import Conflict
from perdure.testing.checker import Expect, check
from perdure.testing.evidence import Event as Told
from perdure.testing.evidence import History
from perdure.testing.world_client import World, running_world

SERVER_LEASE_MS, WORKER_LEASE_MS = 2_000, 3_000
"""Short, because they are waited for, and long enough for a loaded machine not to lose one that is kept."""


@dataclass
class Cluster:
    """What runs on one database. `servers` and `workers` may be killed, stopped and replaced."""

    home: Home
    world: World
    postgres: postgres_server.Server
    address: str
    """Where servers reach the database."""
    key: str = ""
    servers: list[Running] = field(default_factory=list[Running])
    workers: list[Running] = field(default_factory=list[Running])
    begun: list[str] = field(default_factory=list[str])

    def start_server(self, port: str = "0") -> Running:
        """Start one more server."""
        lease = ("--lease-ms", str(SERVER_LEASE_MS), "--log-level", "debug")
        server = self.home.serve("--store", self.address, *lease, port=port)
        self.key = self.key or server.ready["key"]
        self.servers.append(server)
        return server

    def start_worker(self, server: Running, *targets: str) -> Running:
        """Start one more worker, which knows one server. It serves the report's tools, or `targets`."""
        lease = ("--lease-ms", str(WORKER_LEASE_MS))
        worker = self.home.work(*(targets or ("cluster_agents:agent",)), *lease, "--server", server.url)
        self.workers.append(worker)
        return worker

    @contextmanager
    def at(self, server: Running) -> Generator[AgentRuntime]:
        """Be a client of one server."""
        with AgentRuntime(server.url, api_key=self.key, serve_tools=False) as runtime:
            yield runtime

    def begin(self, server: Running) -> str:
        """Begin a report and return its execution."""
        surroundings = Surroundings(self.world, self.home.folder / "exports")
        with self.at(server) as runtime:
            execution = runtime.start(agent(surroundings), PROMPT).execution_id
        self.begun.append(execution)
        return execution

    def approve_when_asked(self, server: Running, execution: str) -> None:
        """Say yes to what the report asks for."""
        with self.at(server) as runtime:
            until(lambda: runtime.attach(execution).get_status().approvals, "the approval")
            runtime.attach(execution).approve(by="ops")

    def rule(self, runtime: AgentRuntime, execution: str) -> None:
        """Say of each uncertain effect what the world saw of it; too early is asked again by whoever calls again."""
        for effect in runtime.wait(runtime.api.effects(execution=execution, state="uncertain")):
            seen = any((one.execution, one.step) == (execution, effect.address) for one in self.world.entries())
            ruling = "happened" if seen else "run"
            value: Json = {"seen": True} if seen else None
            with suppress(Conflict):
                runtime.wait(runtime.api.rule(execution, effect.address, ruling, by="ops", reason="seen", value=value))

    def judge(self) -> list[str]:
        """Return what is wrong, by what was done to the world and what the logs say. All that was begun has ended."""
        with self.at(self.servers[-1]) as runtime:
            histories = [self._history(runtime, execution) for execution in self.begun]
        report = check(self.world.entries(), (), histories, Expect(late_attempts=True))
        return [str(one) for one in report.violations]

    @staticmethod
    def _history(runtime: AgentRuntime, execution: str) -> History:
        view = runtime.wait(runtime.api.execution(execution))
        events = runtime.wait(runtime.api.events(execution))
        told = (Told(one.seq, one.kind, one.address, one.data, one.at_ms) for one in events)
        return History(execution, view.state, tuple(told))


@dataclass
class Following:
    """Somebody who streams an execution's events from one server until it has ended."""

    cluster: Cluster
    server: Running
    execution: str
    events: list[tuple[float, Event]] = field(default_factory=list[tuple[float, Event]])
    """With the moment at which each came."""
    error: BaseException | None = None
    _thread: threading.Thread | None = None

    def start(self) -> Following:
        self._thread = threading.Thread(target=self._follow, name="following")
        self._thread.start()
        return self

    def _follow(self) -> None:
        try:
            with self.cluster.at(self.server) as runtime:
                runtime.wait(self._stream(runtime))
        except BaseException as error:  # noqa: BLE001 - the test's to see
            self.error = error

    async def _stream(self, runtime: AgentRuntime) -> None:
        async for event in runtime.api.follow(self.execution):
            self.events.append((time.monotonic(), event))

    def until(self, kind: Kind, nth: int = 1) -> float:
        """Wait for the n-th event of a kind; return when it came."""
        return until(lambda: self._nth(kind, nth), f"{kind} {nth}")

    def _nth(self, kind: Kind, nth: int) -> float | None:
        if self.error is not None:
            raise self.error
        found = [at for at, event in self.events if event.kind == kind]
        return found[nth - 1] if len(found) >= nth else None

    def end(self) -> list[Event]:
        """Return all events, once the execution has ended."""
        assert self._thread is not None
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), [event.kind for _, event in self.events]
        if self.error is not None:
            raise self.error
        return [event for _, event in self.events]


@contextmanager
def running_cluster(
    folder: Path,
    binaries: Path,
    servers: int = 2,
    workers: int = 2,
    reach: Callable[[str], AbstractContextManager[str]] = nullcontext,
) -> Iterator[Cluster]:
    """Have a database, a world, servers, and workers spread over them, while the block lasts. `reach` makes of the
    database's address the one by which the servers reach it."""
    home = Home(folder)
    out = folder / "exports"
    out.mkdir()
    with (
        running_world(folder, script="crash_script:reply") as world,
        postgres_server.running_server(binaries) as postgres,
        reach(postgres.address) as address,
        mock.patch.dict(os.environ, {"CLUSTER_WORLD": world.url, "CLUSTER_OUT": str(out)}),
    ):
        cluster = Cluster(home, world, postgres, address)
        try:
            for _ in range(servers):
                cluster.start_server()
            for number in range(workers):
                cluster.start_worker(cluster.servers[number % servers])
            yield cluster
        finally:
            home.close()
