"""`perdure worker`: run the tools of agents, for executions begun anywhere."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connect import LogLevel, Server

if TYPE_CHECKING:
    from perdure.agent.agent import Agent
    from perdure.worker.loop import WorkerOptions

Targets = Annotated[
    list[str], typer.Argument(metavar="MODULE:AGENT...", help="What to serve: `shop.agents:refunds`. Several at once.")
]


def worker(
    targets: Targets,
    server: Server = None,
    slots: Annotated[int, typer.Option(min=1, help="How many tools run at once.")] = 16,
    name: Annotated[str, typer.Option(help="What people call it. By default host and process.")] = "",
    log_level: LogLevel = "info",
    parent_pid: Annotated[
        int | None, typer.Option(help="Stop when the process with this id, its parent, is gone.")
    ] = None,
    lease_ms: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the tools of agents until Ctrl-C. Comes back by itself when the server was away.

    Ctrl-C or SIGTERM: running tools may finish, the others go back. Twice: all go back at once. Three times: it ends.
    """
    from perdure import log
    from perdure.core.work import LEASE_MS
    from perdure.server.serve import run
    from perdure.worker.loop import WorkerOptions
    from perdure.worker.target import load_agents

    log.configure(log_level)
    agents = load_agents(targets)
    options = WorkerOptions(slots=slots, name=name, lease_ms=lease_ms or LEASE_MS)
    left_running = run(_work(server, agents, options, parent_pid))
    if left_running:
        # Threads that cannot be stopped would keep the process; their tasks were handed back, or are uncertain.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


async def _work(server: str | None, agents: list[Agent], options: WorkerOptions, parent_pid: int | None) -> int:
    from perdure.cli.connect import find
    from perdure.client.http import HttpApi
    from perdure.client.tasks import HttpTaskSource
    from perdure.errors import Unreachable
    from perdure.log import get_log
    from perdure.worker.main import run_worker

    target = await find(server)
    api = HttpApi(target.url, target.key)
    try:
        await api.info()  # a wrong key is told now: no waiting would mend it
    except Unreachable as error:
        get_log(__name__).warning("worker.no_server_yet", reason=error.message, action="trying until it answers")
    finally:
        await api.aclose()
    source = HttpTaskSource(target.url, target.key)
    try:
        return await run_worker(source, agents, options, parent_pid=parent_pid)
    finally:
        await source.aclose()
