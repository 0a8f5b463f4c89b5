"""What an execution did to the world, read off its log. Pure; the same on a server and over an exported file.

An effect is a step that acts: a task of any delivery but `repeatable`. What may have been done more than once is said
in words, with the numbers of the events that it follows from; what cannot have been is not mentioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from perdure.core import states
from perdure.core.costs import total
from perdure.core.delivery import NOT_DONE, Delivery
from perdure.core.events import ANSWERS, ASKED, Event, Kind, is_model_call, reply_in
from perdure.core.views import EffectView, InlineStepView, ModelCallView

TASK_KINDS = frozenset(
    {
        Kind.TASK_SCHEDULED,
        Kind.TASK_BEGUN,
        Kind.TASK_REVIVED,
        Kind.ATTEMPT_FAILED,
        Kind.ATTEMPT_LOST,
        Kind.TASK_COMPLETED,
        Kind.TASK_FAILED,
        Kind.TASK_UNCERTAIN,
        Kind.EFFECT_RULED,
        Kind.EFFECT_CONTRADICTED,
    }
)
"""The kinds that tell of tasks."""
_ENDS = (Kind.TASK_COMPLETED, Kind.TASK_FAILED, Kind.TASK_UNCERTAIN, Kind.EFFECT_RULED)
_TRIED = frozenset(
    {
        Kind.TASK_BEGUN,
        Kind.TASK_REVIVED,
        Kind.ATTEMPT_FAILED,
        Kind.ATTEMPT_LOST,
        Kind.TASK_COMPLETED,
        Kind.TASK_FAILED,
        Kind.TASK_UNCERTAIN,
    }
)
WAITING = states.Execution.WAITING.value
"""Outcome of an effect that cannot have begun."""
CONTRADICTED = "contradicted"
"""Outcome of an effect whose holder reported after somebody had ruled."""
SIMULATED = "simulated"
"""Outcome of what only stood in for an effect, in a fork."""
EFFECT_STATES = (*states.Task, CONTRADICTED, SIMULATED)
"""What effects are asked for by."""


@dataclass(frozen=True, slots=True)
class TaskNow:
    """What a task's row knows and its log does not: the attempt under way."""

    state: str
    attempt: int
    worker: str | None = None


@dataclass(slots=True)
class _Step:
    """The events at one address."""

    scheduled: Event
    told: list[Event] = field(default_factory=list[Event])
    taken_from: str = ""
    """The execution whose log this was, before this one was forked off it."""

    def last(self, *kinds: Kind) -> Event | None:
        return next((event for event in reversed(self.told) if event.kind in kinds), None)

    def all(self, *kinds: Kind) -> list[Event]:
        return [event for event in self.own() if event.kind in kinds]

    def own(self) -> list[Event]:
        """Return what is told of bodies of this very step: not of one whose result it was given, nor a simulation."""
        return [] if self.taken_from or self.simulated else [event for event in self.told if not _given(event)]

    @property
    def simulated(self) -> bool:
        """Whether a simulation stood in for it."""
        return bool(self.scheduled.data.get("simulated")) or any(event.data.get("simulated") for event in self.told)

    @property
    def edited(self) -> bool:
        """Whether somebody who forked the execution wrote its result."""
        return any(event.data.get("edited") for event in self.told)

    def contradictions(self) -> list[Event]:
        """Return one for each holder that said so, however often."""
        return list({one.data.get("fence"): one for one in self.all(Kind.EFFECT_CONTRADICTED)}.values())

    def served(self) -> str:
        """Return whose result it was given, if it did not run itself."""
        return next((_given(event) for event in reversed(self.told) if _given(event)), self.taken_from)


def _given(event: Event) -> str:
    return str(event.data.get("served") or event.data.get("origin") or "")


def effects_of(
    execution: str, agent: str, events: Iterable[Event], now: Mapping[str, TaskNow] | None = None
) -> list[EffectView]:
    """Return the effects of one execution in the order they were scheduled.

    `events`: its log and the evidence behind it, or at least those of `TASK_KINDS`. `now`: its task rows by address.
    """
    steps: dict[str, _Step] = {}
    for event in events:
        if event.kind is Kind.FORKED:
            for step in steps.values():
                step.taken_from = event.data["origin"]
        elif event.kind is Kind.TASK_SCHEDULED:
            steps[event.address] = _Step(event)
        elif event.kind in TASK_KINDS and event.address in steps and steps[event.address].taken_from:
            steps[event.address] = replace(steps[event.address], told=[event], taken_from="")
        elif event.kind in TASK_KINDS and event.address in steps:
            steps[event.address].told.append(event)
    return [
        _effect(execution, agent, step, (now or {}).get(address))
        for address, step in steps.items()
        if step.scheduled.data["delivery"] != Delivery.REPEATABLE
    ]


