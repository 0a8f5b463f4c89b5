"""Say why an execution does not move: what it waits for, since when, and which command helps. Reads rows only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perdure.core import states
from perdure.core.events import READABLE_FORMATS, Event, Kind
from perdure.core.ids import shard_of
from perdure.core.views import Finding
from perdure.core.work import WorkerInfo
from perdure.engine.delay import START
from perdure.engine.diagnose_tasks import moment, span, task_findings
from perdure.engine.query import events_between, events_of_kinds, execution_row_of
from perdure.engine.query_waits import not_begun_row
from perdure.store.protocol import Reads, Row

QUIET_MS = 5_000
"""How long the code of a durable function may ask for nothing before the doctor says so."""

_TOLD = (
    *(Kind.PAUSED, Kind.RESUMED, Kind.STUCK, Kind.CANCEL_REQUESTED),
    *(Kind.SIGNAL, Kind.WAIT_OPENED, Kind.CHILD_STARTED, Kind.CHILD_ENDED),
    *(Kind.ATTEMPT_FAILED, Kind.ATTEMPT_LOST, Kind.TASK_FAILED, Kind.TASK_UNCERTAIN),
)
"""What the doctor reads of a log: not what was said or done in it, which may be a great deal."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """Everything that is looked at. `events`: those of `_TOLD`."""

    reads: Reads
    row: Row
    events: Sequence[Event]
    workers: Sequence[WorkerInfo]
    now_ms: int

    @property
    def id(self) -> str:
        return self.row["id"]

    @property
    def scope(self) -> dict[str, object]:
        return {"shard": self.row["shard"], "execution": self.id}

    def since(self, at_ms: int) -> str:
        return f"since {moment(at_ms)} ({span(self.now_ms - at_ms)})"


def diagnose(reads: Reads, company: str, execution: str, workers: Sequence[WorkerInfo], now_ms: int) -> list[Finding]:
    """Return what is to be said, the worst first. `now_ms` is the store's clock. Raises `NotFound`."""
    row = execution_row_of(reads, company, execution)
    scene = _Scene(reads, row, events_of_kinds(reads, execution, _TOLD), workers, now_ms)
    if row["state"] in states.TERMINAL:
        return [Finding("ok", f"it has {row['state']}.", f"perdure executions show {execution}")]
    if row["state"] in (states.Execution.PAUSED, states.Execution.STUCK):
        return list(_halted(scene))
    found = [*_cancelling(scene), *_people(scene), *_signals(scene), *_children(scene)]
    found += task_findings(reads, row, scene.events, workers, now_ms)
    found += _timers(scene)
    found += _owner(scene, quiet=not found)
    order = ("problem", "note", "ok")
    return sorted(found or [_unclaimed(scene)], key=lambda one: order.index(one.level))


def _halted(scene: _Scene) -> Iterator[Finding]:
    """A paused or stuck one: its reason says who has to act."""
    kind = Kind.PAUSED if scene.row["state"] == states.Execution.PAUSED else Kind.STUCK
    said = next((event for event in reversed(scene.events) if event.kind is kind), None)
    message = said.data.get("message") if said else None
    since = f" {scene.since(said.at_ms)}" if said else ""
    resume = f"perdure executions resume {scene.id}"
    match scene.row["reason"]:
        case states.Reason.QUOTA:
            yield Finding("problem", f"it is paused for quota{since}: {message}", resume)
        case states.Reason.KEY:
            yield Finding("problem", f"it is paused for a key{since}: {message}", resume)
        case states.Reason.USER if said and said.address:  # a fork about to act
            for held in _held_steps(scene):
                yield Finding("problem", f"it is paused {scene.since(held.at_ms)}: {held.data['message']}", resume)
        case states.Reason.USER:
            by = said.data.get("by") if said else None
            yield Finding(
                "problem", f"it was paused by {by or 'somebody'}{since}: {message or 'no reason given'}", resume
            )
        case reason:
            yield Finding("problem", f"it is stuck ({reason}){since}: {message or 'nobody said why'}", None)
            yield Finding("note", "if the code that it began with is back, it can go on from its log:", resume)
            yield Finding("note", "or it can be given up:", f"perdure executions cancel {scene.id}")


def _held_steps(scene: _Scene) -> Iterator[Event]:
    """Yield what a fork was held at since it was last resumed: one word lets all of it act."""
    resumed = max((event.seq for event in scene.events if event.kind is Kind.RESUMED), default=0)
    for event in scene.events:
        if event.kind is Kind.PAUSED and event.address and event.seq > resumed:
            yield event


def _cancelling(scene: _Scene) -> Iterator[Finding]:
    if scene.row["state"] != states.Execution.CANCELLING:
        return
    asked = next((event for event in scene.events if event.kind is Kind.CANCEL_REQUESTED), None)
    since = f" {scene.since(asked.at_ms)}" if asked else ""
    yield Finding("note", f"it is being cancelled{since}, and ends when what had begun has reported.")


def _people(scene: _Scene) -> Iterator[Finding]:
    """Decisions and tokens that somebody outside has to give."""
    for wait in scene.reads.rows("open_waitpoints_of", **scene.scope):
        since = scene.since(wait["opened_ms"])
        until = f", until {moment(wait['expires_ms'])}" if wait["expires_ms"] else ""
        if wait["kind"] == "approval":
            opened = next(event for event in scene.events if event.seq == wait["opened_seq"])
            tool = opened.data["tool"]
            what = f"a call of {tool} waits for a person's decision {since}{until}."
            yield Finding("problem", what, f"perdure approvals approve {wait['id']}")
        else:
            what = f"it waits for {wait['kind']} {wait['name']!r} to be completed {since}{until}."
            yield Finding("problem", what, f"perdure tokens complete {wait['id']} --value JSON")


