"""Waits that the holder of a secret ends: opened by an execution's code, completed or failed from anywhere, once."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from perdure.core import codec, states
from perdure.core.events import Kind
from perdure.core.items import OpenToken
from perdure.engine.due import Pick, Sweep, due, orphaned
from perdure.engine.stored import value_of
from perdure.engine.wake import wake
from perdure.errors import Conflict, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

EXPIRY = "token"
"""Kind of the deadline at which a token expires."""
EXPIRING = Pick("deadlines_due", {"kind": EXPIRY})


@dataclass(frozen=True, slots=True)
class EndToken:
    """Somebody's answer to a wait. Exactly one of `hash` and `id` says which."""

    decision: Literal["complete", "fail"]
    hash: str = ""
    """Of the secret. Whoever has that needs no other right, so no company is asked for."""
    id: str = ""
    """The wait's own name, for people of its `company`."""
    company: str = ""
    value: str = "null"
    """JSON text."""
    error: str = ""
    by: str = ""

    @property
    def size(self) -> int:
        return len(self.error) + len(self.value)


@dataclass(frozen=True, slots=True)
class TokenEnded:
    """The answer stands."""

    ref: Ref
    first: bool
    """False if the same answer stood already."""


def open_token(tx: Tx, row: ExecutionRow, item: OpenToken) -> None:
    """Open the wait, with its deadline. The event says how to find the secret, and does not hold it."""
    expires_ms = None if item.timeout_ms is None else tx.now_ms + item.timeout_ms
    facts: dict[str, Any] = {
        "id": item.id,
        "kind": "token",
        "name": item.name,
        "base": item.base,
        "expires_ms": expires_ms,
    }
    seq = tx.append(row, Kind.WAIT_OPENED, item.address, item.digest, facts)
    scope = {"shard": row.shard, "execution": row.id, "address": item.address}
    tx.run(
        "insert_token",
        **scope,
        id=item.id,
        company=row.company,
        digest=item.digest,
        opened_seq=seq,
        now_ms=tx.now_ms,
        name=item.name,
        token=item.hash,
        expires_ms=expires_ms,
    )
    if expires_ms is not None:
        tx.run("set_deadline", **scope, kind=EXPIRY, due_ms=expires_ms)


def _keys(row: EndToken) -> tuple[str, ...]:
    return (f"token/{row.hash or row.id}",)


@operation(keys=_keys)
def end_token(tx: Tx, rows: Sequence[EndToken]) -> Steps[TokenEnded | Conflict | NotFound]:
    """End the wait and wake its execution. First write wins; the same answer again changes nothing and is accepted."""
    found = [_find(tx, row) for row in rows]
    yield [Ref(one["shard"], one["execution"]) for one in found if one]
    return [_end(tx, row, one) for row, one in zip(rows, found, strict=True)]


def _find(tx: Tx, row: EndToken) -> Row | None:
    if not row.hash:
        return tx.row("token_by_id", id=row.id, company=row.company)
    found = tx.row("token_by_hash", token=row.hash)
    # What is compared is a hash of what was sent, so its timing tells nothing; this keeps it so for any database.
    return found if found and hmac.compare_digest(found["token"], row.hash) else None


def _end(tx: Tx, row: EndToken, found: Row | None) -> TokenEnded | Conflict | NotFound:
    scope = {name: found[name] for name in ("shard", "execution", "address")} if found else {}
    execution = tx.execution(scope["execution"]) if scope else None
    point = tx.row("waitpoint", **scope) if scope else None  # read again: now it is locked
    if execution is None or point is None:
        return unknown_token()
    if point["state"] == states.Waitpoint.RESOLVED:
        return _again(row, point, execution.ref)
    if refusal := _over(tx, point, execution):
        return refusal
    complete = row.decision == "complete"
    answer = {"decision": row.decision, "by": row.by, "now_ms": tx.now_ms}
    tx.run(
        "resolve_token",
        **scope,
        **answer,
        value=row.value if complete else None,
        reason=None if complete else row.error,
    )
    tx.run("delete_deadline", **scope, kind=EXPIRY)
    head = codec.encode({"id": point["id"], "decision": row.decision, "by": row.by, "at_ms": tx.now_ms})
    said = f'"value":{row.value}' if complete else f'"error":{codec.encode(row.error)}'
    tx.append(execution, Kind.WAIT_RESOLVED, scope["address"], data=f"{head[:-1]},{said}}}")
    wake(tx, execution)
    return TokenEnded(execution.ref, first=True)


def unknown_token() -> NotFound:
    """Return the one answer for a token that does not exist, whatever is wrong with it."""
    return NotFound("there is no such token. Was all of it copied?", code="no_such_token")


def _over(tx: Tx, point: Row, execution: ExecutionRow) -> Conflict | None:
    """Say why an unanswered wait takes no answer any more. The clock decides over an expiry, not when it was swept."""
    if point["state"] == states.Waitpoint.EXPIRED or (point["expires_ms"] or tx.now_ms + 1) <= tx.now_ms:
        return Conflict(
            f"token {point['name']!r} expired: nobody completed it in time, and its execution went on.",
            code="token_expired",
            expired_ms=point["expires_ms"],
        )
    if execution.ended:
        return Conflict(
            f"token {point['name']!r} is not waited for any more: its execution has {execution.state}.",
            code="ended",
            state=execution.state,
        )
    if point["state"] != states.Waitpoint.OPEN:
        return Conflict(
            f"token {point['name']!r} is not waited for any more: its execution is being cancelled.",
            code="not_waiting",
        )
    return None


def _again(row: EndToken, point: Row, ref: Ref) -> TokenEnded | Conflict:
    """The same answer again is no error: a lost reply is simply sent again."""
    same = point["decision"] == row.decision
    if same and row.decision == "complete":
        kept = value_of(point["value"], f"the value of token {point['name']!r}")
        same = codec.digest(kept) == codec.digest(codec.decode(row.value))
    elif same:
        same = point["reason"] == row.error
    if same:
        return TokenEnded(ref, first=False)
    first = "completed" if point["decision"] == "complete" else "failed"
    return Conflict(
        f"token {point['name']!r} was already {first}, by {point['decided_by'] or 'whoever held it'}, with another "
        "answer. The first one counts.",
        code="token_used",
        decision=point["decision"],
        decided_ms=point["decided_ms"],
    )


@operation()
def expire_tokens(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
    """End waits whose time is over, once each and never early by the store's clock."""
    found = due(tx, rows, EXPIRING)
    yield [Ref(one["shard"], one["execution"]) for one in found]
    for one in found:
        scope = {name: one[name] for name in ("shard", "execution", "address")}
        execution = tx.execution(one["execution"])
        if execution is None:
            raise orphaned("token", one)
        if not tx.run("delete_deadline", **scope, kind=EXPIRY) or execution.ended:
            continue
        point = tx.row("waitpoint", **scope)
        if point is not None and tx.run("expire_waitpoint", **scope, now_ms=tx.now_ms):
            facts = {"id": point["id"], "decision": "expire", "by": "perdure", "at_ms": tx.now_ms}
            tx.append(execution, Kind.WAIT_RESOLVED, one["address"], data=facts)
            wake(tx, execution)
    return [len(found)] + [0] * (len(rows) - 1)
