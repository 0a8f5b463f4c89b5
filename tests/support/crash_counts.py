"""What a crash run came to in figures: kills that met an execution, steps, effects, bodies started twice, rulings.

Reads the same evidence as the checker, and judges nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from perdure.testing.evidence import MODEL_REPLY, MODEL_REQUEST, Entry, Event, History
from perdure.testing.rules import TERMINAL

STEP_KINDS = frozenset({"step_recorded", "task_completed", "task_failed", "timer_fired", "waitpoint_resolved"})
SETTLED = frozenset({"effect_ruled", "task_completed", "task_failed"})


def count(histories: Sequence[History], entries: Iterable[Entry], struck_at_ms: Iterable[int]) -> Counter[str]:
    """Return the figures. A strike counts while any execution is between its start and its end."""
    acts = [entry for entry in entries if entry.effect and entry.name not in (MODEL_REQUEST, MODEL_REPLY)]
    twice, again = _started_twice(histories, acts)
    return Counter(
        {
            "kills in flight": sum(any(_in_flight(one, at) for one in histories) for at in struck_at_ms),
            "executions": len(histories),
            "steps": sum(event.kind in STEP_KINDS for one in histories for event in one.events),
            "effects": len(acts),
            "at_most_once bodies started twice": twice,
            "at_most_once bodies started again on somebody's word": again,
            "attempts lost": sum(event.kind == "attempt_lost" for one in histories for event in one.events),
            "takeovers": sum(event.kind == "taken_over" for one in histories for event in one.events),
        }
    )


def resolved(histories: Iterable[History]) -> Counter[str]:
    """Return how each effect that was uncertain came to be certain; one that did not is `still uncertain`."""
    found: Counter[str] = Counter()
    for history in histories:
        open_: dict[str, str] = {}
        for event in history.events:
            if event.kind == "task_uncertain":
                open_[event.address] = "still uncertain"
            elif event.kind in SETTLED and event.address in open_:
                found[_how(event)] += 1
                del open_[event.address]
        found.update(open_.values())
    return found


def _how(event: Event) -> str:
    if event.kind != "effect_ruled":
        return "the holder's late report"
    by = str(event.data.get("by") or "")
    return f"ruled {event.data.get('ruling')}" + (f" by {by}" if by else "")


def _in_flight(history: History, at_ms: int) -> bool:
    events = history.events
    ended = events[-1].at_ms if events and events[-1].kind in TERMINAL else at_ms
    return bool(events) and events[0].at_ms <= at_ms <= ended


def _started_twice(histories: Iterable[History], acts: Iterable[Entry]) -> tuple[int, int]:
    """Return how many bodies started beyond the first of a step, without and with a ruling that asked for it."""
    starts = Counter((entry.execution, entry.step) for entry in acts)
    twice = again = 0
    for history in histories:
        steps = [event for event in history.events if event.kind == "task_scheduled"]
        for step in steps:
            if step.data.get("delivery") != "at_most_once":
                continue
            more = max(0, starts[history.id, step.address] - 1)
            allowed = sum(_lets_it_run(event) for event in history.events if event.address == step.address)
            again += min(more, allowed)
            twice += max(0, more - allowed)
    return twice, again


def _lets_it_run(event: Event) -> bool:
    ruled = event.kind == "effect_ruled" and event.data.get("ruling") == "run"
    return ruled or (event.kind == "attempt_failed" and event.data.get("code") == "not_done")
