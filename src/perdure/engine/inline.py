"""`at_most_once` steps that the holder of an execution runs itself: claimed and ended through its log.

The claim is a task's row like any other, on no queue, so everything that is known of uncertain effects holds for it. It
has no lease of its own: its holder lives as long as it holds the execution, and whoever holds that next says it lost.
"""

from __future__ import annotations

from perdure.core import codec, states
from perdure.core.events import Kind
from perdure.core.items import BeginStep, EndStep
from perdure.core.work import LEASE_MS, Failure, Report
from perdure.engine.complete import LEASE_EXPIRED, Completion, fail_attempt, settle
from perdure.engine.forked import hold, permitted
from perdure.engine.inline_task import inline_facts, inline_task
from perdure.engine.uncertain import log_of, other_claim
from perdure.store.protocol import Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


def begin_step(tx: Tx, row: ExecutionRow, item: BeginStep, *, wanted: bool) -> None:
    """Schedule and claim the step, or claim it once more where a ruling says so. Not `wanted`: it is not begun."""
    task = tx.row("task", shard=row.shard, execution=row.id, address=item.address)
    if wanted and row.origin and not permitted(tx, row, item.address):
        hold(tx, row, item.name, item.address)
        return
    if task is None:
        task = _schedule(tx, row, item, wanted=wanted)
    if not wanted or task["state"] != states.Task.READY:
        return
    scope = {"shard": row.shard, "execution": row.id, "address": item.address}
    tx.run("claim_inline", **scope, worker=_holder(row), nonce=item.nonce, lease_ms=LEASE_MS, now_ms=tx.now_ms)
    claim = task["claims"] + 1
    facts = {"claim": claim, "worker": _holder(row), "attempt": claim, "fence": task["fence"] + 1, "nonce": item.nonce}
    tx.append(row, Kind.TASK_BEGUN, item.address, data=facts)


def end_step(tx: Tx, row: ExecutionRow, item: EndStep, *, holds: bool) -> None:
    """Take how a claim ended, from whoever made it; that it is lost, only from who holds the execution now.

    What is said of a claim after which a ruling let the step run again is kept as evidence, and never applied.
    """
    task = tx.row("task", shard=row.shard, execution=row.id, address=item.address)
    if task is None:
        return
    if item.outcome == "lost":
        if holds and task["state"] == states.Task.BEGUN:
            fail_attempt(tx, row, task, Failure(LEASE_EXPIRED, "whoever ran it is gone, and told nobody how it ended"))
    elif task["begin_nonce"] == item.nonce and task["state"] != states.Task.READY:
        settle(tx, Completion(row.company, _report(item, row.id, task["fence"])), row, task)
    elif (fence := _fence_of(tx, row, item)) is not None:
        other_claim(tx, row.company, _report(item, row.id, fence))


def leave_claims(tx: Tx, row: ExecutionRow) -> None:
    """Lose the claims that are open when a holder ends its execution: it runs none of their bodies any more, and nobody
    will hold the execution after it."""
    for task in tx.rows("inline_claims", shard=row.shard, execution=row.id):
        fail_attempt(tx, row, task, Failure(LEASE_EXPIRED, "its execution was ended before anybody said how it ended"))


def _schedule(tx: Tx, row: ExecutionRow, item: BeginStep, *, wanted: bool) -> Row:
    facts = inline_facts(row, item, item.timeout_ms)
    seq = tx.append(row, Kind.TASK_SCHEDULED, item.address, item.digest, facts)
    state = states.Task.READY if wanted else states.Task.DEAD
    task = inline_task(row, item, facts, seq, state, tx.now_ms, item.rules)
    tx.run("insert_task", **task)
    return {**task, "claims": 0, "fence": 0}


def _fence_of(tx: Tx, row: ExecutionRow, item: EndStep) -> int | None:
    """Return the fence of the claim that has this nonce. None: nobody made it."""
    claims = [data for _, kind, data in log_of(tx, row, item.address) if kind is Kind.TASK_BEGUN]
    return next((data["fence"] for data in claims if data.get("nonce") == item.nonce), None)


def _report(item: EndStep, execution: str, fence: int) -> Report:
    outcome = "failed" if item.outcome == "lost" else item.outcome
    value = codec.decode(item.value)
    return Report(execution, item.address, fence, outcome, value=value, failure=item.failure)


def _holder(row: ExecutionRow) -> str:
    """Say who runs it, for people: which claim of the execution it was under."""
    return f"{row.id}/{row.fence}"
