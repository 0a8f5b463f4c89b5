"""The evidence sorted by execution and step, so that a rule reads only what it is about.

Pure; shares no code with the runtime.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from perdure.testing.client_log import Asked
from perdure.testing.evidence import BEGUN_AT_MS, MODEL_REPLY, MODEL_REQUEST, Entry, Event, History

MODEL_ADDRESS = re.compile(r"(^|/)model(/\d+)?$")
"""Where an agent's model calls are recorded: `turn 3/model`, and `turn 3/model/2` when it had to wait in between."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise, with what shows it."""

    promise: str
    invariant: str
    execution: str
    what: str

    def __str__(self) -> str:
        return f"{self.promise}/{self.invariant} {self.execution or '-'}: {self.what}"


@dataclass(frozen=True, slots=True)
class Expect:
    """What a checker cannot know from the evidence."""

    ended: bool = True
    """Faults are over and everything had time to end: an execution that has not is a violation."""
    silent_tools: frozenset[str] = frozenset()
    """Tools that never act on the world, whatever their delivery."""
    late_attempts: bool = False
    """Attempts that the log calls lost or failed may still reach the world later: a stopped process woke up, or a
    thread could not be ended; and so may a model request, if it says that it was begun in time (`begun_at_ms`).
    Without it (kills only) such a call is a violation."""
    cancel_grace_ms: int = 1000
    """Time after an acknowledged cancel in which a model request may still leave."""
    clock_slack_ms: int = 0
    """Difference of clocks, when store and world are on two machines."""
    earlier: tuple[History, ...] = ()
    """Histories read before, each of which must still be there, unchanged."""


@dataclass(frozen=True)
class Step:
    """Everything about one address of an execution."""

    address: str
    events: list[Event] = field(default_factory=list[Event])
    calls: list[Entry] = field(default_factory=list[Entry])
    requests: list[Entry] = field(default_factory=list[Entry])
    """Model requests."""
    replies: list[Entry] = field(default_factory=list[Entry])
    """What the model answered, or would have answered to those who were gone by then."""

    def first(self, *kinds: str) -> Event | None:
        """Return the first event of these kinds."""
        return next((event for event in self.events if event.kind in kinds), None)

    def all(self, *kinds: str) -> list[Event]:
        """Return the events of these kinds."""
        return [event for event in self.events if event.kind in kinds]

    def rulings(self, ruling: str) -> int:
        """Count the rulings of one sort."""
        return sum(event.data.get("ruling") == ruling for event in self.all("effect_ruled"))

    def attempts(self) -> int:
        """Return how often it was tried, as far as either witness knows."""
        numbers = [int(event.data.get("attempt") or 0) for event in self.events]
        return max([*numbers, *(call.attempt or 0 for call in self.calls), len(self.requests)], default=0)

    def maybe_paid(self) -> int:
        """Return how many model requests may have to be paid for: those that the model did not refuse."""
        return sum(request.effect for request in self.requests) - self.refused()

    def refused(self) -> int:
        """Return how many model requests were answered by a refusal."""
        return sum(not reply.effect for reply in self.replies)


@dataclass(frozen=True)
class Case:
    """The evidence about one execution."""

    history: History
    steps: dict[str, Step]
    asked: list[Asked]
    expect: Expect

    def events(self, *kinds: str) -> list[Event]:
        """Return the execution's events of these kinds."""
        return [event for event in self.history.events if event.kind in kinds]

    def accepted(self, op: str) -> list[Asked]:
        """Return what a client was told had been accepted."""
        return [asked for asked in self.asked if asked.op == op and asked.outcome == "ok"]

    def broken(self, promise: str, invariant: str, what: str) -> Violation:
        """Name a violation of this execution."""
        return Violation(promise, invariant, self.history.id, what)


def build_cases(
    entries: Iterable[Entry], asked: Iterable[Asked], histories: Iterable[History], expect: Expect
) -> list[Case]:
    """Sort the evidence by execution and step."""
    by_execution: dict[str | None, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_execution[entry.execution].append(entry)
    by_asked: dict[str | None, list[Asked]] = defaultdict(list)
    for question in asked:
        by_asked[question.execution].append(question)
    return [
        Case(history, _steps(history, by_execution[history.id]), by_asked[history.id], expect) for history in histories
    ]


def _steps(history: History, entries: list[Entry]) -> dict[str, Step]:
    steps: dict[str, Step] = {}
    for event in history.events:
        if event.address:
            steps.setdefault(event.address, Step(event.address)).events.append(event)
    for entry in entries:
        step = steps.setdefault(entry.step or "", Step(entry.step or ""))
        if entry.name == MODEL_REQUEST:
            step.requests.append(entry)
        elif entry.name == MODEL_REPLY:
            step.replies.append(entry)
        else:
            step.calls.append(entry)
    return steps


def is_late(call: Entry, end: Event, expect: Expect) -> bool:
    """Say whether the world saw `call` after `end` was recorded."""
    return call.received_at_ms > end.at_ms + expect.clock_slack_ms


def left_at_ms(request: Entry, expect: Expect) -> int:
    """Return when a model request was sent: when the world saw it or, where processes are stopped, when it was begun.

    One that is stopped while it sends goes on sending, however late: no look at a lease comes after that.
    """
    begun = request.body.get(BEGUN_AT_MS)
    return begun if expect.late_attempts and isinstance(begun, int) else request.received_at_ms


def is_reply(recorded: Event) -> bool:
    """Say whether a recorded model step holds a reply, and not that none will come."""
    return _outcome(recorded).get("outcome", "replied") == "replied"


def requests_recorded(recorded: Event) -> int:
    """Return how many requests the log says a model step took."""
    return int(_outcome(recorded).get("requests") or 0)


def _outcome(recorded: Event) -> Mapping[str, Any]:
    value = recorded.data.get("value")
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
