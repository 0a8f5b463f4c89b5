"""What the processes of a crash run do: world, server, client, worker, and all of it in one.

Each program takes a `Setup` and runs in a child of its own; it returns when its work is done, or raises and is started
again by whoever drives the run. Nothing in this module is opened, started or connected before that.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from crash_agent import Surroundings, agent
from crash_client import Client
from crash_errands import ERRANDS as SIDE_ERRANDS
from crash_errands import OF_FUNCTIONS
from crash_side import FOLDER, FUNCTIONS, LINGER, side_agent
from perdure import AgentRuntime
from perdure.client.functions import HttpFunctionSource
from perdure.client.tasks import HttpTaskSource
from perdure.database import open_database
from perdure.flow.durable import durable_definition
from perdure.models.catalog import Catalog
from perdure.models.port import ModelError, ModelReply, ModelRequest
from perdure.models.recorded import reply_from_json, request_to_json
from perdure.server.executor import ExecutorOptions
from perdure.server.node import Node, Parts
from perdure.server.options import ServeOptions
from perdure.server.serve import Ready, serve
from perdure.server.server_keys import ServerKey
from perdure.service_loop import ServiceLoop, run
from perdure.shared_store import open_node
from perdure.store.postgres import open_postgres
from perdure.system import SystemClock, SystemRandom
from perdure.testing import world
from perdure.testing.evidence import BEGUN_AT_MS
from perdure.testing.world_client import World, WorldRefused
from perdure.wire.worker_lock import default_folder
from perdure.worker.functions import FunctionOptions, FunctionWorker
from perdure.worker.loop import WorkerOptions
from perdure.worker.main import Serving, run_workers, tool_worker
from which_store import by_clock

for _later in ("anyio._backends._asyncio", "encodings.idna", "httpcore2", "httpx2", "jsonschema", "psycopg", "uvloop"):
    with suppress(ImportError):  # what is loaded at first use would be loaded anew in each child
        import_module(_later)

DRAIN_SECONDS = 0.2
"""How long a worker that was told to stop lets its bodies go on."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One run's surroundings, the same for all of its processes and for each of their lives."""

    folder: Path
    database: str = ""
    """The address of the PostgreSQL database that the server's store is in; without one it is a file."""
    me: str = "server"
    """Which process it is: of several servers each has its own address."""
    server: str = "server"
    """The server that this process speaks to."""
    lease_ms: int = 1000
    errands: tuple[str, ...] = ()
    """What the client does beside its main job: see `crash_client`."""
    linger_seconds: float = 0.0
    model_faults: str = ""
    """The world's plan of faults."""
    refuse: str = ""
    """What the model answers to its first request, `STATUS[:RETRY_AFTER]`. With a time to wait it is asked through a
    script of the server's, for an agent with an address of its own gets one request and no second."""
    processes: bool = False
    rules: bool = True
    """Whether the client rules on uncertain effects."""
    leaks: bool = False
    """Whether the client eats memory once a tool is scheduled, if it lives in a control group of ours."""

    @property
    def disk(self) -> Path:
        """The disk of the machine that server and worker run on: all that they write, and nothing else."""
        return self.folder / "disk"

    @property
    def store(self) -> Path:
        return self.disk / "data" / "store.db"

    @property
    def world_log(self) -> Path:
        return self.folder / "world.log"

    @property
    def client_log(self) -> Path:
        return self.folder / "client.jsonl"

    @property
    def state_file(self) -> Path:
        return self.disk / f"{self.me}.json"

    @property
    def database_note(self) -> Path:
        """Where the address of the database stands, if it comes to be only in the run."""
        return self.folder / f"{self.me}.database"

    @property
    def ahead_ms(self) -> Path:
        """By how much this process's clock is ahead of the others'."""
        return self.folder / f"{self.me}.ahead_ms"

    @property
    def result(self) -> Path:
        return self.folder / "result.json"

    @property
    def skipped_ms(self) -> Path:
        return self.folder / "skipped_ms"

    def address(self, name: str) -> str:
        """Return the address that a process has written down."""
        return (self.folder / f"{name}.url").read_text(encoding="utf-8")

    def surroundings(self) -> Surroundings:
        """Return what the tools need."""
        out = self.folder / "exports"
        return Surroundings(World(self.world_url()), out, self.linger_seconds, self.processes, ":" in self.refuse)

    def world_url(self) -> str:
        return f"http://127.0.0.1:{(self.folder / 'world.port').read_text(encoding='utf-8')}"


Program = Callable[[Setup], None]


def run_world(setup: Setup) -> None:
    """Count what is done, until killed."""
    if setup.refuse:
        os.environ["CRASH_REFUSE"] = setup.refuse.partition(":")[0]
    paths = ["--log", str(setup.world_log), "--port-file", str(setup.folder / "world.port")]
    world.main([*paths, "--script", "crash_script:reply", "--faults", setup.model_faults])


class SkippingClock(SystemClock):
    """The system's clock, ahead by what files say: a long wait need not be waited for."""

    def __init__(self, *files: Path) -> None:
        self._files = files

    def wall_ms(self) -> int:
        return super().wall_ms() + sum(map(_number_in, self._files))


