"""Judge one run: which promises held, what was done twice, and what its author should change.

Reads what the runs left: bodies, world, the counts of effects, the public log. The checker it asks shares no code with
the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from perdure.core.delivery import Delivery
from perdure.core.events import Kind
from perdure.testing.checker import ClientLog, Expect, History, check
from perdure.testing.crashtest.bodies import RETURN, START, as_entries
from perdure.testing.crashtest.boundaries import Strike
from perdure.testing.crashtest.one_run import Evidence
from perdure.testing.crashtest.subject import Facts
from perdure.testing.evidence import MODEL_REPLY, MODEL_REQUEST, Entry

Weight = Literal["broken", "doubt", "waits"]
"""A promise was broken; nobody can say that it was kept; it was kept, and a person has to act."""

PROMISES = {
    "once": "nothing is done twice",
    "P1": "recorded is final: nothing recorded runs again",
    "P2": "at_least_once: done, with the same key each time",
    "P3": "at_most_once: the body starts once or never",
    "P5": "who lost a lease changes nothing",
    "P6": "approvals and timers count once",
    "P8": "everything done is accounted for",
    "P9": "what was accepted is kept, and every run ends",
}
"""What a crash test holds an agent and the runtime to, by the names that the checker uses."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to tell of a run."""

    weight: Weight
    promise: str
    """A key of `PROMISES`."""
    what: str
    """One sentence: what was found, with its numbers."""
    how: str = ""
    """Why that could be, or what follows from it."""
    cures: tuple[str, ...] = ()
    """What its author may change: any one of them."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the run in which nobody was killed did: the measure for all others."""

    seconds: float
    turns: int
    calls: tuple[str, ...]
    """The tools whose bodies ran, in order."""
    kept: tuple[str, ...]
    """Those whose results were written to the worker's disk."""
    claimed: tuple[str, ...]
    """Those that were begun with a claim."""
    scheduled: tuple[str, ...]
    """All calls, those of the server's tools included."""
    effects: dict[str, int]
    """How often each was done, as it was told or observed."""
    acting: frozenset[str]
    """Tools that told an effect."""
    one_by_one: bool = True
    """No two calls were under way at once, so that the n-th of anything is the n-th call's."""
    passes: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])


def baseline_of(evidence: Evidence) -> Baseline:
    """Return the measure that an undisturbed run gives."""
    tools = _tools_by_step(evidence)
    events = [event for event in evidence.events if event["kind"] == Kind.TASK_SCHEDULED]
    begun = [event["address"] for event in evidence.events if event["kind"] == Kind.TASK_BEGUN]
    calls = tuple(line.tool for line in evidence.bodies if line.what == START)
    repeatable = {event["address"] for event in events if event["data"]["delivery"] == Delivery.REPEATABLE}
    returned = [line for line in evidence.bodies if line.what == RETURN and line.step not in repeatable]
    return Baseline(
        seconds=evidence.seconds,
        turns=sum(entry.name == MODEL_REQUEST for entry in evidence.world),
        calls=calls,
        kept=tuple(line.tool for line in returned),
        claimed=tuple(tools.get(address, "") for address in begun),
        scheduled=tuple(event["data"]["tool"] for event in events),
        effects=dict(_effects(evidence)),
        acting=frozenset(tools[entry.step] for entry in evidence.told if entry.step in tools),
        one_by_one=_one_by_one(evidence),
        passes=evidence.passes,
    )


def _one_by_one(evidence: Evidence) -> bool:
    """Say whether each call had ended when the next was scheduled."""
    under_way = most = 0
    for event in evidence.events:
        under_way += event["kind"] == Kind.TASK_SCHEDULED
        under_way -= event["kind"] in (Kind.TASK_COMPLETED, Kind.TASK_FAILED)
        most = max(most, under_way)
    return most <= 1


