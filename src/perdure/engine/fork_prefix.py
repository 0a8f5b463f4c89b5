"""What a fork takes over of its origin's log, what is open in it, and where there can be no fork.

The origin is only read. What is read of it is bounded: `MOST_EVENTS` and `MOST_BYTES` up to the fork, and of what lies
behind only what ended something that was open there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from perdure.core.delivery import Delivery
from perdure.core.events import ASKED, LAST, Event, Kind, is_model_call
from perdure.core.ledger import TASK_KINDS
from perdure.core.rules import TaskRules
from perdure.core.tokens import TOKEN_ENDS
from perdure.core.views import ForkEdits
from perdure.engine.forked import Told, ended
from perdure.engine.query import PAGE, PAGE_BYTES, events_of
from perdure.errors import Conflict, InvalidInput
from perdure.store.rows import ExecutionRow
from perdure.store.sql_store import names
from perdure.store.tx import Tx

MOST_EVENTS = 10_000
"""How long the part may be that is copied: it is written in one transaction, which others wait for."""
MOST_BYTES = 32 * 1024 * 1024
"""How much may stand in it. What is kept beside the log is not copied, and does not count."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the prefix."""

    scheduled: Event
    last: Event
    """What is told of it last."""
    later: Told | None = None
    """What an open one came to in the origin, as far as is known by now."""

    @property
    def over(self) -> Told | None:
        """What it came to in the prefix itself."""
        return ended([self.last])

    @property
    def in_doubt(self) -> bool:
        """Whether it may have acted, and nobody said how that ended; a ruling to run it once more was the origin's."""
        return self.over is None and self.last.kind in (Kind.TASK_BEGUN, Kind.TASK_UNCERTAIN, Kind.EFFECT_RULED)

    @property
    def to_be_made(self) -> bool:
        """Whether the fork itself has to make it: nothing is known of it, and nothing is in doubt."""
        return not (self.over or self.in_doubt or self.later)

    def simulated(self, rules: TaskRules) -> bool:
        """Whether what stands in for it is run, as it neither acted nor will."""
        acts = self.scheduled.data["delivery"] != Delivery.REPEATABLE
        return acts and rules.simulate and self.to_be_made


@dataclass(slots=True)
class Prefix:
    """What the fork takes over, and what of it is open."""

    durable: bool
    """Whether the origin is of a durable function, which has no model's replies but results of steps."""
    head: str = ""
    """Hash of the last event of the origin that stands in it; empty if that is older than the chain."""
    events: list[Event] = field(default_factory=list[Event])
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    answered: dict[str, Event] = field(default_factory=dict[str, Event])
    """Results that may be edited: of calls, and of steps that a durable function ran itself."""
    replies: dict[str, Event] = field(default_factory=dict[str, Event])
    """Answers of an agent's model."""
    asked: Event | None = None
    """What the code asked for last."""
    timers: dict[str, Event] = field(default_factory=dict[str, Event])
    later: dict[str, Event] = field(default_factory=dict[str, Event])
    """What ended the origin's tokens and children that were open in it."""

    def take(self, event: Event) -> None:
        """Add the next event of the origin's log."""
        if event.kind in _LEFT_OUT:
            return
        self.events.append(event)
        if event.kind in ASKED:
            self.asked = event
        match event.kind:
            case Kind.TASK_SCHEDULED:
                self.calls[event.address] = Call(event, event)
            case kind if kind in _OF_CALLS:
                if (call := self.calls.get(event.address)) is not None:  # else it is a probe's
                    self.calls[event.address] = replace(call, last=event)
            case Kind.TIMER_SET:
                self.timers[event.address] = event
            case Kind.TIMER_FIRED:
                self.timers.pop(event.address, None)
            case Kind.STEP_RECORDED if self.durable:
                self.answered[event.address] = event
            case Kind.STEP_RECORDED if is_model_call(event):
                self.replies[event.address] = event
            case _:
                pass
        if event.kind in _ANSWERS:
            self.answered[event.address] = event

    def editable(self, address: str) -> Event | None:
        """Return the event whose value may be another in the fork: a result, or the reply that was asked for last."""
        last = self.asked is not None and self.asked.address == address
        return self.answered.get(address) or (self.replies.get(address) if last else None)

    def unresolved(self) -> set[str]:
        """Return the addresses of tokens, approvals and children that nothing ended in it."""
        open_: set[str] = set()
        for event in self.events:
            if event.kind in (Kind.WAIT_OPENED, Kind.CHILD_STARTED):
                open_.add(event.address)
            elif event.kind in (Kind.WAIT_RESOLVED, Kind.CHILD_ENDED):
                open_.discard(event.address)
        return open_