def _number_in(file: Path) -> int:
    try:
        return int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0


def run_server(setup: Setup) -> None:
    """Serve over the run's store until a signal, on the port of the first time."""
    address = setup.folder / f"{setup.me}.url"
    port = int(address.read_text(encoding="utf-8").rpartition(":")[2]) if address.exists() else 0
    clock = SkippingClock(setup.skipped_ms, setup.ahead_ms)
    models = Catalog(scripted={"incident": partial(_ask_world, setup)})
    in_database = setup.database or setup.database_note.exists()
    keys = (ServerKey(b"k" * 32),) if in_database else ()  # a file has its own beside it
    parts = Parts(models, clock, SystemRandom(), ExecutorOptions(lease_ms=setup.lease_ms), server_keys=keys)
    node = _node(setup, parts)

    def ready(found: Ready) -> None:
        write(setup.folder / f"{setup.me}.key", found.key)
        write(address, found.url)
        write(setup.folder / f"{setup.me}.ready", str(os.getpid()))

    options = ServeOptions(port=port, state_file=setup.state_file, drain_seconds=1.0)
    node.start()
    try:
        run(serve(node, options, on_ready=ready, clock=clock))
    finally:
        node.stop()


def _node(setup: Setup, parts: Parts) -> Node:
    if setup.database:
        store = by_clock(open_postgres(setup.database, random=parts.random), parts.clock)
        return Node(store, parts, nonce=parts.random.token(16).hex())
    if setup.database_note.exists():
        return open_database(setup.database_note.read_text(encoding="utf-8"), parts)[0]
    return open_node(setup.store, parts.models, parts)


async def _ask_world(setup: Setup, request: ModelRequest) -> ModelReply:
    asked = {**request_to_json(request), BEGUN_AT_MS: time.time_ns() // 1_000_000}
    try:
        found = await asyncio.to_thread(World(setup.world_url()).model, asked)
    except WorldRefused as refused:
        after = float(setup.refuse.partition(":")[2] or 0)
        raise ModelError("transient", str(refused), retry_after=after) from refused
    return reply_from_json(found)


def run_worker_alone(setup: Setup) -> None:
    """Run tools until a signal; say which worker it is."""
    run(_work(HttpTaskSource(*_server(setup)), setup))


async def _work(source: HttpTaskSource, setup: Setup) -> None:
    await run_workers(_workers(source, setup))
    await source.aclose()


def _workers(source: HttpTaskSource, setup: Setup) -> list[Serving]:
    """Return the workers of one process: for the report's tools, and for what its errands need."""
    options = WorkerOptions(lease_ms=setup.lease_ms, drain_seconds=DRAIN_SECONDS, outbox=default_folder())
    surroundings = setup.surroundings()
    agents = [agent(surroundings)]
    if SIDE_ERRANDS.keys() & set(setup.errands):
        agents.append(side_agent(surroundings))
    found: list[Serving] = [tool_worker(source, agents, options)]
    if OF_FUNCTIONS & set(setup.errands):
        os.environ[FOLDER], os.environ[LINGER] = str(setup.folder), str(setup.linger_seconds)
        own = FunctionOptions(lease_ms=setup.lease_ms, drain_seconds=DRAIN_SECONDS, outbox=default_folder())
        functions = [durable_definition(one) for one in FUNCTIONS]
        found.append(FunctionWorker(partial(HttpFunctionSource, *_server(setup)), source, functions, own))
    return found


def run_client(setup: Setup) -> None:
    """See the report through. The tools run elsewhere."""
    url, key = _server(setup)
    with AgentRuntime(url, api_key=key, serve_tools=False) as runtime:
        Client(runtime, agent(setup.surroundings()), setup).see_through()


def run_client_and_worker(setup: Setup) -> None:
    """See the report through and run its tools too."""
    with working(setup):
        run_client(setup)


@contextmanager
def working(setup: Setup) -> Generator[None]:
    """Have a worker with short leases in this process."""
    source = HttpTaskSource(*_server(setup))
    workers = _workers(source, setup)
    loop = ServiceLoop("crash-worker")
    loop.start()
    running = [loop.submit(worker.run()) for worker in workers]
    signal.signal(signal.SIGTERM, lambda *_: [worker.stop() for worker in workers])
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        for done in running:
            done.result()
        loop.wait(source.aclose())
        loop.stop()


def run_embedded(setup: Setup) -> None:
    """Server, worker and client in one, with the leases that users have."""
    surroundings = setup.surroundings()
    with AgentRuntime(store=setup.store) as runtime:
        Client(runtime, agent(surroundings), setup).see_through(serve=True)


PROGRAMS: dict[str, Program] = {
    "world": run_world,
    "server": run_server,
    "worker": run_worker_alone,
    "client": run_client,
    "client+worker": run_client_and_worker,
    "embedded": run_embedded,
}


def write(path: Path, text: str) -> None:
    """Have the text there, whole or not at all."""
    draft = path.with_name(path.name + ".part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _server(setup: Setup) -> tuple[str, str]:
    return setup.address(setup.server), (setup.folder / f"{setup.server}.key").read_text(encoding="utf-8")
