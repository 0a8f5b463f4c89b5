"""Read executions for people and programs: what stands in the rows, put together, changed by nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from perdure.core import codec, states
from perdure.core.codec import Json
from perdure.core.delivery import Delivery
from perdure.core.events import Event, Kind
from perdure.core.ids import shard_of
from perdure.core.rooms import WAKE
from perdure.core.spoken import moment
from perdure.core.views import (
    ApprovalView,
    ExecutionView,
    WaitView,
)
from perdure.core.work import Failure
from perdure.engine.gist import Gist, Gists
from perdure.engine.query_waits import birth_of, outside_waits, tree_below
from perdure.engine.stored import damaged, rules_of_approval, value_of
from perdure.errors import NotFound
from perdure.store.protocol import Params, Reads, Row
from perdure.store.sql_store import names

PAGE = 1_000
"""Events of a log that are read at once, at most."""
_KINDS = {str(kind): kind for kind in Kind}
"""By their text: to ask the enum costs more than all else of decoding an event."""
PAGE_BYTES = 4_000_000
"""How much of a log is read at once for somebody else."""


def execution_row_of(reads: Reads, company: str, execution: str) -> Row:
    """Return the row of a company's execution with its definition. Raises `NotFound`, the same for a foreign one."""
    row = reads.row("execution_view", shard=shard_of(execution), id=execution, company=company)
    if row is None:
        raise _unknown(execution)
    return row


def _unknown(execution: str) -> NotFound:
    return NotFound(
        f"there is no execution {execution}. `perdure executions list` shows yours; is this the right server, or did "
        "it end so long ago that it was deleted (`perdure server --retention`)?",
        execution=execution,
    )


def has_ended(reads: Reads, company: str, execution: str) -> bool:
    """Say whether an execution has ended. Raises `NotFound`."""
    state = _state_of(reads, company, execution)
    if state is None:
        raise _unknown(execution)
    return state in states.TERMINAL


def asks_no_more(reads: Reads, company: str, execution: str) -> bool:
    """Say whether an execution was cancelled, or is at its end: no model is asked for it any more."""
    state = _state_of(reads, company, execution)
    return state is None or state == states.Execution.CANCELLING or state in states.TERMINAL


def _state_of(reads: Reads, company: str, execution: str) -> str | None:
    row = reads.row("execution_state", shard=shard_of(execution), id=execution, company=company)
    return None if row is None else row["state"]


def execution_view(reads: Reads, company: str, execution: str, gists: Gists | None = None) -> ExecutionView:
    """Return an execution as it stands. Raises `NotFound`. Reads a page of the log at a time; with `gists`, only what
    was added to it since the last view."""
    row = execution_row_of(reads, company, execution)
    last_seq = row["next_seq"] - 1
    gists = gists or Gists()
    known_as = f"{execution} {row['created_ms']}"  # an id may come again once its execution was deleted
    gist = gists.take(known_as, last_seq, lambda after: log_between(reads, execution, after, last_seq))
    [first] = events_between(reads, execution, 0, 1)
    [last] = events_between(reads, execution, last_seq - 1, 1)
    spec = value_of(row["spec"], f"the definition of execution {execution}")
    approvals = approvals_of(reads, company, execution=execution, state=states.Waitpoint.OPEN)
    parent, tags = birth_of(reads, row)
    view = ExecutionView(
        id=execution,
        agent=row["agent"],
        model=_model_of(spec),
        state=row["state"],
        reason=row["reason"],
        message=_message(row["state"], last, gist),
        input=first.data["input"],
        output=last.data["output"] if last.kind is Kind.COMPLETED else None,
        failure=Failure(last.data["code"], last.data["error"]) if last.kind is Kind.FAILED else None,
        waits=(*waits_of(reads, row, approvals), *outside_waits(reads, row, gist)),
        approvals=tuple(approvals),
        usage=gist.usage,
        last_seq=last_seq,
        active_ms=row["active_ms"],
        created_ms=row["created_ms"],
        updated_ms=row["updated_ms"],
        finished_ms=row["finished_ms"],
        parent=parent,
        children=tree_below(reads, execution),
        priority=row["priority"],
        limit_key=row["limit_key"] or None,
        tags=tags,
    )
    gists.keep(known_as, gist)
    return view