class ModelCalls:
    """The recorded model calls of one execution's log, in order, with what may have been paid twice.

    A call was possibly made before, by a holder that is gone, if the execution was taken over between the record that
    the call follows and its own.
    """

    def __init__(self) -> None:
        self.found: list[ModelCallView] = []
        self._answered: set[str] = set()
        self._takeover = 0

    def take(self, event: Event) -> None:
        """Look at the next event of the log."""
        if event.kind is Kind.FORKED:
            self.found.clear()  # the origin's
        if event.kind is Kind.TAKEN_OVER:
            self._takeover = event.seq
            return
        if is_model_call(event):
            self.found.append(_model_call(event, self._takeover))
        if event.kind in ASKED or (event.kind in ANSWERS and event.address not in self._answered):
            self._takeover = 0  # whatever is asked for next is asked for after this
        if event.kind in ANSWERS:
            self._answered.add(event.address)


class InlineSteps:
    """The recorded steps that durable code ran itself, in order, with those that may have been tried twice.

    A step was possibly tried before, under the same key, if the execution was taken over between the last record in its
    scope and its own. Where a scope has none, its first step counts from the execution's start.
    """

    def __init__(self) -> None:
        self.found: list[InlineStepView] = []
        self._answered: set[str] = set()
        self._last: dict[str, int] = {}
        self._takeovers: list[int] = []

    def take(self, event: Event) -> None:
        """Look at the next event of the log."""
        if event.kind is Kind.FORKED:
            self.found.clear()  # the origin's
        if event.kind is Kind.TAKEN_OVER:
            self._takeovers.append(event.seq)
        if event.kind is Kind.STEP_RECORDED and not is_model_call(event):
            acted = not (_given(event) or event.data.get("simulated"))
            since = self._last.get(_scope(event.address), 0)
            self.found.append(_inline_step(event, [seq for seq in self._takeovers if acted and seq > since]))
        if event.kind in ASKED or (event.kind in ANSWERS and event.address not in self._answered):
            self._last[_scope(event.address)] = event.seq
        if event.kind in ANSWERS:
            self._answered.add(event.address)


def _scope(address: str) -> str:
    """Return the path that a step stands in: without its name, and without which of that name it is."""
    head, _, end = address.rpartition("/")
    return (head if end.isdigit() else address).rpartition("/")[0]


def _inline_step(event: Event, takeovers: list[int]) -> InlineStepView:
    seen = ", ".join(map(str, takeovers))
    doubt = (
        f"possibly tried twice with the same key: the execution was taken over (event {seen}) before it was recorded "
        f"(event {event.seq})"
    )
    return InlineStepView(
        event.address,
        event.seq,
        "error" in event.data,
        doubt if takeovers else "",
        simulated=bool(event.data.get("simulated")),
        served=_given(event),
    )


def _model_call(event: Event, takeover: int) -> ModelCallView:
    reply = reply_in(event) or {}
    return ModelCallView(
        address=event.address,
        seq=event.seq,
        cost_usd=reply.get("cost_usd"),
        doubt=f"possibly paid twice: the execution was taken over (event {takeover}) before its reply was recorded "
        f"(event {event.seq})"
        if takeover
        else "",
    )


