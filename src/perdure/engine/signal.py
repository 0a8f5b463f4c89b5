"""Requests to an execution: a message, stop, pause, resume, cancel. Each is an event with its place in the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

from perdure.core import codec, states
from perdure.core.codec import Json
from perdure.core.events import Kind
from perdure.core.ids import shard_of
from perdure.engine.children import leave_children, parents_of, refs_of
from perdure.engine.delay import delay_again
from perdure.engine.park import end_cancelled
from perdure.engine.stored import facts_of
from perdure.engine.wake import put_ready, shut_out, wake, was_abandoned
from perdure.errors import Conflict, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

Verb = Literal["send", "stop", "pause", "resume", "cancel", "signal"]

_SAID: Mapping[Verb, Kind] = {
    "send": Kind.MESSAGE,
    "stop": Kind.STOP_REQUESTED,
    "pause": Kind.PAUSED,
    "resume": Kind.RESUMED,
    "cancel": Kind.CANCEL_REQUESTED,
    "signal": Kind.SIGNAL,
}
"""The event that each request is."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One request."""

    company: str
    execution: str
    verb: Verb
    by: str = ""
    text: str = ""
    """The message, or the reason."""
    dedupe: str | None = None
    """The same one again changes nothing. Who wants to cancel once needs one: the store may run it twice, and a second
    cancel skips the cleanup."""
    name: str = ""
    """Of a signal."""
    value: str = "null"
    """Of a signal, JSON text."""

    @property
    def size(self) -> int:
        return len(self.text) + (len(self.value) if self.verb == "signal" else 0)


def _keys(row: Signal) -> tuple[str, ...]:
    return (f"signal/{row.execution}",)


def put_message(tx: Tx, row: Signal, execution: ExecutionRow) -> int | Conflict | NotFound:
    """Put a message into a locked execution within another operation, which has `signal/EXECUTION` among its keys."""
    return _signal(tx, row, execution, {}, _used(tx, [row]))


@operation(keys=_keys)
def signal(tx: Tx, rows: Sequence[Signal]) -> Steps[int | Conflict | NotFound]:
    """Append the request and let it take effect; return the last `seq`. To an ended execution: `Conflict`."""
    refs = [Ref(shard_of(row.execution), row.execution) for row in rows]
    parents = parents_of(tx, [ref for ref, row in zip(refs, rows, strict=True) if row.verb == "cancel"])
    yield [*refs, *refs_of(parents)]
    used = _used(tx, rows)
    return [_signal(tx, row, tx.execution(row.execution), parents, used) for row in rows]


def _signal(
    tx: Tx, row: Signal, execution: ExecutionRow | None, parents: Mapping[str, Row], used: Mapping[str, int]
) -> int | Conflict | NotFound:
    if execution is None or execution.company != row.company:
        return NotFound(f"there is no execution {row.execution}. `perdure executions list` shows yours.")
    if row.dedupe is not None and row.execution in used:
        # Accepted before, whatever has become of its execution since.
        return _same(tx, row, execution, used[row.execution])
    if execution.ended:
        return Conflict(
            f"execution {row.execution} has {execution.state}: nothing reaches it any more.",
            code="ended",
            state=execution.state,
        )
    seq = execution.next_seq
    said = _take(tx, row, execution, parents)
    if row.dedupe is not None and execution.next_seq > seq:  # else there was nothing to be changed
        tx.later("insert_inbox_key", shard=execution.shard, execution=execution.id, dedupe=row.dedupe, seq=seq)
    return said


def _take(tx: Tx, row: Signal, execution: ExecutionRow, parents: Mapping[str, Row]) -> int | Conflict:
    """Let a request take effect whose event, if it comes to one, is the next of the log."""
    match row.verb:
        case "send":
            return _send(tx, row, execution)
        case "stop":
            tx.append(execution, Kind.STOP_REQUESTED, data={"by": row.by})
            wake(tx, execution)
        case "pause":
            return pause(tx, execution, row.text, row.by)
        case "resume":
            return resume(tx, execution, row.by)
        case "cancel" if execution.state == states.Execution.CANCELLING and not _held(execution):
            _ask_to_leave_off(tx, execution, row.by, row.text)
            end_cancelled(tx, execution, parents)  # its cleanup is skipped, so nobody need have its code
        case "cancel":
            cancel(tx, execution, by=row.by, reason=row.text)
        case "signal":
            return _take_signal(tx, row, execution)
        case _:
            assert_never(row.verb)
    return execution.next_seq - 1


def _used(tx: Tx, rows: Sequence[Signal]) -> dict[str, int]:
    """Return, by execution, the `seq` of what was taken before under the key that its row has; each has one row.

    Nobody is asked about executions of others: that would be more work than for those that are not there.
    """
    wanted: dict[str, Json] = {}
    for row in rows:
        execution = tx.execution(row.execution)
        if row.dedupe is not None and execution is not None and execution.company == row.company:
            wanted[row.execution] = {row.dedupe: execution.shard}
    return {found["execution"]: found["seq"] for found in tx.named("inbox_keys_used", wanted)}


