"""Take people's decisions about an approval: once, on what was shown, by those who may, with who and why.

Approve, reject, edit, answer, expiry and cancel exclude each other: the first counts, and the others are told of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from perdure.core import codec, states
from perdure.core.approval import ApprovalRules, enough, refusal_of
from perdure.core.codec import Json
from perdure.core.events import Kind
from perdure.core.ids import shard_of
from perdure.core.views import Decision
from perdure.engine.approvals import ESCALATION, call_digest
from perdure.engine.stored import facts_of, rules_of_approval, value_of
from perdure.engine.wake import wake
from perdure.errors import Conflict, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

EXPIRED = states.Waitpoint.EXPIRED.value
"""The decision of an approval that nobody gave in time."""
MOST_PARENTS = 50
"""How far up a child's line of parents is looked for who started it."""
NOBODY = "perdure"
"""Who decides then."""


@dataclass(frozen=True, slots=True)
class Decide:
    """Somebody's answer."""

    company: str
    approval: str
    decision: Decision
    by: str
    reason: str
    digest: str | None = None
    """Of the call that they were shown; None says nothing about it."""
    args: dict[str, Json] | None = None
    """With `edit`: what to call the tool with."""
    answer: str | None = None
    """With `respond`: what the model reads in the tool's place."""

    @property
    def size(self) -> int:
        return len(self.answer or "") + (len(codec.encode(self.args)) if self.args is not None else 0)


