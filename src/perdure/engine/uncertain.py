"""What follows when nobody knows whether an effect happened: when a ruling counts, who finds out, who was wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.core import states
from perdure.core.codec import Json
from perdure.core.costs import total
from perdure.core.delivery import NOT_DONE, Delivery, probe_address, probe_tool
from perdure.core.events import Kind
from perdure.core.ids import shard_of
from perdure.core.work import Answer, Report
from perdure.engine.change import RULE, set_task, tell, whose
from perdure.engine.stored import facts_of
from perdure.engine.task import rules_of
from perdure.store.protocol import Params, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

PROBE_TRIES = 10
PROBE_PAUSE_MS = 2_000
PROBE_TIMEOUT_MS = 60_000


def lose(tx: Tx, execution: ExecutionRow, task: Row, why: str, facts: dict[str, Any], *, silent: bool = False) -> None:
    """Admit that nobody knows what became of an attempt, and have its author's probe and policy see to it.

    `silent`: its holder said nothing, and may still act. Else it is through, and its lease ends here.
    """
    set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "lose"))
    tell(tx, execution, Kind.TASK_UNCERTAIN, task["address"], {**facts, "why": why})
    scope = {"shard": execution.shard, "execution": execution.id, "address": task["address"]}
    if not silent:
        tx.later("end_lease", **scope, now_ms=tx.now_ms)
        task = {**task, "lease_until_ms": tx.now_ms}
    rules = rules_of(task)
    if rules.rule_as:
        tx.run("set_deadline", **scope, kind=RULE, due_ms=tx.now_ms + rules.rule_by_ms)
    if rules.probe:
        tx.run("insert_probe", **_probe(execution, task, run_at_ms=max(settled_ms(task), tx.now_ms), now_ms=tx.now_ms))
        tx.announce("tasks", f"{execution.company}/{task['queue']}", after_ms=max(settled_ms(task) - tx.now_ms, 0))


def _probe(execution: ExecutionRow, task: Row, *, run_at_ms: int, now_ms: int) -> dict[str, Any]:
    return {
        "shard": execution.shard,
        "execution": execution.id,
        "address": probe_address(task["address"]),
        "company": execution.company,
        "agent": task["agent"],
        "tool": probe_tool(task["tool"]),
        "queue": task["queue"],
        "max_attempts": PROBE_TRIES,
        "pause_ms": PROBE_PAUSE_MS,
        "timeout_ms": PROBE_TIMEOUT_MS,
        "scheduled_seq": task["scheduled_seq"],
        "run_at_ms": run_at_ms,
        "ahead_ms": task["ahead_ms"],
        "limit_key": task["limit_key"],
        "now_ms": now_ms,
        "probe_of": task["address"],
    }


def settled_ms(task: Row) -> int:
    """Return from when on a ruling "it did not happen" counts: after `settle`, and when its holder beats no more."""
    rules = rules_of(task)
    settle_ms = task["timeout_ms"] + task["lease_ms"] if rules.settle_ms is None else rules.settle_ms
    since_ms = task["begun_ms"] or task["started_ms"] or 0
    return max(since_ms + settle_ms, task["lease_until_ms"] or 0)


def log_of(tx: Tx, execution: ExecutionRow, address: str) -> list[tuple[int, Kind, dict[str, Any]]]:
    """Return (seq, kind, data) of all that is recorded at an address, what this transaction appended included."""
    stored: Iterable[Row | Params] = tx.rows("told_at", shard=execution.shard, execution=execution.id, address=address)
    own = [event for event in tx.appended(execution.id, 0) if event["address"] == address]
    what = f"what is recorded at {address!r} of execution {execution.id}"
    return [(event["seq"], Kind(event["kind"]), facts_of(event["data"], what)) for event in [*stored, *own]]


def receipt_of(tx: Tx, execution: ExecutionRow, address: str) -> Json:
    """Return what a step that was done gave: its report's value, or the one it was ruled to have."""
    known = (Kind.TASK_COMPLETED, Kind.EFFECT_RULED)
    values = [data.get("value") for _, kind, data in log_of(tx, execution, address) if kind in known]
    return values[-1] if values else None


def serve_held(tx: Tx, execution: ExecutionRow, first: Row, value: Json) -> None:
    """An effect that had been uncertain was done: give its receipt to the equal calls that were held.

    Only to those scheduled after it had become uncertain: who asks again then asks for the same act. An equal call from
    before that is an act of its own, and runs.
    """
    if not first["doubt"] or not first["digest"]:
        return
    log = log_of(tx, execution, first["address"])
    unknown = min((seq for seq, kind, _ in log if kind is Kind.TASK_UNCERTAIN), default=None)
    if unknown is None:
        return
    names = {name: first[name] for name in ("shard", "execution", "tool", "digest", "address")}
    for held in tx.rows("twins_held", **names, after=unknown):
        serve(tx, execution, held, first["address"], value)


def serve(tx: Tx, execution: ExecutionRow, task: Row, first: str, value: Json) -> None:
    """Complete a task with the receipt of an equal one, at `first`. It does not run."""
    set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "complete"))
    tell(tx, execution, Kind.TASK_COMPLETED, task["address"], {**whose(task), "value": value, "served": first})


def contradict(tx: Tx, execution: ExecutionRow, task: Row, report: Report) -> Answer:
    """Keep what a holder says against what was recorded meanwhile. It is never applied; the same again is kept once."""
    if task["delivery"] == Delivery.REPEATABLE:
        return Answer.CONFLICT
    log = log_of(tx, execution, report.address)
    claims = [data for _, kind, data in log if kind is Kind.TASK_BEGUN and data.get("fence") == report.fence]
    if report.fence != task["fence"] and not claims:
        return Answer.LEASE_LOST  # it never began: what it did was repeatable, or is tried again with the same key
    if not _against(report, log, of_old=report.fence != task["fence"]):
        return Answer.CONFLICT
    said = [data for _, kind, data in log if kind is Kind.EFFECT_CONTRADICTED]
    if all(data["fence"] != report.fence for data in said):
        claim = claims[-1] if claims else whose(task)
        facts = {"claim": claim.get("claim", 0), "worker": claim["worker"], "fence": report.fence}
        error = report.failure.message if report.failure else ""
        what: dict[str, Any] = {"value": report.value} if report.outcome == "completed" else {"error": error}
        if report.cost:
            what["cost"] = total([report.cost])
        tell(tx, execution, Kind.EFFECT_CONTRADICTED, report.address, {**facts, **what})
    return Answer.CONFLICT


def _against(report: Report, log: list[tuple[int, Kind, dict[str, Any]]], *, of_old: bool) -> bool:
    """Say whether a report is evidence against what stands: it happened after all, or it did not."""
    if report.outcome == "completed":
        return True
    if of_old or report.failure is None or report.failure.code != NOT_DONE:
        return False  # it does not know itself
    return any(kind is Kind.EFFECT_RULED and data["ruling"] == "happened" for _, kind, data in log)


def other_claim(tx: Tx, company: str, report: Report) -> Answer:
    """Answer a report under a fence that is not the task's any more."""
    execution = tx.execution(report.execution)
    if execution is None or execution.company != company:
        return Answer.LEASE_LOST
    task = tx.row("task", shard=shard_of(report.execution), execution=report.execution, address=report.address)
    if task is None or task["claims"] == 0 or report.fence >= task["fence"] or report.outcome != "completed":
        return Answer.LEASE_LOST
    return contradict(tx, execution, task, report)
