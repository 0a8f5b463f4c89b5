"""What the doctor says of an execution's tool calls: who runs them, what they wait for, what nobody knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.core import states
from perdure.core.delivery import UNKEPT
from perdure.core.events import Event, Kind
from perdure.core.queues import QueueView
from perdure.core.spoken import moment, span
from perdure.core.views import Finding
from perdure.core.work import SERVER_QUEUE, Lane, WorkerInfo
from perdure.engine.query import held_by, progress_of
from perdure.engine.queues import queue_views
from perdure.engine.task import rules_of
from perdure.engine.uncertain import settled_ms
from perdure.store.protocol import Reads, Row

MOST_DEAD = 5
"""Calls that failed for good and are named: the newest."""
POISON = UNKEPT | {"invalid_arguments", "unknown_tool"}
"""Codes of failures that no retry can change: the call itself, or what it gave, cannot be read or stored."""


def task_findings(
    reads: Reads, row: Row, events: Sequence[Event], workers: Sequence[WorkerInfo], now_ms: int
) -> list[Finding]:
    """Return a finding for each call that is not done, and for the newest that failed for good."""
    scope = {"shard": row["shard"], "execution": row["id"]}
    tasks = reads.rows("open_tasks_of", **scope)
    live = [task for task in tasks if task["state"] not in states.TASK_ENDED and task["probe_of"] is None]
    probes = {task["probe_of"]: task for task in tasks if task["probe_of"] is not None}
    found: list[Finding] = []
    for task in live:
        match task["state"]:
            case states.Task.UNCERTAIN:
                found.append(_uncertain(task, probes.get(task["address"]), now_ms))
            case states.Task.READY:
                found.append(_ready(reads, task, tasks, events, workers, now_ms))
            case _:
                found.append(_held(task, workers, now_ms))
    dead = reads.rows("dead_tasks_of", **scope, limit=MOST_DEAD)
    return [*found, *_dead(row, dead[::-1], events)]


def _uncertain(task: Row, probe: Row | None, now_ms: int) -> Finding:
    since = f"since {moment(task['updated_ms'])} ({span(now_ms - task['updated_ms'])})"
    what = f"nobody knows what became of {task['tool']} at {task['address']!r}, {since}: it had begun."
    if (settled := settled_ms(task)) > now_ms:
        what += f" That it did not happen can be said from {moment(settled)} on."
    if probe is not None and probe["state"] not in states.TASK_ENDED:
        what += " Its author's probe is to find out."
    rules = rules_of(task)
    if rules.rule_as:
        what += f" If nobody rules by {moment(task['updated_ms'] + rules.rule_by_ms)}, it counts as {rules.rule_as}."
    command = f"perdure effects rule {task['execution']} '{task['address']}' happened|run|give-up"
    return Finding("problem", what, command)


def _ready(
    reads: Reads,
    task: Row,
    tasks: Sequence[Row],
    events: Sequence[Event],
    workers: Sequence[WorkerInfo],
    now_ms: int,
) -> Finding:
    if task["run_at_ms"] > now_ms:
        last = next((e for e in reversed(events) if e.address == task["address"] and "error" in e.data), None)
        why = f" The last one: {last.data['error']:.200}" if last else ""
        when = f"{moment(task['run_at_ms'])} (in {span(task['run_at_ms'] - now_ms)})"
        what = (
            f"{task['tool']} is tried again at {when}, for the {task['attempt'] + 1}. of {task['max_attempts']} times."
        )
        return Finding("note", what + why)
    twin = held_by(task, tasks)
    if twin is not None:
        what = f"{task['tool']} at {task['address']!r} waits until it is known what becomes of the equal call"
        return Finding("note", f"{what} at {twin['address']!r}.")
    since = f"since {moment(task['run_at_ms'])} ({span(now_ms - task['run_at_ms'])})"
    [queue] = queue_views(reads, task["company"], now_ms, task["queue"])
    if queue.paused:
        what = f"{task['tool']} waits {since}: queue {queue.name} is paused, by {queue.changed_by}."
        return Finding("problem", what, f"perdure queues resume {queue.name}")
    missing = _missing(task, workers)
    if missing is not None:
        return Finding("problem", f"{task['tool']} waits {since}, and {missing}.", "perdure worker MODULE:AGENT")
    what = f"{task['tool']} waits for a free slot on queue {queue.name}, {since}{_limits_of(queue, task)}."
    return Finding("note", what)


def _limits_of(queue: QueueView, task: Row) -> str:
    """Say what may hold a task back even if workers are free."""
    most = "" if queue.concurrency is None else f", {queue.leased} of {queue.concurrency} that may be are under way"
    if task["limit_key"] and queue.per_key is not None:
        most += f", at most {queue.per_key} of key {task['limit_key']} at once"
    return most if queue.rate is None else f"{most}, at most {queue.rate} come in {queue.per_seconds:g} s"


def _missing(task: Row, workers: Sequence[WorkerInfo]) -> str | None:
    """Say what no connected worker serves; None if one serves this."""
    if task["queue"] == SERVER_QUEUE:
        return None  # every server serves it
    lanes = {lane for worker in workers for lane in worker.lanes}
    wanted = Lane(task["agent"], task["tool"], task["queue"])
    if wanted in lanes:
        return None
    if not workers:
        return f"no worker is connected here: it is for queue {task['queue']}"
    elsewhere = sorted(lane.queue for lane in lanes if (lane.agent, lane.tool) == (wanted.agent, wanted.tool))
    if elsewhere:
        return f"no worker connected here serves queue {task['queue']}: the tool is served on {', '.join(elsewhere)}"
    if any(lane.agent == wanted.agent for lane in lanes):
        return f"no worker connected here serves tool {wanted.tool} of {wanted.agent}: they serve others of its tools"
    return f"no worker connected here serves the tools of {wanted.agent} on queue {task['queue']}"


def _held(task: Row, workers: Sequence[WorkerInfo], now_ms: int) -> Finding:
    worker = task["worker"]
    since = f"since {moment(task['started_ms'])} ({span(now_ms - task['started_ms'])})"
    tries = f"try {task['attempt']} of {max(task['max_attempts'], task['attempt'])}"
    lease = f"lease until {moment(task['lease_until_ms'])}"
    what = f"worker {worker} runs {task['tool']} {since}, {tries}, {lease}{progress_of(task)}."
    if any(one.worker == worker for one in workers):
        return Finding("ok", what)
    begun = task["state"] == states.Task.BEGUN
    then = "it is uncertain whether it acted" if begun else "it is tried again"
    return Finding("note", f"{what} That worker is not connected here; if nothing is heard of it by then, {then}.")


def _dead(row: Row, dead: Sequence[Row], events: Sequence[Event]) -> Iterator[Finding]:
    failed = {event.address: event.data for event in events if event.kind is Kind.TASK_FAILED}
    for task in dead:
        if task["address"] not in failed:  # ruled on
            continue
        said = failed[task["address"]]
        poison = " (poison: no retry can change it)" if said["code"] in POISON else ""
        what = f"{task['tool']} at {task['address']!r} has failed for good{poison}: {said['error']:.300}"
        again = None if row["lane"] else f"perdure tasks retry {row['id']} '{task['address']}'"
        yield Finding("note", what, None if poison else again)
