"""`perdure worker`: run the tools of agents, for executions begun anywhere."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import AsJson, LogLevel, Server

if TYPE_CHECKING:
    from perdure.agent.agent import Agent
    from perdure.cli.connect import Target
    from perdure.client.tasks import HttpTaskSource
    from perdure.core.work import WorkerInfo
    from perdure.worker.declared import DurableDefinition
    from perdure.worker.loop import WorkerOptions
    from perdure.worker.main import Serving

Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="MODULE:NAME",
        help="What to serve: an agent, `shop.agents:refunds`, or a durable function. Several at once.",
    ),
]


def worker(
    targets: Targets,
    server: Server = None,
    slots: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            show_default=False,
            help="How many tools run at once, and how many executions of durable functions: those that wait do not "
            "count. By default 16, and 100.",
        ),
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="What people call it. By default host and process.", show_default=False)
    ] = "",
    log_level: LogLevel = "info",
    parent_pid: Annotated[
        int | None,
        typer.Option(
            metavar="PID", show_default=False, help="Stop when the process with this id, its parent, is gone."
        ),
    ] = None,
    as_json: AsJson = False,
    lease_ms: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the tools of agents, and durable functions, until Ctrl-C. Comes back by itself when the server was away.

    Ctrl-C or SIGTERM: running tools may finish, the others go back. Twice: all go back at once. Three times: it ends.
    --json prints one line when it is connected.
    """
    from perdure import log
    from perdure.core.work import LEASE_MS
    from perdure.service_loop import run
    from perdure.wire.worker_lock import default_folder
    from perdure.worker.declared import sorted_out
    from perdure.worker.functions import FUNCTION_SLOTS
    from perdure.worker.loop import TOOL_SLOTS, WorkerOptions
    from perdure.worker.main import lanes_of
    from perdure.worker.target import load_declared

    agents, functions = sorted_out(load_declared(targets))
    if agents:
        lanes_of(agents)  # what cannot be served is told before anybody is asked
    log.configure(log_level)
    tool_slots = TOOL_SLOTS if slots is None else slots
    options = WorkerOptions(slots=tool_slots, name=name, lease_ms=lease_ms or LEASE_MS, outbox=default_folder())
    served = _Served(agents, functions, FUNCTION_SLOTS if slots is None else slots)
    left_running = run(_work(server, served, options, parent_pid, as_json))
    if left_running:
        # Threads that cannot be stopped would keep the process; their tasks were handed back, or are uncertain.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


async def _work(
    server: str | None, served: _Served, options: WorkerOptions, parent_pid: int | None, as_json: bool
) -> int:
    from perdure.cli.connect import find
    from perdure.client.tasks import HttpTaskSource
    from perdure.system import settle_memory
    from perdure.worker.main import run_workers

    target = await find(server)
    await _try(target)
    source = HttpTaskSource(target.url, target.key)

    def connected(info: WorkerInfo) -> None:
        _tell_connected(info, target, as_json)

    try:
        workers = served.workers(source, target, options)
        settle_memory()
        return await run_workers(workers, parent_pid=parent_pid, on_connected=connected)
    finally:
        await source.aclose()


@dataclass(frozen=True, slots=True)
class _Served:
    """What a worker process serves: tools and durable functions have slots of their own, and are one worker each."""

    agents: list[Agent]
    functions: list[DurableDefinition]
    function_slots: int

    def workers(self, source: HttpTaskSource, target: Target, options: WorkerOptions) -> list[Serving]:
        from perdure.client.functions import HttpFunctionSource
        from perdure.worker.functions import FunctionOptions, FunctionWorker
        from perdure.worker.main import tool_worker

        found: list[Serving] = [tool_worker(source, self.agents, options)] if self.agents else []
        if self.functions:
            own = FunctionOptions(
                slots=self.function_slots, name=options.name, lease_ms=options.lease_ms, outbox=options.outbox
            )
            opened = partial(HttpFunctionSource, target.url, target.key)
            found.append(FunctionWorker(opened, source, self.functions, own))
        return found


async def _try(target: Target) -> None:
    """Ask the server something: a wrong key is told now, because no waiting would mend it."""
    from perdure.client.http import HttpApi
    from perdure.errors import Unreachable
    from perdure.log import get_log

    api = HttpApi(target.url, target.key)
    try:
        await api.info()
    except Unreachable as error:
        get_log(__name__).warning("worker.no_server_yet", reason=error.message, action="trying until it answers")
    finally:
        await api.aclose()


def _tell_connected(info: WorkerInfo, target: Target, as_json: bool) -> None:
    from perdure.cli.terminal import print_json

    if as_json:
        print_json({"worker": info.worker, "name": info.name, "pid": info.pid, "url": target.url})
        sys.stdout.flush()
        return
    from perdure.cli.phrases import plural

    what = f"{plural(len(info.lanes), 'tool')} of {', '.join(sorted({lane.agent for lane in info.lanes}))}"
    if info.functions:
        what = f"durable {', '.join(sorted({lane.name for lane in info.functions}))}"
    typer.echo(f"Serving {what} for {target.url}, {info.slots} at once.")
    typer.echo("Ctrl-C lets what runs finish, twice hands it back, three times ends at once.")
