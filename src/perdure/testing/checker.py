"""Judge what was promised by what happened: `check(entries, client, histories)`.

Reads the world's log, a client's log and the public history, never the product's tables or code. Works as well
offline, on what was exported from somebody's own system.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from perdure.testing.cases import MODEL_ADDRESS, Case, Expect, Violation, build_cases, is_late, is_reply
from perdure.testing.client_log import Asked, ClientLog, pair
from perdure.testing.evidence import MODEL_REPLY, MODEL_REQUEST, ClientLine, Entry, History
from perdure.testing.rules import RULES, TASK_ENDED, TERMINAL

__all__ = ["ClientLog", "Entry", "Expect", "History", "Report", "Summary", "Violation", "check"]


@dataclass(frozen=True, slots=True)
class Summary:
    """What it took."""

    executions: int = 0
    ended: int = 0
    model_calls_made: int = 0
    """Requests that reached the model, whole."""
    model_calls_reused: int = 0
    """Recorded replies that a later holder took from the log and did not buy again."""
    model_calls_maybe_paid_twice: int = 0
    """Requests beyond the first of a step that the model did not refuse."""
    effects: int = 0
    uncertain: int = 0
    """Steps whose outcome was unknown at some time."""
    late_calls: int = 0
    """Calls of attempts given up that reached the world after another had ended the step."""
    attempts: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Per execution and step."""


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict."""

    violations: tuple[Violation, ...]
    counts: Summary

    @property
    def ok(self) -> bool:
        """Every promise held, as far as this evidence shows."""
        return not self.violations

    def summary(self) -> Summary:
        """Return the counts."""
        return self.counts

    def __str__(self) -> str:
        verdict = "every promise held" if self.ok else f"{len(self.violations)} violations"
        return "\n".join([f"{verdict} in {self.counts.executions} executions", *map(str, self.violations)])


def check(
    entries: Iterable[Entry],
    client: ClientLog | Iterable[ClientLine],
    histories: Iterable[History],
    expect: Expect | None = None,
) -> Report:
    """Return every violation that the evidence shows, and the counts.

    `histories` must hold all executions that acted on this world or were started through this client.
    """
    entries, histories, expect = list(entries), list(histories), expect or Expect()
    asked = pair(client.lines() if isinstance(client, ClientLog) else client)
    cases = build_cases(entries, asked, histories, expect)
    violations = [violation for case in cases for rule in RULES for violation in rule(case)]
    violations += _starts_are_kept(asked, histories)
    violations += _decisions_are_kept(asked, histories)
    violations += _keys_are_unique(entries)
    violations += _strangers(entries, histories)
    violations += _recorded_is_kept(expect.earlier, histories)
    violations += _forks_tell_the_truth(histories)
    return Report(tuple(violations), _summarise(entries, cases))


def _starts_are_kept(asked: list[Asked], histories: list[History]) -> Iterator[Violation]:
    """An accepted start exists, and one key started one execution."""
    known = {history.id for history in histories}
    by_key: dict[str, set[str]] = defaultdict(set)
    for start in asked:
        if start.op != "start" or start.outcome != "ok":
            continue
        execution = start.execution or "?"
        if execution not in known:
            yield Violation("P9", "I1", execution, "its start was accepted, and there is no such execution")
        if key := start.value.get("key"):
            by_key[key].add(execution)
    for key, started in by_key.items():
        if len(started) > 1:
            yield Violation("P9", "I1", min(started), f"key {key!r} started {len(started)} executions")


def _decisions_are_kept(asked: list[Asked], histories: list[History]) -> Iterator[Violation]:
    """An accepted decision is in the log, once, as it was made."""
    answers: dict[str, list[str]] = defaultdict(list)
    for history in histories:
        for event in history.events:
            if event.kind == "waitpoint_resolved" and event.seq > history.inherited:
                answers[str(event.data.get("id") or event.address)].append(str(event.data.get("decision")))
    for decision in asked:
        if decision.op != "decide" or decision.outcome != "ok":
            continue
        wait, wanted = str(decision.value.get("approval")), str(decision.value.get("decision"))
        if answers[wait] != [wanted]:
            found = answers[wait] or "nothing"
            what = f"approval {wait}: accepted {wanted!r}, the log has {found}"
            yield Violation("P9", "I7", decision.execution or "", what)


def _keys_are_unique(entries: list[Entry]) -> Iterator[Violation]:
    """No two steps share an idempotency key."""
    owners: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for entry in entries:
        if entry.key is not None:
            owners[entry.key].add((entry.execution or "", entry.step or ""))
    for key, steps in owners.items():
        if len(steps) > 1:
            yield Violation("P2", "I5", min(steps)[0], f"key {key!r} was used by {len(steps)} steps: {sorted(steps)}")


def _strangers(entries: list[Entry], histories: list[History]) -> Iterator[Violation]:
    """Everything done to the world was done by an execution that exists."""
    known = {history.id for history in histories}
    for entry in entries:
        if entry.execution not in known:
            yield Violation("P8", "I1", entry.execution or "", f"{entry.name} {entry.n} belongs to no known execution")


def _recorded_is_kept(earlier: Iterable[History], histories: list[History]) -> Iterator[Violation]:
    """What was read once is still there, unchanged."""
    now = {history.id: history.events for history in histories}
    for before in earlier:
        after = now.get(before.id, ())
        for old, new in zip(before.events, [*after, *[None] * len(before.events)], strict=False):
            if old != new:
                what = f"seq {old.seq} was {old.kind} {dict(old.data)}, now {new and (new.kind, dict(new.data))}"
                yield Violation("P1", "I2", before.id, what)
                break


def _forks_tell_the_truth(histories: list[History]) -> Iterator[Violation]:
    """A result that a fork took from its origin is the one that its origin has at that address."""
    by_id = {history.id: history for history in histories}
    for history in histories:
        for event in history.events:
            if event.kind not in TASK_ENDED or "origin" not in event.data:
                continue
            origin = by_id.get(str(event.data["origin"]))
            ends = (
                [(one.kind, one.data.get("value")) for one in origin.events if one.address == event.address]
                if origin
                else []
            )
            if origin is not None and (event.kind, event.data.get("value")) not in ends:
                what = f"{event.address}: its result is said to be that of {origin.id}, which has another or none"
                yield Violation("P8", "I2", history.id, what)


def _summarise(entries: list[Entry], cases: list[Case]) -> Summary:
    steps = [(case, step) for case in cases for step in case.steps.values()]
    attempts: dict[str, dict[str, int]] = {}
    for case, step in steps:
        if step.requests or step.first("task_scheduled"):
            attempts.setdefault(case.history.id, {})[step.address] = step.attempts()
    return Summary(
        executions=len(cases),
        ended=sum(case.history.state in TERMINAL for case in cases),
        model_calls_made=sum(entry.name == MODEL_REQUEST for entry in entries),
        model_calls_reused=sum(map(_reused, cases)),
        model_calls_maybe_paid_twice=sum(max(0, step.maybe_paid() - 1) for _, step in steps),
        effects=sum(entry.effect for entry in entries if entry.name not in (MODEL_REQUEST, MODEL_REPLY)),
        uncertain=sum(bool(step.first("task_uncertain")) for _, step in steps),
        late_calls=sum(
            is_late(call, end, case.expect)
            for case, step in steps
            if (end := step.first(*TASK_ENDED))
            for call in step.calls
        ),
        attempts=attempts,
    )


def _reused(case: Case) -> int:
    """Count the model replies that were recorded before the last takeover."""
    takeovers = [event.seq for event in case.events("taken_over")]
    recorded = [event for event in case.events("step_recorded") if MODEL_ADDRESS.search(event.address)]
    return sum(event.seq < max(takeovers, default=0) and is_reply(event) for event in recorded)