def judge(evidence: Evidence, facts: Facts, client_log: Path, baseline: Baseline, strike: Strike) -> list[Finding]:
    """Return what is to be told of a run, the worst first."""
    case = _Judged(evidence, facts, baseline, strike)
    found = [
        *_processes(case),
        *_twice(case),
        *_checked(case, client_log),
        *_lost(case),
        *_uncounted(case),
        *_again(case),
        *_unknown(case),
    ]
    return sorted(found, key=lambda one: ("broken", "doubt", "waits").index(one.weight))


@dataclass(frozen=True, slots=True)
class _Judged:
    evidence: Evidence
    facts: Facts
    baseline: Baseline
    strike: Strike

    @property
    def tools(self) -> dict[str | None, str]:
        return _tools_by_step(self.evidence)

    def delivery(self, tool: str) -> str:
        known = self.facts.tools.get(tool)
        return known.delivery if known else Delivery.AT_LEAST_ONCE

    def starts(self) -> Counter[str]:
        """Count the starts of bodies by step."""
        return Counter(line.step for line in self.evidence.bodies if line.what == START)


def called(evidence: Evidence, baseline: Baseline, strike: Strike) -> str:
    """Return the tools whose calls were under way at the strike, as far as that can be told; else nothing."""
    tools = _tools_by_step(evidence)
    marked = (Kind.ATTEMPT_LOST, Kind.TASK_UNCERTAIN)
    hit = {event["address"] for event in evidence.events if event["kind"] in marked} & tools.keys()
    if hit:
        return ", ".join(sorted({tools[address] for address in hit}))
    if not baseline.one_by_one:
        return ""
    by_server = tuple(tool for tool in baseline.scheduled if tool not in baseline.calls)
    order = {
        "call.before": by_server,
        "call.after": by_server,
        "body.before": baseline.calls,
        "body.after": baseline.calls,
        "stop.before": baseline.calls,
        "stop.after": baseline.calls,
        "result.kept": baseline.kept,
        "begin.before": baseline.claimed,
        "begin.after": baseline.claimed,
        "begin.received": baseline.claimed,
        "commit.before": baseline.scheduled,
        "commit.after": baseline.scheduled,
    }.get(strike.boundary.name, ())
    return order[strike.nth - 1] if strike.nth <= len(order) else ""


def _tools_by_step(evidence: Evidence) -> dict[str | None, str]:
    scheduled = (event for event in evidence.events if event["kind"] == Kind.TASK_SCHEDULED)
    return {event["address"]: event["data"]["tool"] for event in scheduled}


# Rules.


def _processes(case: _Judged) -> Iterator[Finding]:
    evidence = case.evidence
    for broken in dict.fromkeys(evidence.broken):
        yield Finding("broken", "P9", broken)
    if not (evidence.ended or evidence.parked):
        yield Finding("broken", "P9", f"it did not end in time: {evidence.why}")
    elif evidence.ended and any(event["kind"] == Kind.FAILED for event in evidence.events[-1:]):
        said = str(evidence.events[-1]["data"].get("error", ""))
        yield Finding("broken", "P9", f"the run failed, which it does not without a crash: {said}")


def _twice(case: _Judged) -> Iterator[Finding]:
    """More of an effect than the undisturbed run had, and more than one."""
    evidence = case.evidence
    for effect, count in _effects(evidence).items():
        if count > (meant := max(1, case.baseline.effects.get(effect, 1))):
            tool = _culprit(case, effect)
            times = "once" if meant == 1 else f"{meant} times"
            what = f"{effect!r} was done {count} times; {times} was meant."
            yield Finding("broken", "once", what, _how(case, tool), _cures(case, tool))


def _how(case: _Judged, tool: str) -> str:
    starts = max((n for step, n in case.starts().items() if case.tools.get(step) == tool), default=0)
    mode = case.delivery(tool)
    ran = f"The body of {tool} started {starts} times" if starts else f"{tool or 'A call'} was tried again"
    allowed = {
        Delivery.REPEATABLE: "which `repeatable` allows: it says that a call changes nothing",
        Delivery.AT_LEAST_ONCE: "which `at_least_once` allows: it says that the receiver recognises the key",
        Delivery.TRANSACTIONAL: "which `transactional` allows: it says that effect and record are one transaction",
        Delivery.AT_MOST_ONCE: "the second time because it was ruled that it had not happened, and then it did",
    }[Delivery(mode)]
    return f"{ran}, {allowed}."


