"""Open an approval, and see that what is scheduled is what was approved. What people decide is taken in resolve.py."""

from __future__ import annotations

from typing import Any

from perdure.core import codec
from perdure.core.approval import DEFAULT_APPROVAL, approval_to_json, approval_to_text
from perdure.core.delivery import Delivery
from perdure.core.events import Kind
from perdure.core.items import OpenApproval, ScheduleTask
from perdure.engine.stored import facts_of
from perdure.store.protocol import Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

NOT_APPROVED = "not_approved"
"""Code of the failure of a call that nobody approved."""
ESCALATION = "escalation"
"""Kind of the deadline at which others may decide, too."""


def call_digest(tool: str, args: dict[str, Any], address: str) -> str:
    """Return what an approval is bound to: this tool, with these arguments, at this step."""
    return codec.digest(tool, args, address)


def open_approval(tx: Tx, row: ExecutionRow, item: OpenApproval) -> None:
    """Open the wait, with the moment at which it expires, if it does."""
    expires_ms = tx.now_ms + item.rules.expires_ms if item.rules.expires_ms else None
    facts: dict[str, Any] = {"id": item.id, "kind": "approval", "tool": item.tool, "args": item.args}
    if item.rules != DEFAULT_APPROVAL:
        facts |= {"rules": approval_to_json(item.rules), "expires_ms": expires_ms}
    seq = tx.append(row, Kind.WAIT_OPENED, item.address, item.digest, facts)
    scope = {"shard": row.shard, "execution": row.id, "address": item.address}
    tx.run(
        "insert_approval",
        **scope,
        id=item.id,
        company=row.company,
        digest=call_digest(item.tool, item.args, item.address),
        opened_seq=seq,
        now_ms=tx.now_ms,
        rules=approval_to_text(item.rules),
        expires_ms=expires_ms,
    )
    if expires_ms is not None:
        tx.run("set_expiry", **scope, due_ms=expires_ms)
    if item.rules.escalate_ms:
        tx.run("set_deadline", **scope, kind=ESCALATION, due_ms=tx.now_ms + item.rules.escalate_ms)


def may_schedule(tx: Tx, row: ExecutionRow, item: ScheduleTask) -> bool:
    """Say whether a call may be made: it needs no approval, or is just what was approved and not made before.

    Uses the approval up, except for `at_most_once`, where `may_begin` does.
    """
    if item.approval is None or item.delivery == Delivery.AT_MOST_ONCE:
        return True
    return _consume(tx, row, item.approval, call_digest(item.tool, item.args, item.approval))


def may_begin(tx: Tx, row: ExecutionRow, task: Row) -> bool:
    """Say whether a body may start as far as approvals go, and use its approval up. A ruling to run needs no second."""
    if task["approval"] is None or task["claims"]:
        return True
    scope = {"shard": row.shard, "execution": row.id}
    [asked] = tx.rows("events_after", **scope, after=task["scheduled_seq"] - 1, limit=1)
    args = facts_of(asked["data"], f"the call at {task['address']!r} of execution {row.id}")["args"]
    return _consume(tx, row, task["approval"], call_digest(task["tool"], args, task["approval"]))


def refuse_call(tx: Tx, row: ExecutionRow, item: ScheduleTask) -> None:
    """Answer the code that schedules what nobody approved: the call has failed, and was not made."""
    error = f"the call of {item.tool} is not what was approved at {item.approval!r}, or that approval was used before"
    facts = {"attempt": 0, "worker": None, "started_ms": None, "error": error, "code": NOT_APPROVED}
    tx.append(row, Kind.TASK_FAILED, item.address, data=facts)


def _consume(tx: Tx, row: ExecutionRow, address: str, digest: str) -> bool:
    """Use an approval up. It authorises one effect, once: False if this was not approved, or was done before."""
    given = {"shard": row.shard, "execution": row.id, "address": address, "digest": digest}
    return bool(tx.run("consume_approval", **given, now_ms=tx.now_ms))
