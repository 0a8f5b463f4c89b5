"""Make a store whose executions stand at every kind of wait. Run once for each change of log format or schema.

`python tests/golden/make.py tests/golden/NAME` writes `perdure.db`, and `executions.json` with the id of each.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from golden_agents import agent, script
from perdure.core.views import StartRequest
from perdure.core.work import Begin, LeaseRequest, Report
from perdure.engine.keys import DEFAULT_COMPANY
from perdure.models.catalog import Catalog
from perdure.server.node import Node
from perdure.shared_store import open_node
from perdure.wire.api import Api, TaskSource

RESULTS = {"look": "in stock", "order": {"ordered": "bolts", "count": 7}, "pay": "paid 4200"}
STAGES = ("completed", "approval", "uncertain", "paused", "task")
"""The one whose tasks nobody takes comes last: the others would."""


async def work(source: TaskSource, worker: str, count: int, *, answer: bool = True) -> None:
    """Take `count` tasks and, if `answer`, report their results."""
    left = count
    while left:
        request = LeaseRequest(worker, f"{worker}-{left}", tuple(agent.lanes()), left)
        for task in await source.lease(request, wait_seconds=10):
            left -= 1
            if task.delivery == "at_most_once":
                await source.begin(Begin(task.execution, task.address, task.fence, "golden"))
            outcome = "completed" if answer else "failed"
            await source.report(worker, [Report(task.execution, task.address, task.fence, outcome, RESULTS[task.tool])])


async def approve(api: Api, execution: str) -> None:
    """Say yes to the order once it is asked for."""
    async for event in api.follow(execution):
        if event.kind == "waitpoint_opened":
            await api.decide(event.data["id"], "approve", by="golden", reason="")
            return


async def bring(node: Node, stage: str) -> str:
    """Start an execution and bring it to a stage."""
    api, source = node.api(DEFAULT_COMPANY), node.tasks(DEFAULT_COMPANY)
    started = (await api.start(StartRequest(agent.compile(), f"stage {stage}", idempotency_key=f"key-{stage}"))).id
    if stage == "task":
        await until(api, started, "task_scheduled")
        return started
    await work(source, f"worker-{stage}", 2)
    await until(api, started, "waitpoint_opened")
    if stage == "approval":
        return started
    if stage == "paused":
        await api.send(started, "hurry", by="golden", dedupe="once")
        await api.pause(started, by="golden", reason="lunch")
        return started
    await approve(api, started)
    await work(source, f"worker-{stage}", 1)
    await work(source, f"worker-{stage}", 1, answer=stage == "completed")
    await until(api, started, "completed" if stage == "completed" else "task_uncertain")
    return started


async def until(api: Api, execution: str, kind: str) -> None:
    """Return when the log holds an event of that kind."""
    async for event in api.follow(execution):
        if event.kind == kind:
            return


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    node = open_node(folder / "perdure.db", Catalog(scripted={"golden": script}))
    node.start()

    async def make() -> dict[str, str]:
        return {stage: await bring(node, stage) for stage in STAGES}

    made = asyncio.run(make())
    node.stop()
    (folder / "executions.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    for left in folder.glob("perdure.db-*"):
        left.unlink()
    (folder / "perdure.db.lock").unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
