"""Read an execution's tool calls."""

from __future__ import annotations

from perdure.core import states
from perdure.core.delivery import is_simulation, simulated_tool
from perdure.core.events import Event, Kind
from perdure.core.views import TaskView
from perdure.core.work import Failure
from perdure.engine.query import events_of, execution_row_of, shown
from perdure.engine.stored import value_of
from perdure.store.protocol import Reads, Row
from perdure.store.sql_store import names

MOST_TASKS = 1_000
"""In one answer."""


def tasks_view(
    reads: Reads, company: str, execution: str, *, after: int = 0, limit: int = MOST_TASKS, address: str = ""
) -> list[TaskView]:
    """Return tool calls of an execution that were asked for behind an event, in that order. Raises `NotFound`."""
    row = execution_row_of(reads, company, execution)
    scope = {"shard": row["shard"], "execution": execution, "after": after}
    tasks = reads.rows("tasks_page", **scope, limit=limit, address=address)
    wanted = names("ends_of_tasks", {task["address"]: 1 for task in tasks})
    ended: dict[str, Event] = {}
    for event in events_of(reads.rows("ends_of_tasks", **scope, wanted=wanted)) if tasks else ():
        if event.kind is Kind.TASK_REVIVED:
            ended.pop(event.address, None)
        else:
            ended[event.address] = event
    return [_task(task, ended.get(task["address"])) for task in tasks]


def _task(task: Row, ended: Event | None) -> TaskView:
    asked = value_of(task["data"], f"the call at {task['address']!r} of execution {task['execution']}")
    facts = ended.data if ended else {}
    return TaskView(
        execution=task["execution"],
        address=task["address"],
        tool=simulated_tool(task["tool"]),
        queue=task["queue"],
        state=task["state"],
        delivery=asked["delivery"],
        key=asked["key"],
        args=asked["args"],
        attempt=task["attempt"],
        max_attempts=task["max_attempts"],
        worker=task["worker"],
        scheduled_ms=task["at_ms"],
        started_ms=task["started_ms"],
        ended_ms=ended.at_ms if ended else None,
        value=facts.get("value"),
        failure=Failure(facts["code"], facts["error"]) if "error" in facts else None,
        progress=shown(task["progress"]),
        saved=shown(task["saved"]),
        run_at_ms=task["run_at_ms"] if task["state"] == states.Task.READY else None,
        simulated=is_simulation(task["tool"]) or bool(asked.get("simulated")),
        scheduled_seq=task["scheduled_seq"],
    )
