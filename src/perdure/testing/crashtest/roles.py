"""What the processes of a run do: the world with the model, the server, the worker, and the count of effects.

Each runs in a child of its own until it is told to leave, or killed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module

from perdure import failpoints
from perdure.client.tasks import HttpTaskSource
from perdure.models.catalog import Catalog
from perdure.server.executor import ExecutorOptions
from perdure.server.node import Parts
from perdure.server.options import ServeOptions
from perdure.server.serve import Ready, serve
from perdure.server.tool_source import tools_by
from perdure.service_loop import run
from perdure.shared_store import open_node
from perdure.system import SystemClock, SystemRandom
from perdure.testing.crashtest.bodies import watched
from perdure.testing.crashtest.model import answering
from perdure.testing.crashtest.place import Place
from perdure.testing.crashtest.subject import Subject, load_agent, observed
from perdure.testing.effects import FOLDER, WORLD
from perdure.testing.world import Faults, Log, WorldServer
from perdure.worker.loop import Worker, WorkerOptions
from perdure.worker.main import lanes_of, run_workers

POLL_SECONDS = 0.01
LATER = ("anyio._backends._asyncio", "encodings.idna", "httpcore2", "httpx2", "jsonschema", "referencing", "uvloop")
"""Loaded at first use, and so anew in each child, unless it was before the first fork."""


@dataclass(frozen=True, slots=True)
class Life:
    """What one life of a process is given."""

    subject: Subject
    place: Place
    lease_ms: int
    points: str = ""
    """Its failpoints."""
    faults: str = ""
    """The world's."""


def load_all() -> None:
    """Import what all children need, once."""
    for name in LATER:
        with suppress(ImportError):
            import_module(name)


def play(role: str, life: Life) -> None:
    """Live the life of a role. Says in the end, if it is told to leave, which failpoints it passed."""
    os.environ[FOLDER] = str(life.place.own)
    os.environ[WORLD] = life.place.note("world.url")
    failpoints.arm(life.points, str(life.place.folder / "points"))
    try:
        ROLES[role](life)
    finally:
        life.place.write(f"passes-{role}.json", json.dumps(failpoints.passes()))


def _world(life: Life) -> None:
    place = life.place
    server = WorldServer(Log(place.world_log), Faults(life.faults), None, 0)
    place.write("world.url", f"http://127.0.0.1:{server.server_port}")
    server.script = answering(life.subject)  # who asks meanwhile waits for it
    server.serve_forever()


def _server(life: Life) -> None:
    place = life.place
    os.environ["XDG_STATE_HOME"] = str(place.state)  # where it looks for dead workers' locks
    port = int(place.note("server.url").rpartition(":")[2] or 0)
    clock = SystemClock()
    models, options = Catalog(), ExecutorOptions(lease_ms=life.lease_ms)
    node = open_node(place.store, models, Parts(models, clock, SystemRandom(), options, tools_by(os.environ)))

    def ready(found: Ready) -> None:
        place.write("server.key", found.key or place.note("server.key"))
        place.write("server.url", found.url)

    node.start()
    try:
        listen = ServeOptions(port=port, state_file=place.state / "server.json", drain_seconds=1.0)
        run(serve(node, listen, on_ready=ready, clock=clock))
    finally:
        node.stop()


def _worker(life: Life) -> None:
    place = life.place
    agent = load_agent(life.subject)
    while not place.note("server.url"):
        time.sleep(POLL_SECONDS)
    options = WorkerOptions(
        lease_ms=life.lease_ms,
        drain_seconds=0.2,
        outbox=place.outbox,
        agent_dependencies={} if agent.dependencies is None else {agent.name: agent.dependencies},
    )
    tools = watched(lanes_of([agent]), place.bodies)

    async def work() -> None:
        source = HttpTaskSource(place.note("server.url"), place.note("server.key"))
        try:
            await run_workers([Worker(source, tools, options)])
        finally:
            await source.aclose()

    run(work())


def _observe(life: Life) -> None:
    life.place.write("observed.json", json.dumps(observed(life.subject)))


ROLES: dict[str, Callable[[Life], None]] = {
    "world": _world,
    "server": _server,
    "worker": _worker,
    "worker2": _worker,
    "observe": _observe,
}