def _cures(case: _Judged, tool: str) -> tuple[str, ...]:
    """Return what the author of a tool that acted twice may do: any one of these."""
    name = tool or "the tool"
    known = case.facts.tools.get(tool)
    if case.delivery(tool) == Delivery.AT_MOST_ONCE:
        return (
            f"settle_seconds on {name}: so long may its request still be under way, and nobody may rule before",
            "a probe that makes sure before it answers, for example by cancelling what the key stands for",
        )
    once = f'delivery="at_most_once" on {name}: it is not run again by itself; a probe or a person rules'
    key = f"give ctx.idempotency_key to whatever {name} calls, if that recognises keys, and keep at_least_once"
    if known is not None and not known.by_worker:
        return (once, f"a receiver that recognises the Idempotency-Key, which {name} sends with every attempt")
    own = f'delivery="transactional" and perdure.ledger, if {name} writes into a database of your own'
    return (once, key, own)


def _culprit(case: _Judged, effect: str) -> str:
    """Return the tool that did an effect: the one that told it, else the only one whose body ran again."""
    tools = case.tools
    mine = [one for one in case.evidence.told if _plain(_identity(one), case.evidence) == effect]
    told = {tools[entry.step] for entry in mine if entry.step in tools}
    again = {step for step, count in case.starts().items() if count > 1}
    retried = {event["address"] for event in case.evidence.events if event["kind"] == Kind.ATTEMPT_LOST}
    found = told or {tools[step] for step in again or retried if step in tools}
    return next(iter(found)) if len(found) == 1 else ""


def _checked(case: _Judged, client_log: Path) -> Iterator[Finding]:
    """What the checker says, which counts starts of bodies as calls to the world."""
    evidence = case.evidence
    asked = [entry for entry in evidence.world if entry.name in (MODEL_REQUEST, MODEL_REPLY)]
    execution = str(evidence.view.get("id", ""))
    model = [_named(entry, execution) for entry in asked]
    history = History.parse({"id": execution, "state": evidence.view.get("state", "")}, evidence.events)
    silent = frozenset(name for name, tool in case.facts.tools.items() if not tool.by_worker)
    known = frozenset(case.facts.tools)
    unlisted = {tool for tool in case.tools.values() if tool not in known}
    expect = Expect(evidence.ended, silent | unlisted, late_attempts=case.strike.boundary.stops)
    report = check([*as_entries(evidence.bodies), *model], ClientLog(client_log), [history], expect)
    for one in report.violations:
        own = "This is for Perdure to mend, not for you: please report it."
        yield Finding("broken", one.promise, one.what + ".", own)


def _named(entry: Entry, execution: str) -> Entry:
    return Entry(
        n=entry.n,
        received_at_ms=entry.received_at_ms,
        name=entry.name,
        execution=entry.execution or execution,
        step=entry.step,
        body=entry.body,
        effect=entry.effect,
        fault=None,
    )


def _lost(case: _Judged) -> Iterator[Finding]:
    """A call that is recorded as done, of a tool that tells its effects, and told none."""
    told = {entry.step for entry in case.evidence.told}
    for event in case.evidence.events:
        tool = case.tools.get(event["address"], "")
        done = event["kind"] == Kind.TASK_COMPLETED and not event["data"].get("served")
        if done and tool in case.baseline.acting and event["address"] not in told:
            what = f"{tool} at {event['address']!r} is recorded as done, and its effect was never told."
            yield Finding("broken", "P2", what)