def log_between(reads: Reads, execution: str, after: int, upto: int) -> Iterator[Event]:
    """Yield the events above `after` and up to `upto`, holding a page of them at a time."""
    while after < upto:
        page = events_page(reads, execution, after, min(PAGE, upto - after))
        yield from page
        after = page[-1].seq if page else upto


def _model_of(spec: dict[str, Any]) -> str:
    """Return the model of an agent, in a room or not; durable functions have none."""
    agent: dict[str, Any] = spec.get("agent", {}) if spec.get("kind") == WAKE else spec
    return str(agent.get("model", ""))


def events_between(reads: Reads, execution: str, after: int, limit: int) -> list[Event]:
    """Return up to `limit` events above `after`."""
    rows = reads.rows("events_after", shard=shard_of(execution), execution=execution, after=after, limit=limit)
    return events_of(rows)


def events_page(reads: Reads, execution: str, after: int, limit: int) -> list[Event]:
    """Return up to `limit` events above `after`, fewer if they are large: about `PAGE_BYTES`, and at least one."""
    rows = reads.rows(
        "events_page", shard=shard_of(execution), execution=execution, after=after, limit=limit, most=PAGE_BYTES
    )
    return events_of(rows)


def events_of_kinds(reads: Reads, execution: str, kinds: Iterable[Kind]) -> list[Event]:
    """Return the events of some kinds: for those that are few, or small, beside what models said."""
    wanted = names("events_of_kinds", dict.fromkeys(kinds, 1))
    return events_of(reads.rows("events_of_kinds", shard=shard_of(execution), execution=execution, wanted=wanted))


def events_of(rows: Sequence[Params | Row]) -> list[Event]:
    """Decode stored events. Raises Conflict (`row_damaged`) for one that no version of this code wrote."""
    return list(map(_event, rows))


def _event(row: Params | Row) -> Event:
    try:
        if row["address"].__class__ is not str:
            raise TypeError("its address is no text")
        data = codec.decode(row["data"])
        return Event(row["seq"], _KINDS[row["kind"]], row["address"], row["digest"], data, row["at_ms"])
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(f"event {row['seq']} of a log, {row['kind']} at {row['address']!r},", error) from None


def approvals_of(
    reads: Reads, company: str, *, execution: str | None = None, state: str | None = None, approval: str | None = None
) -> list[ApprovalView]:
    """Return a company's approvals, oldest first."""
    rows = reads.rows(
        "list_waitpoints", company=company, execution=execution or "", state=state or "", id=approval or "", limit=1_000
    )
    return [_approval(reads, row) for row in rows]


def _approval(reads: Reads, row: Row) -> ApprovalView:
    what = f"approval {row['id']}"
    shown = value_of(row["data"], what)
    rules = rules_of_approval(row)
    value: Json = None if row["value"] is None else value_of(row["value"], what)
    scope = {name: row[name] for name in ("shard", "execution", "address")}
    votes = reads.rows("votes_on", **scope) if rules.quorum > 1 else []
    return ApprovalView(
        id=row["id"],
        execution=row["execution"],
        agent=row["agent"],
        address=row["address"],
        tool=shown["tool"],
        args=value if isinstance(value, dict) else shown["args"],
        digest=row["digest"],
        state=row["state"],
        opened_ms=row["opened_ms"],
        edited=isinstance(value, dict),
        answer=value if isinstance(value, str) else None,
        quorum=rules.quorum,
        approved=tuple(vote["voter"] for vote in votes),
        approvers=rules.approvers,
        escalate_to=rules.escalate_to,
        escalates_ms=row["opened_ms"] + rules.escalate_ms if rules.escalate_ms else None,
        expires_ms=row["expires_ms"],
        decision=row["decision"],
        decided_by=row["decided_by"],
        decided_ms=row["decided_ms"],
        reason=row["reason"],
    )