def _effect(execution: str, agent: str, step: _Step, now: TaskNow | None) -> EffectView:
    asked = step.scheduled.data
    claims = step.all(Kind.TASK_BEGUN)
    ruling = step.last(Kind.EFFECT_RULED)
    ended = step.last(*_ENDS)
    contradictions = step.contradictions()
    state = now.state if now else _state(step)
    over = state in states.TASK_ENDED or state == states.Task.UNCERTAIN
    counts = [event for event in step.told if event.kind is not Kind.EFFECT_CONTRADICTED]  # that is evidence, no result
    known = [event.data["value"] for event in counts if event.data.get("value") is not None]
    said = [event for event in step.told if event.data.get("worker")]
    return EffectView(
        execution=execution,
        address=step.scheduled.address,
        agent=agent,
        tool=asked["tool"],
        key=asked["key"],
        args=asked["args"],
        state=state,
        claims=len(claims),
        worker=now.worker if now and now.worker else said[-1].data["worker"] if said else None,
        claimed_ms=claims[-1].at_ms if claims else 0,
        value=known[-1] if known else None,
        ruling=ruling.data["ruling"] if ruling else None,
        ruled_by=ruling.data["by"] if ruling else None,
        reason=ruling.data["reason"] if ruling else None,
        digest=step.scheduled.digest,
        delivery=asked["delivery"],
        attempts=len(claims) if asked["delivery"] == Delivery.AT_MOST_ONCE else len(_tries(step, now)),
        outcome=CONTRADICTED if contradictions else _outcome(state, asked["delivery"], simulated=step.simulated),
        confirmed=len(step.all(Kind.TASK_COMPLETED)) + sum("error" not in one.data for one in contradictions),
        why=str(ended.data.get("error") or ended.data.get("why") or "") if ended and over else "",
        scheduled_ms=step.scheduled.at_ms,
        ended_ms=ended.at_ms if ended and over else None,
        doubt=_doubt(step, asked["delivery"], now),
        served=step.served(),
        simulated=step.simulated,
        edited=step.edited,
        cost=total(event.data.get("cost") for event in step.own()),
        seqs=(step.scheduled.seq, *(event.seq for event in step.told)),
    )


def _state(step: _Step) -> str:
    """Return where the log leaves a task. What it does not say, that somebody has it right now, only its row knows."""
    last = next((event for event in reversed(step.told) if event.kind is not Kind.EFFECT_CONTRADICTED), None)
    match last.kind if last else None:
        case Kind.TASK_COMPLETED:
            return states.Task.DONE
        case Kind.TASK_FAILED:
            return states.Task.DEAD
        case Kind.TASK_UNCERTAIN:
            return states.Task.UNCERTAIN
        case Kind.TASK_BEGUN:
            return states.Task.BEGUN
        case Kind.EFFECT_RULED if last:
            return states.move(states.TASK_TABLE, states.Task.UNCERTAIN, f"rule_{last.data['ruling']}")
        case _:
            return states.Task.READY


def _outcome(state: str, delivery: str, *, simulated: bool) -> str:
    if simulated and state not in (states.Task.DONE, states.Task.DEAD):
        return WAITING
    if simulated and state == states.Task.DONE:
        return SIMULATED
    if state == states.Task.LEASED:  # a body that needs no claim may be acting already
        return WAITING if delivery == Delivery.AT_MOST_ONCE else str(states.Task.BEGUN)
    return WAITING if state == states.Task.READY else state


def _tries(step: _Step, now: TaskNow | None) -> set[int]:
    """Return the numbers of the attempts in which the body may have started. What was handed back keeps its number."""
    numbers = {
        event.data["attempt"]
        for event in step.own()
        if event.kind in _TRIED and event.data.get("attempt") and event.data.get("code") != NOT_DONE
    }
    held = now is not None and now.state in states.TASK_HELD and not step.simulated
    return numbers | ({now.attempt} if held and now else set())


def _doubt(step: _Step, delivery: str, now: TaskNow | None) -> str:
    """Say why it may have been done more than once, with the events that say so; empty if it cannot have been."""
    doubts = list(_doubted_claims(step))
    tries = _tries(step, now)
    if delivery == Delivery.AT_LEAST_ONCE and len(tries) > 1:
        doubts.append(
            f"tried {len(tries)} times with the same key: done once only if whoever was called honours the key"
        )
    doubts += [
        f"the holder of claim {event.data.get('claim', '?')} reported "
        f"{'a failure' if 'error' in event.data else 'it done'} after it had been ruled over (event {event.seq})"
        for event in step.contradictions()
    ]
    return "; ".join(doubts)


def _doubted_claims(step: _Step) -> Iterator[str]:
    """Yield a reason for each claim that began while nobody knew what had become of the one before it."""
    unknown: Event | None = None
    by = ""
    for event in step.own():
        match event.kind:
            case Kind.TASK_BEGUN:
                if unknown is not None:
                    yield (
                        f"claim {event.data['claim']} began (event {event.seq}) though nobody had reported on the one "
                        f"before it (event {unknown.seq}){by}"
                    )
                unknown = event
            case Kind.EFFECT_RULED:
                by = f", on the word of {event.data['by'] or 'somebody'} (event {event.seq})"
            case Kind.TASK_COMPLETED:
                unknown = None
            case _ if event.data.get("code") == NOT_DONE:
                unknown = None
            case _:
                pass