_LEFT_OUT = frozenset({Kind.TAKEN_OVER, Kind.PAUSED, Kind.RESUMED, Kind.STUCK})
"""What happened to the origin's run, not to its work."""
_ENDS = LAST | {Kind.CANCEL_REQUESTED}
_ANSWERS = frozenset({Kind.TASK_COMPLETED, Kind.TASK_FAILED})
_OF_CALLS = TASK_KINDS - {Kind.EFFECT_CONTRADICTED}


def read_prefix(tx: Tx, origin: ExecutionRow, at: int) -> Prefix | Conflict | InvalidInput:
    """Read the log of a locked execution up to `at`, and how what is open there ended later. All is written out."""
    last = origin.next_seq - 1
    if not 1 <= at <= last:
        return InvalidInput(f"at is {at}; the log of {origin.id} goes from 1 to {last}.", fields=["at"])
    prefix, size, after = Prefix(bool(origin.lane)), 0, 0
    while after < at and at <= MOST_EVENTS and size <= MOST_BYTES:
        limit = min(PAGE, at - after)
        scope = {"shard": origin.shard, "execution": origin.id}
        rows = tx.rows("chain_after", **scope, after=after, limit=limit, most=PAGE_BYTES)
        if not rows:
            return Conflict(
                f"the log of {origin.id} goes to {last}, and nothing stands behind seq {after}: the store is damaged. "
                "`perdure db check` says how far.",
                code="row_damaged",
            )
        for event in events_of(rows):
            prefix.take(event)
        size += sum(len(row["data"]) for row in rows)
        prefix.head, after = rows[-1]["hash"], rows[-1]["seq"]
    if after < at or size > MOST_BYTES:
        return Conflict(
            f"a fork takes over at most {MOST_EVENTS} events and {MOST_BYTES // 1024**2} MB of a log, and up to seq "
            f"{at} that of {origin.id} has more: fork it earlier.",
            code="not_forkable",
        )
    _look_behind(tx, origin, at, prefix)
    return prefix


def _look_behind(tx: Tx, origin: ExecutionRow, at: int, prefix: Prefix) -> None:
    """Note how the origin's open calls, tokens and children ended behind the prefix."""
    waits = prefix.unresolved()
    wanted = {*waits, *(address for address, call in prefix.calls.items() if call.over is None)}
    if not wanted:
        return
    given = names("events_behind", dict.fromkeys(wanted, 1))
    found = events_of(tx.rows("events_behind", shard=origin.shard, execution=origin.id, after=at, wanted=given))
    told: dict[str, list[Event]] = {}
    for event in found:
        if event.kind in _OF_CALLS:
            told.setdefault(event.address, []).append(event)
        elif event.address in waits and _ends_for_all(event):
            prefix.later[event.address] = event
    for address, events in told.items():
        if (call := prefix.calls.get(address)) is not None:
            prefix.calls[address] = replace(call, later=ended(events))


def _ends_for_all(event: Event) -> bool:
    """Whether it ends a wait for whoever has it in its log: an approval is of one act, the origin's."""
    return event.kind is Kind.CHILD_ENDED or (
        event.kind is Kind.WAIT_RESOLVED and event.data.get("decision") in TOKEN_ENDS
    )