def waits_of(reads: Reads, row: Row, approvals: list[ApprovalView]) -> list[WaitView]:
    """Return what an execution waits for outside of its own code."""
    scope = {"shard": row["shard"], "execution": row["id"]}
    waits = [WaitView("approval", one.address, one.opened_ms, f"a decision about {one.tool}") for one in approvals]
    waits += [
        WaitView("approval", one["address"], one["opened_ms"], f"a decision of {one['company']} about {one['name']}")
        for one in reads.rows("open_waitpoints_of", **scope)
        if one["kind"] == "approval" and one["company"] != row["company"]
    ]
    tasks = reads.rows("open_tasks_of", **scope)
    waits += [wait for task in tasks if (wait := _task_wait(task, tasks)) is not None]
    waits += [
        WaitView("timer", timer["address"], row["updated_ms"], f"a timer due at {moment(timer['due_ms'])}")
        for timer in reads.rows("timers_of", **scope)
    ]
    return waits


def _task_wait(task: Row, tasks: Sequence[Row]) -> WaitView | None:
    """Return what a task that is not over waits for. A probe waits for nothing by itself: its effect does."""
    if task["probe_of"] is not None:
        return None
    address, tool = task["address"], task["tool"]
    match task["state"]:
        case states.Task.READY:
            twin = held_by(task, tasks)
            detail = f"a worker for {task['agent']}/{tool} on queue {task['queue']}"
            if twin is not None:
                detail = f"the outcome of the equal call of {tool} at {twin['address']}"
            return WaitView("task", address, task["run_at_ms"], detail)
        case states.Task.LEASED | states.Task.BEGUN:
            return WaitView(
                "task", address, task["started_ms"], f"{tool}, which worker {task['worker']} runs{progress_of(task)}"
            )
        case states.Task.UNCERTAIN:
            return WaitView("ruling", address, task["updated_ms"], f"a ruling on what became of {tool}")
        case _:
            return None


def held_by(task: Row, tasks: Sequence[Row]) -> Row | None:
    """Return the equal call that a task on its queue has to wait for: one of which nobody knows whether it acted, or,
    if its author says what makes two calls the same act, one that is under way. The lease decides by the same rules."""
    return next((other for other in tasks if _holds(other, task)), None)


def _holds(other: Row, task: Row) -> bool:
    if other["address"] == task["address"] or other["tool"] != task["tool"]:
        return False
    first = other["scheduled_seq"] < task["scheduled_seq"]
    equal = task["digest"] != "" and other["digest"] == task["digest"] and task["delivery"] != Delivery.REPEATABLE
    if equal and other["doubt"] and (first or other["state"] == states.Task.UNCERTAIN):
        return True
    if task["intent"] is None or other["intent"] != task["intent"]:
        return False
    return other["state"] in _UNDER_WAY or (first and other["state"] == states.Task.READY)


_UNDER_WAY = frozenset({states.Task.LEASED, states.Task.BEGUN, states.Task.UNCERTAIN})


def progress_of(task: Row) -> str:
    """Return, in words that follow others, how far a task's body says it is."""
    said = shown(task["progress"])
    if said is None:
        return ""
    return f": {said * 100:.0f} %" if isinstance(said, (int, float)) else f": {said}"


def shown(text: str | None) -> Json:
    """Return the value of JSON text that a worker sent; what is none is shown as it is."""
    try:
        return None if text is None else codec.decode(text)
    except (ValueError, TypeError, AttributeError):
        return text


def _message(state: str, last: Event, gist: Gist) -> str | None:
    """Return why it does not go on, from the newest event that says so."""
    match state:
        case states.Execution.FAILED:
            return last.data["error"]
        case states.Execution.PAUSED:
            return gist.halted.get(Kind.PAUSED)
        case states.Execution.STUCK:
            return gist.halted.get(Kind.STUCK)
        case _:
            return None
