"""Read an execution's tool calls, and say why an execution does not move."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core import states
from perdure.core.events import Event, Kind
from perdure.core.views import Finding, TaskView
from perdure.core.work import Failure, WorkerInfo
from perdure.engine.query import approvals_of, events_between, execution_row_of, execution_view, shown
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
        tool=task["tool"],
        queue=task["queue"],
        state=task["state"],
        delivery=task["delivery"],
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
    )


def diagnose(reads: Reads, company: str, execution: str, workers: Sequence[WorkerInfo]) -> list[Finding]:
    """Say why an execution does not move, what it waits for since when, and which command helps. Raises `NotFound`."""
    view = execution_view(reads, company, execution)
    row = execution_row_of(reads, company, execution)
    if view.state in states.TERMINAL:
        return [Finding("ok", f"it has {view.state}.", f"perdure executions show {execution}")]
    if view.state == states.Execution.PAUSED:
        what = f"it is paused ({view.reason}): {view.message or 'somebody paused it'}"
        return [Finding("problem", what, f"perdure executions resume {execution}")]
    if view.state == states.Execution.STUCK:
        return [Finding("problem", view.message or "it is stuck", f"perdure executions cancel {execution}")]
    findings = [
        _approval_finding(one.id, one.tool)
        for one in approvals_of(reads, company, execution=execution, state=states.Waitpoint.OPEN)
    ]
    findings += [
        _task_finding(task, workers)
        for task in reads.rows("tasks_of", shard=row["shard"], execution=execution)
        if task["state"] not in states.TASK_ENDED
    ]
    owner = reads.row("owner_of", shard=row["shard"], execution=execution)
    if owner is not None:
        findings.append(Finding("ok", f"server {owner['holder']} runs it, under fence {owner['fence']}."))
    elif not findings:
        findings.append(Finding("note", f"it is {view.state} and waits for a server to claim it."))
    return findings


def _approval_finding(approval: str, tool: str) -> Finding:
    return Finding(
        "problem", f"a call of {tool} waits for a person's decision.", f"perdure approvals approve {approval}"
    )


def _task_finding(task: Row, workers: Sequence[WorkerInfo]) -> Finding:
    lane = (task["agent"], task["tool"], task["queue"])
    match task["state"]:
        case states.Task.UNCERTAIN:
            return Finding(
                "problem",
                f"nobody knows what became of {task['tool']} at {task['address']!r}: it had begun.",
                f"perdure effects rule {task['execution']} '{task['address']}' happened|run|give_up",
            )
        case states.Task.READY if not any((one.agent, one.tool, one.queue) == lane for w in workers for one in w.lanes):
            return Finding(
                "problem",
                f"{task['tool']} waits on queue {task['queue']}, and no worker connected here serves it.",
                "perdure worker MODULE:AGENT",
            )
        case states.Task.READY:
            return Finding(
                "note", f"{task['tool']} waits on queue {task['queue']} for a free slot, or for its retry pause."
            )
        case _:
            return Finding("ok", f"worker {task['worker']} runs {task['tool']}, attempt {task['attempt']}.")