def _same(tx: Tx, row: Signal, execution: ExecutionRow, seq: int) -> int | Conflict:
    """A key stands for one request: anything else under it would be lost without a word."""
    page = {"shard": execution.shard, "execution": execution.id, "after": seq - 1, "limit": 1}
    for event in [*tx.appended(execution.id, seq - 1)[:1], *tx.rows("events_after", **page)]:
        facts = facts_of(event["data"], f"event {seq} of execution {execution.id}")
        same = event["kind"] == _SAID[row.verb]
        if row.verb == "signal":
            same = same and facts["name"] == row.name
            same = same and codec.digest(facts["value"]) == codec.digest(codec.decode(row.value))
        elif row.verb == "send":
            same = same and facts["text"] == row.text
        if same:
            return seq
    return Conflict(
        f"execution {row.execution} took something else under the key {row.dedupe!r}, as event {seq}. Use a new key "
        "for a new message or signal, or send the first one again.",
        code="dedupe_conflict",
        seq=seq,
    )


def _take_signal(tx: Tx, row: Signal, execution: ExecutionRow) -> int:
    """Store it whether or not anybody waits for it; the replay finds who takes it. Cleanup may wait for one, too."""
    head = codec.encode({"name": row.name, "by": row.by, "dedupe": row.dedupe})
    seq = tx.append(execution, Kind.SIGNAL, data=f'{head[:-1]},"value":{row.value}}}')
    wake(tx, execution)
    return seq


def _send(tx: Tx, row: Signal, execution: ExecutionRow) -> int | Conflict:
    if execution.state == states.Execution.CANCELLING:
        return Conflict(f"execution {row.execution} is being cancelled and takes no more messages.", code="ended")
    facts = {"text": row.text, "by": row.by, "dedupe": row.dedupe}
    seq = tx.append(execution, Kind.MESSAGE, data=facts)
    wake(tx, execution)
    return seq


def pause(tx: Tx, execution: ExecutionRow, why: str, by: str) -> int | Conflict:
    """Have a locked execution start nothing more; return the `seq` that says so.

    An owned one records what is in flight and is then let go of; nobody claims it until it is resumed.
    """
    if execution.state == states.Execution.PAUSED:
        return execution.next_seq - 1
    if not execution.may("pause"):
        return Conflict(
            f"execution {execution.id} is {execution.state} and cannot be paused: it does not go on as it is.",
            code="not_pausable",
            state=execution.state,
        )
    abandoned = execution.ownership == states.Ownership.READY and was_abandoned(tx, execution)
    execution.move("pause")
    execution.reason = states.Reason.USER
    if execution.ownership == states.Ownership.READY:
        tx.later("delete_ready", shard=execution.shard, execution=execution.id)
        execution.ownership = states.Ownership.PARKED
    tx.append(execution, Kind.PAUSED, data={"reason": states.Reason.USER, "message": why, "by": by})
    if abandoned:
        shut_out(tx, execution)
    return execution.next_seq - 1


def resume(tx: Tx, execution: ExecutionRow, by: str) -> int | Conflict:
    """Let a locked execution go on that was paused or stuck; return the `seq` that says so."""
    if not execution.may("resume"):
        return Conflict(
            f"execution {execution.id} is {execution.state}, not paused: there is nothing to resume.",
            code="not_paused",
            state=execution.state,
        )
    execution.move("resume")
    execution.reason = None
    seq = tx.append(execution, Kind.RESUMED, data={"by": by})
    if execution.ownership == states.Ownership.OWNED:  # its owner has not even parked yet
        execution.move("claim")
    elif not delay_again(tx, execution):
        execution.ownership = states.Ownership.READY
        put_ready(tx, execution)
    tx.announce("tasks_all", execution.company)  # its tasks may be leased again
    return seq


def cancel(tx: Tx, execution: ExecutionRow, *, by: str, reason: str) -> None:
    """Ask a locked execution that has not ended to leave off, and those that it began.

    Tasks not yet given out die at once; holders of others learn it from their next heartbeat.
    """
    _ask_to_leave_off(tx, execution, by, reason)
    wake(tx, execution)


def _ask_to_leave_off(tx: Tx, execution: ExecutionRow, by: str, reason: str) -> None:
    execution.move("cancel")
    execution.reason = None
    seq = tx.append(execution, Kind.CANCEL_REQUESTED, data={"by": by, "reason": reason})
    execution.cancel_seq = execution.cancel_seq or seq
    tx.run("kill_ready_tasks", shard=execution.shard, execution=execution.id, now_ms=tx.now_ms)
    tx.run("cancel_waitpoints", shard=execution.shard, execution=execution.id)
    leave_children(tx, [execution])


def _held(execution: ExecutionRow) -> bool:
    return execution.ownership == states.Ownership.OWNED