@dataclass(frozen=True, slots=True)
class Decided:
    """The answer is taken; the call is decided, unless more people must agree."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Point:
    """An approval while its execution is locked."""

    execution: ExecutionRow
    row: Row
    rules: ApprovalRules

    @property
    def scope(self) -> dict[str, Any]:
        """Name it in statements."""
        return {name: self.row[name] for name in ("shard", "execution", "address")}


def _keys(row: Decide) -> tuple[str, ...]:
    return (f"approval/{row.approval}",)


@operation(keys=_keys)
def decide(tx: Tx, rows: Sequence[Decide]) -> Steps[Decided | Conflict | NotFound]:
    """Resolve the waitpoint and wake the execution. The loser of a race gets a `Conflict` that names the winner."""
    found = [tx.row("waitpoint_by_id", id=row.approval, company=row.company) for row in rows]
    yield [Ref(one["shard"], one["execution"]) for one in found if one]
    return [_decide(tx, row, one) for row, one in zip(rows, found, strict=True)]


def _decide(tx: Tx, row: Decide, found: Row | None) -> Decided | Conflict | NotFound:
    point = point_of(tx, found)
    if point is None:
        return no_approval(row.approval)
    if point.row["state"] == states.Waitpoint.OPEN and (point.row["expires_ms"] or tx.now_ms + 1) <= tx.now_ms:
        point = expire(tx, point)  # the clock decides, not when it was swept
    refusal = _over(tx, row, point) or _whole(row, point) or _changed(tx, row, point) or _not_theirs(tx, row, point)
    if isinstance(refusal, Conflict):
        return refusal
    if refusal is None:
        _take(tx, row, point)
    return Decided(point.execution.ref)


def no_approval(approval: str) -> NotFound:
    """Say that there is none of that id."""
    return NotFound(f"there is no approval {approval}. `perdure approvals list` shows the open ones.")


def point_of(tx: Tx, found: Row | None) -> Point | None:
    """Read the approval again: now it is locked."""
    if found is None:
        return None
    execution = tx.execution(found["execution"])
    row = tx.row("waitpoint", **{name: found[name] for name in ("shard", "execution", "address")})
    return Point(execution, row, rules_of_approval(row)) if execution is not None and row else None


def _take(tx: Tx, row: Decide, point: Point) -> None:
    """Count an answer that may be given, and end the wait if it is enough."""
    alone = point.rules.quorum == 1
    match row.decision:
        case "reject":
            _resolve(tx, point, "reject", row.by, row.reason)
        case "respond":
            _resolve(tx, point, "respond", row.by, row.reason, {"answer": row.answer})
        case "edit" if alone:
            _resolve(tx, point, "edit", row.by, row.reason, _edited(tx, point, row.args))
        case "approve" if alone:
            _resolve(tx, point, "approve", row.by, row.reason)
        case _:
            _vote(tx, row, point)


def _vote(tx: Tx, row: Decide, point: Point) -> None:
    """Count one of several. Whoever edits asks the others anew, on other arguments; not where they stand so already."""
    facts: dict[str, Any] = {"id": row.approval, "decision": row.decision, "by": row.by, "reason": row.reason}
    proposed = point.row["value"]
    if row.decision == "edit":
        edited = _edited(tx, point, row.args)
        facts |= edited
        if edited["digest"] != point.row["digest"]:
            tx.run("propose_approval", **point.scope, digest=edited["digest"], value=codec.encode(row.args))
            tx.run("delete_votes", **point.scope)
    if not tx.run("insert_vote", **point.scope, voter=row.by, decision="approve", reason=row.reason, now_ms=tx.now_ms):
        return  # said before; the answer was lost
    approved = [vote["voter"] for vote in tx.rows("votes_on", **point.scope)]
    if not enough(point.rules, approved):
        counted = {"approved": len(approved), "quorum": point.rules.quorum}
        tx.append(point.execution, Kind.APPROVAL_VOTED, point.row["address"], data={**facts, **counted})
    elif proposed is None:
        _resolve(tx, point, "approve", ", ".join(approved), row.reason)
    else:
        more = _edited(tx, point, value_of(proposed, f"approval {row.approval}"))
        _resolve(tx, point, "edit", ", ".join(approved), row.reason, more)


def _edited(tx: Tx, point: Point, args: dict[str, Json] | None) -> dict[str, Any]:
    """Return what the log keeps of other arguments. Their tool is the one that was asked for."""
    scope = {"shard": point.row["shard"], "execution": point.row["execution"]}
    [asked] = tx.rows("events_after", **scope, after=point.row["opened_seq"] - 1, limit=1)
    tool = facts_of(asked["data"], f"what approval {point.row['id']} is about")["tool"]
    return {"args": args or {}, "digest": call_digest(tool, args or {}, point.row["address"])}


def _resolve(tx: Tx, point: Point, decision: str, by: str, reason: str, more: dict[str, Any] | None = None) -> None:
    """Write the decision down and let the execution go on."""
    event = "expire" if decision == EXPIRED else "resolve"
    given = more or {}
    kept = given.get("args", given.get("answer"))
    tx.run(
        "decide_approval",
        **point.scope,
        state=states.move(states.WAITPOINT_TABLE, point.row["state"], event),
        decision=decision,
        by=by,
        reason=reason,
        now_ms=tx.now_ms,
        digest=given.get("digest", point.row["digest"]),
        value=point.row["value"] if kept is None else codec.encode(kept),
    )
    if point.row["expires_ms"] is not None:
        tx.run("delete_expiry", **point.scope)
    if point.rules.escalate_ms:
        tx.run("delete_deadline", **point.scope, kind=ESCALATION)
    facts = {"id": point.row["id"], "decision": decision, "by": by, "reason": reason, **given}
    tx.append(point.execution, Kind.WAIT_RESOLVED, point.row["address"], data=facts)
    wake(tx, point.execution)


def expire(tx: Tx, point: Point) -> Point:
    """End an open approval that nobody gave in time, and return it as it is then."""
    seconds = point.rules.expires_ms / 1000
    _resolve(tx, point, EXPIRED, NOBODY, f"nobody decided within {seconds:g} s")
    changed = {"state": states.Waitpoint.EXPIRED, "decision": EXPIRED, "decided_by": NOBODY}
    return replace(point, row={**point.row, **changed})


def _over(tx: Tx, row: Decide, point: Point) -> Conflict | Decided | None:
    """Say who was first, if somebody was. The same answer by the same person again changes nothing and is no error."""
    state, execution = point.row["state"], point.execution
    if state == states.Waitpoint.EXPIRED:
        return Conflict(
            f"approval {row.approval} expired before this: {point.rules.expires_ms / 1000:g} s had passed, and the "
            "call was not made. The model was told.",
            code="approval_expired",
            decision=EXPIRED,
            decided_by=NOBODY,
        )
    if state == states.Waitpoint.RESOLVED:
        return Decided(execution.ref) if _same(tx, row, point) else _already(row, point)
    if state == states.Waitpoint.OPEN and not execution.ended and execution.state != states.Execution.CANCELLING:
        return None
    by = _canceller(tx, execution)
    who = "" if by is None else f", cancelled by {by or 'somebody'}"
    return Conflict(
        f"approval {row.approval} is not waited for any more: its execution {execution.id} is {execution.state}{who}.",
        code="not_waiting",
        state=execution.state,
        decided_by=by,
    )


def _canceller(tx: Tx, execution: ExecutionRow) -> str | None:
    """Return who cancelled an execution, this very batch included; None if nobody did."""
    own = [event["data"] for event in tx.appended(execution.id, 0) if event["kind"] == Kind.CANCEL_REQUESTED]
    stored = tx.row("cancel_of", shard=execution.shard, execution=execution.id)
    said = [stored["data"]] if stored else own[:1]
    return str(facts_of(said[0], f"who cancelled execution {execution.id}")["by"]) if said else None


def _same(tx: Tx, row: Decide, point: Point) -> bool:
    if point.rules.quorum > 1 and row.decision in ("approve", "edit"):
        voters = [vote["voter"] for vote in tx.rows("votes_on", **point.scope)]
        return point.row["decision"] in ("approve", "edit") and row.by in voters
    said: Json = row.args if row.decision == "edit" else row.answer if row.decision == "respond" else None
    kept = point.row["value"]
    return (point.row["decision"], point.row["decided_by"], point.row["reason"]) == (
        row.decision,
        row.by,
        row.reason,
    ) and (said is None or codec.digest(said) == codec.digest(value_of(kept, f"approval {row.approval}")))


def _already(row: Decide, point: Point) -> Conflict:
    return Conflict(
        f"approval {row.approval} was already decided: {point.row['decision']} by "
        f"{point.row['decided_by'] or 'somebody'}. A decision is final; start a new execution to ask again.",
        code="already_decided",
        decision=point.row["decision"],
        decided_by=point.row["decided_by"],
    )


def _whole(row: Decide, point: Point) -> Conflict | None:
    """Refuse to change an act in a room: it is done as it was declared, or not at all."""
    if not point.row["name"] or row.decision in ("approve", "reject"):
        return None
    return Conflict(
        f"approval {row.approval} is about an act in a room, which is done as it was declared or not at all: approve "
        "or reject it.",
        code="not_editable",
    )


def _changed(tx: Tx, row: Decide, point: Point) -> Conflict | None:
    """Refuse an answer to another call than the one that stands here now. An edit that makes it that one is none."""
    proposed = point.row["value"] is not None and row.decision == "approve"
    if row.digest == point.row["digest"] or (row.digest is None and not proposed):
        return None
    if row.decision == "edit" and _edited(tx, point, row.args)["digest"] == point.row["digest"]:
        return None  # said before; the answer was lost
    return Conflict(
        f"approval {row.approval}: the call was changed since it was shown to you. Look again, and decide on what it "
        "is now.",
        code="approval_changed",
        digest=point.row["digest"],
    )


def _not_theirs(tx: Tx, row: Decide, point: Point) -> Conflict | None:
    starters = _starters(tx, point.execution.id) if point.rules.not_by_starter else set[str]()
    refusal = refusal_of(point.rules, row.by, starters, tx.now_ms - point.row["opened_ms"])
    return refusal and Conflict(f"approval {row.approval}: {refusal.why}.", code=refusal.code)


def _starters(tx: Tx, execution: str) -> set[str]:
    """Return who started or forked an execution, and those that it is a child of."""
    found: set[str] = set()
    for _ in range(MOST_PARENTS):
        shard = shard_of(execution)
        events = tx.rows("starters_of", shard=shard, execution=execution)
        said = [facts_of(event["data"], f"who began execution {execution}") for event in events]
        found |= {str(one["by"]) for one in said if one.get("by")}
        parents = tx.named("parents_of", {execution: shard})
        if not parents or parents[0]["parent"] is None:
            break
        execution = parents[0]["parent"]
    return found