def wrong_edit(edits: ForkEdits, at: int, origin: ExecutionRow, prefix: Prefix) -> InvalidInput | None:
    """Return why these edits make no sense, for what they are made on."""
    what = f"execution {origin.id} is of {'the durable function' if origin.lane else 'the agent'} {origin.agent}"
    unfit = "prompt" if edits.prompt is not None else "model" if edits.model is not None else None
    if origin.lane and unfit:
        return InvalidInput(f"{what}, which has no {unfit}: edit its input instead.", fields=[unfit])
    unfit = "input" if edits.input is not None else "build" if edits.build is not None else None
    if not origin.lane and unfit:
        return InvalidInput(f"{what}, which has no {unfit}: edit its prompt or model instead.", fields=[unfit])
    return next(filter(None, (_wrong_result(address, at, prefix) for address in edits.results)), None)


def _wrong_result(address: str, at: int, prefix: Prefix) -> InvalidInput | None:
    event = prefix.editable(address)
    if event is None and (reply := prefix.replies.get(address)) is not None:
        return InvalidInput(
            f"what the reply of {address!r} asked for stands behind it: to have another reply there, fork at "
            f"{reply.seq}.",
            fields=["results"],
        )
    if event is None:
        known = {*prefix.answered, *filter(prefix.editable, prefix.replies)}
        return InvalidInput(
            f"there is no result of {address!r} up to seq {at}; those there are: {', '.join(sorted(known)) or 'none'}.",
            fields=["results"],
        )
    error = event.data.get("error")
    if isinstance(error, dict) and error.get("retry_ms") is not None:  # pyright: ignore[reportUnknownMemberType] - JSON
        return InvalidInput(
            f"{address!r} failed and was tried again: edit the result of its last try, or fork it before, at "
            f"{event.seq - 1} or earlier.",
            fields=["results"],
        )
    return None


def refusal(origin: str, at: int, prefix: Prefix) -> Conflict | None:
    """Return why there can be no fork at this place."""
    over = next((event for event in prefix.events if event.kind in _ENDS), None)
    if over is not None:
        return Conflict(
            f"at seq {over.seq} execution {origin} was {over.kind.replace('_', ' ')}: fork it before, at "
            f"{over.seq - 1} or earlier.",
            code="not_forkable",
        )
    first = _first_open_wait(prefix)
    if first is not None:
        return Conflict(
            f"at seq {at} execution {origin} still needs what it asked for at seq {first.seq} "
            f"({first.data.get('kind', first.kind)} at {first.address!r}), which is the origin's alone: fork it at "
            f"{first.seq - 1} or earlier, and the fork asks for its own.",
            code="not_forkable",
        )
    return None


def _first_open_wait(prefix: Prefix) -> Event | None:
    """Return the first wait whose answer, or whose use, lies past the prefix: an approval, a token, a child."""
    open_: dict[str, Event] = {}
    for event in prefix.events:
        match event.kind:
            case Kind.WAIT_OPENED if event.data.get("kind") != "signal":
                open_[event.address] = event
            case Kind.CHILD_STARTED:
                open_[event.address] = event
            case Kind.CHILD_ENDED:
                open_.pop(event.address, None)
            case Kind.WAIT_RESOLVED if _is_over(event):
                open_.pop(event.address, None)
            case Kind.TASK_SCHEDULED if not prefix.calls[event.address].to_be_made:
                open_.pop(str(event.data.get("approval")), None)  # else the fork would act on a yes to the origin's act
            case _:
                pass
    return next((event for address, event in open_.items() if address not in prefix.later), None)


def _is_over(event: Event) -> bool:
    """Whether nothing is left to be done with an answer: a yes to a call is used by the call."""
    return event.data.get("decision") not in ("approve", "edit")