def _signals(scene: _Scene) -> Iterator[Finding]:
    """Waits for signals of which there came fewer than are waited for. Which wait takes which is the replay's."""
    sent = Counter(str(event.data["name"]) for event in scene.events if event.kind is Kind.SIGNAL)
    for event in scene.events:
        if event.kind is not Kind.WAIT_OPENED or event.data["kind"] != "signal":
            continue
        name = event.data["name"]
        if sent[name]:
            sent[name] -= 1
            continue
        what = f"it waits for a signal {name!r} {scene.since(event.at_ms)}."
        yield Finding("problem", what, f"perdure executions signal {scene.id} {name}")


def _children(scene: _Scene) -> Iterator[Finding]:
    ended = {event.address for event in scene.events if event.kind is Kind.CHILD_ENDED}
    for event in scene.events:
        if event.kind is not Kind.CHILD_STARTED or event.address in ended:
            continue
        child = event.data["execution"]
        row = scene.reads.row("execution_state", shard=shard_of(child), id=child, company=scene.row["company"])
        state = row["state"] if row else "not there"
        what = f"it waits for its child {child} of {event.data['agent']} {scene.since(event.at_ms)}, which is {state}."
        yield Finding("note", what, f"perdure doctor {child}")


def _timers(scene: _Scene) -> Iterator[Finding]:
    for timer in scene.reads.rows("timers_of", **scene.scope):
        left_ms = timer["due_ms"] - scene.now_ms
        when = f"in {span(left_ms)}" if left_ms > 0 else f"due {span(-left_ms)} ago: no server sweeps this store"
        yield Finding(
            "ok" if left_ms > 0 else "problem",
            f"it sleeps at {timer['address']!r} until {moment(timer['due_ms'])}, {when}.",
        )


def _owner(scene: _Scene, *, quiet: bool) -> Iterator[Finding]:
    """Who runs its code, and, if it waits for nothing that is known, how long its code has asked for nothing."""
    owner = scene.reads.row("owner_of", **scene.scope)
    if owner is None:
        return
    who = "worker" if scene.row["lane"] else "server"
    until = f"lease until {moment(owner['lease_until_ms'])}, fence {owner['fence']}"
    if owner["lease_until_ms"] < scene.now_ms:
        what = f"{who} {owner['holder']} had it and fell silent; its lease ended {moment(owner['lease_until_ms'])}."
        yield Finding("problem", f"{what} Whoever claims it next goes on from the log.")
        return
    yield Finding("ok", f"{who} {owner['holder']} runs it {scene.since(owner['since_ms'])}: {until}.")
    if owner["outside"]:
        yield Finding(
            "problem",
            f"its code waits for the world outside a step, at {owner['outside']}. Nothing of that is recorded, and it "
            "keeps its worker meanwhile: put what waits there into a step.",
            "perdure check MODULE",
        )
        return
    [last] = events_between(scene.reads, scene.id, scene.row["next_seq"] - 2, 1)
    silent_ms = scene.now_ms - max(last.at_ms, owner["since_ms"])
    if not quiet or silent_ms < QUIET_MS:
        return
    if not scene.row["lane"]:
        yield Finding("note", f"it has been waiting for the model's reply for {span(silent_ms)}.")
        return
    yield Finding(
        "problem",
        f"its code has asked for nothing for {span(silent_ms)}: it computes, or waits for what is no step, like a "
        "request or a sleep of its own. Only what is inside a step is recorded.",
        "perdure check MODULE",
    )


def _unclaimed(scene: _Scene) -> Finding:
    row = scene.row
    if not_begun_row(row):
        found = scene.reads.row("start_of", **scene.scope, kind=START)
        left_ms = found["due_ms"] - scene.now_ms if found else 0
        when = f"in {span(left_ms)}" if left_ms > 0 else f"due {span(-left_ms)} ago: no server sweeps this store"
        return Finding("ok" if left_ms > 0 else "problem", f"it is to begin {when}.")
    if row["log_format"] not in READABLE_FORMATS:
        what = f"its log is of format {row['log_format']}, which this version cannot read. Upgrade the servers."
        return Finding("problem", what)
    if not row["lane"]:
        since = scene.since(row["updated_ms"])
        return Finding("note", f"it is {row['state']} and waits for a server to claim it, {since}.")
    builds = sorted({one.build for worker in scene.workers for one in worker.functions if one.name == row["lane"]})
    cancelling = row["state"] == states.Execution.CANCELLING
    more = " Cancelled once more it ends at once, without its cleanup." if cancelling else ""
    if row["build"] in builds:
        return Finding("note", f"it waits for a free slot of a worker that serves {row['lane']}.")
    if builds:
        what = f"no worker connected here serves build {row['build']} of {row['lane']}, only {', '.join(builds)}."
        return Finding(
            "problem", f"{what} Start one with the code that it began with.{more}", "perdure worker MODULE:FUNCTION"
        )
    return Finding(
        "problem",
        f"no worker connected here serves the durable function {row['lane']}.{more}",
        "perdure worker MODULE:FUNCTION",
    )
