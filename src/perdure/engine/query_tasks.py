"""Read an execution's tool calls."""

from __future__ import annotations

from perdure.core import states
from perdure.core.delivery import is_simulation, simulated_tool
from perdure.core.events import Event, Kind
from perdure.core.views import TaskView
from perdure.core.work import Failure
from perdure.engine.query import events_between, execution_row_of, shown
from perdure.store.protocol import Reads, Row

_ENDS = frozenset({Kind.TASK_COMPLETED, Kind.TASK_FAILED, Kind.TASK_UNCERTAIN, Kind.EFFECT_RULED})


def tasks_view(reads: Reads, company: str, execution: str) -> list[TaskView]:
    """Return all tool calls of an execution in the order they were scheduled. Raises `NotFound`."""
    row = execution_row_of(reads, company, execution)
    events = events_between(reads, execution, 0, row["next_seq"])
    scheduled = {event.address: event for event in events if event.kind is Kind.TASK_SCHEDULED}
    ended: dict[str, Event] = {}
    for event in events:
        if event.kind in _ENDS:
            ended[event.address] = event
        elif event.kind is Kind.TASK_REVIVED:
            ended.pop(event.address, None)
    tasks = reads.rows("tasks_of", shard=row["shard"], execution=execution)
    return [
        _task(task, scheduled[task["address"]], ended.get(task["address"]))
        for task in tasks
        if task["address"] in scheduled  # else it is a probe, which only finds out about another one
    ]


def _task(task: Row, scheduled: Event, ended: Event | None) -> TaskView:
    facts = ended.data if ended else {}
    return TaskView(
        execution=task["execution"],
        address=task["address"],
        tool=simulated_tool(task["tool"]),
        queue=task["queue"],
        state=task["state"],
        delivery=scheduled.data["delivery"],
        key=scheduled.data["key"],
        args=scheduled.data["args"],
        attempt=task["attempt"],
        max_attempts=task["max_attempts"],
        worker=task["worker"],
        scheduled_ms=scheduled.at_ms,
        started_ms=task["started_ms"],
        ended_ms=ended.at_ms if ended else None,
        value=facts.get("value"),
        failure=Failure(facts["code"], facts["error"]) if "error" in facts else None,
        progress=shown(task["progress"]),
        saved=shown(task["saved"]),
        run_at_ms=task["run_at_ms"] if task["state"] == states.Task.READY else None,
        simulated=is_simulation(task["tool"]) or bool(scheduled.data.get("simulated")),
    )
