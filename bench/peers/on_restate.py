"""Restate: its server, a handler process that speaks HTTP/2 with it in both directions, and this driver. One mode."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config
from plain_http import Client, Refused
from step_log import STEPS, body, ended
from workloads import Contender, at_once, contest, until

SERVER = "node_modules/@restatedev/restate-server-linux-x64/bin/restate-server"
HOME = "BENCH_RESTATE_HOME"
"""Names the folder that npm installed the server into."""
ADDRESS = "BENCH_RESTATE_HANDLER"
LEAVE_AFTER = timedelta(seconds=2)
"""An execution that waits longer holds no stream and none of the server's slots. Its default is a minute."""

w1_handlers = restate.Workflow("W1")
w4_handlers = restate.Workflow("W4", inactivity_timeout=LEAVE_AFTER)


@w1_handlers.main()
async def w1(ctx: restate.WorkflowContext, execution: str) -> str:
    """Ask a model and call a tool, five times."""
    for number in range(STEPS):
        await ctx.run_typed(f"step {number}", body, restate.RunOptions(), execution, number)
    ended(execution)
    return "done"


@w4_handlers.main()
async def w4(ctx: restate.WorkflowContext, execution: str) -> str:
    """Ask a model, wait for a signal, call a tool."""
    await ctx.run_typed("model", body, restate.RunOptions(), execution, 0)
    said = await ctx.promise("go", type_hint=str).value()
    await ctx.run_typed("tool", body, restate.RunOptions(), execution, 1)
    return said


@w4_handlers.handler()
async def go(ctx: restate.WorkflowSharedContext, said: str) -> None:
    """Send the signal."""
    await ctx.promise("go", type_hint=str).resolve(said)


@dataclass
class Restate(Contender):
    server_process: int = 0
    worker_process: int = 0
    ingress: Client = field(init=False)
    admin: Client = field(init=False)

    async def serve(self) -> None:
        ingress, admin, node = (f"127.0.0.1:{free_port()}" for _ in range(3))
        os.environ[ADDRESS] = f"127.0.0.1:{free_port()}"
        self.ingress, self.admin = Client(f"http://{ingress}"), Client(f"http://{admin}")
        environment = {
            "RESTATE_BASE_DIR": str(self.options.folder / "data"),
            "RESTATE_INGRESS__BIND_ADDRESS": ingress,
            "RESTATE_ADMIN__BIND_ADDRESS": admin,
            "RESTATE_BIND_ADDRESS": node,
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_LOG_FILTER": "error",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_NODE_NAME": "bench",
        }
        command = [Path(os.environ[HOME]) / SERVER, "--no-logo"]
        self.server_process = self.start(command, **environment).pid
        await until(lambda: answers(self.admin, "GET", "/health"), "the server's health")
        await until(lambda: answers(self.ingress, "GET", "/restate/health"), "the ingress")

    async def open(self) -> None:
        self.worker_process = self.start_worker().pid
        await self.submit(())

    async def submit(self, executions: Sequence[str]) -> None:
        where = {"uri": f"http://{os.environ[ADDRESS]}", "force": True}
        await until(lambda: answers(self.admin, "POST", "/deployments", where), "the handlers to be known")

        async def send(execution: str) -> None:
            await self.ingress.ask("POST", f"/W1/{execution}/w1/send", execution)

        await at_once(20, send, executions)

    async def work(self, executions: Sequence[str]) -> None:
        config = Config()
        config.bind = [os.environ[ADDRESS]]
        config.accesslog = config.errorlog = None
        config.h2_max_concurrent_streams = config.keep_alive_max_requests = 2**31 - 1
        config.keep_alive_timeout = 2**31 - 1
        await serve(restate.app([w1_handlers, w4_handlers]), config)

    async def close(self) -> None:
        await self.ingress.close()
        await self.admin.close()

    async def run(self, execution: str) -> None:
        await self.ingress.ask("POST", f"/W1/{execution}/w1", execution)

    async def park(self, execution: str) -> None:
        await self.ingress.ask("POST", f"/W4/{execution}/w4/send", execution)

    async def all_parked(self, count: int) -> None:
        query = "SELECT status, count(*) AS n FROM sys_invocation WHERE target_service_name = 'W4'"
        query += " AND target_handler_name = 'w4' GROUP BY status"

        async def parked() -> bool:
            answer = await self.admin.ask("POST", "/query", {"query": query}, accept="application/json")
            found = {row["status"]: row["n"] for row in json.loads(answer)["rows"]}
            return found.get("suspended", 0) + found.get("completed", 0) >= count

        await until(parked, "all to wait")

    async def release(self, execution: str) -> None:
        await self.ingress.ask("POST", f"/W4/{execution}/go", "yes")

    async def ended(self, execution: str) -> None:
        await self.ingress.ask("GET", f"/restate/workflow/W4/{execution}/attach")

    async def stored(self) -> int:
        """Its files are made larger than what is in them, so this is the least that it may be."""
        return sum(file.stat().st_size for file in (self.options.folder / "data").rglob("*") if file.is_file())

    def processes(self) -> dict[str, int]:
        return {**super().processes(), "server": self.server_process, "worker": self.worker_process}


async def answers(client: Client, method: str, path: str, body: object = None) -> bool:
    """Whether a request is answered, and well."""
    try:
        await client.ask(method, path, body)
    except (OSError, EOFError, Refused):
        return False
    return True


def free_port() -> int:
    """Return a port that nobody has, for a server that wants to be told one."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


if __name__ == "__main__":
    contest(Restate)