def _uncounted(case: _Judged) -> Iterator[Finding]:
    """An effect of the undisturbed run that `observe` did not count here, though every call was done."""
    evidence = case.evidence
    given_up = any(event["kind"] in (Kind.TASK_FAILED, Kind.EFFECT_RULED) for event in evidence.events)
    if not case.facts.observes or not evidence.ended or given_up:
        return
    done = _effects(evidence)
    for effect in (effect for effect, count in case.baseline.effects.items() if count > 0 and done[effect] < 1):
        how = (
            "Either it was lost, or what stands in for the receiver remembers earlier runs, and then later ones prove "
            "nothing: have it keep its records in the folder that PERDURE_CRASHTEST_DIR names."
        )
        yield Finding("doubt", "P2", f"{effect!r} was done in the undisturbed run, and was not counted here.", how)


def _again(case: _Judged) -> Iterator[Finding]:
    """A body that ran more than once, where nobody counts what it did."""
    if case.facts.observes:
        return
    for step, count in case.starts().items():
        tool = case.tools.get(step, "")
        if count < 2 or tool in case.baseline.acting or case.delivery(tool) != Delivery.AT_LEAST_ONCE:
            continue
        what = f"{tool} may be done twice: its body started {count} times with the same key, and nobody counted."
        how = (
            'If it changes nothing, say delivery="repeatable". Else have it counted, by tell_effect or `observe`: only '
            "that tells whether the receiver recognised the key."
        )
        yield Finding("doubt", "once", what, how, _cures(case, tool))


def _unknown(case: _Judged) -> Iterator[Finding]:
    """Calls of which nobody knew the outcome, how that was resolved; and calls that were given up."""
    last: dict[str, dict[str, Any]] = {}
    for event in case.evidence.events:
        if event["kind"] in (Kind.TASK_UNCERTAIN, Kind.EFFECT_RULED, Kind.TASK_COMPLETED, Kind.TASK_FAILED):
            last[event["address"]] = event
    for address, event in last.items():
        tool = case.tools.get(address, "")
        if event["kind"] == Kind.TASK_UNCERTAIN:
            known = case.facts.tools.get(tool)
            policy = f", or until it counts as `{known.counts_as}`" if known and known.counts_as else ""
            what = f"{tool} is uncertain and waits for a person to rule{policy}. It was not run again by itself."
            yield Finding("waits", "P3", what, str(event["data"].get("why", "")))
        elif event["kind"] == Kind.TASK_FAILED and case.evidence.ended:
            error = event["data"].get("error", "")
            how = "No try was left: `retries` says how many follow a failed one."
            yield Finding("doubt", "P2", f"{tool} was given up, and the model was told: {error}", how)


def asked_again(evidence: Evidence) -> int:
    """Return how many model requests were made again, because the server died before it had stored the reply."""
    asked = Counter(entry.step for entry in evidence.world if entry.name == MODEL_REQUEST)
    return sum(count - 1 for count in asked.values())


def resolved(evidence: Evidence) -> list[str]:
    """Say of each call whose outcome was unknown for a while how it became known."""
    tools = _tools_by_step(evidence)
    found: list[str] = []
    unknown: set[str] = set()
    for event in evidence.events:
        address, data = event["address"], event["data"]
        if event["kind"] == Kind.TASK_UNCERTAIN:
            unknown.add(address)
        elif address in unknown and event["kind"] == Kind.EFFECT_RULED:
            found.append(f"{tools.get(address)} was uncertain: ruled {data['ruling']!r} by {data['by']}")
            unknown.discard(address)
        elif address in unknown and event["kind"] == Kind.TASK_COMPLETED:
            found.append(f"{tools.get(address)} was uncertain: its worker reported after all")
    return found


# Effects.


def _effects(evidence: Evidence) -> Counter[str]:
    """Count what was done, by what makes two of them the same."""
    counts = Counter(_plain(_identity(entry), evidence) for entry in evidence.told)
    for key, count in evidence.observed.items():
        counts[_plain(key, evidence)] += count
    return counts


def _plain(effect: str, evidence: Evidence) -> str:
    """Leave the id of the execution out of an effect's name: it is another one in each run."""
    execution = str(evidence.view.get("id", ""))
    return effect.replace(f"{execution}/", "").replace(execution, "") if execution else effect


def _identity(entry: Entry) -> str:
    return f"{entry.name} {entry.key if entry.key is not None else entry.step or ''}".strip()
