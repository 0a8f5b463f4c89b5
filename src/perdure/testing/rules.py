"""The promises, each as a rule over the evidence of one execution or of all. Pure; shares no code with the runtime.

A rule yields a `Violation` for each thing that a kept promise excludes. It names the promise to users: P1 recorded is
final, P2 `at_least_once`, P3 `at_most_once`, P5 fenced, P6 waits are durable, P8 answerable, P9 accepted is durable;
and the invariant behind it: I1 accepted exists, I2 one result, I3 no call after the end, I4 at most one effect per key,
I5 one key per step, I6 fences rise, I7 decisions once, I8 timers, I9 cancel and end are final, I12 everything ends.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from perdure.testing.cases import (
    MODEL_ADDRESS,
    Case,
    Step,
    Violation,
    is_late,
    is_reply,
    left_at_ms,
    requests_recorded,
)
from perdure.testing.evidence import Entry, Event

KINDS = frozenset(
    "started taken_over step_recorded task_scheduled task_begun attempt_failed attempt_lost task_completed task_failed "
    "task_uncertain effect_ruled waitpoint_opened waitpoint_resolved timer_set timer_fired message paused resumed "
    "stop_requested cancel_requested stuck completed failed cancelled task_revived effect_contradicted approval_voted "
    "approval_escalated signal child_started child_ended step_mapped forked".split()
)
TERMINAL = frozenset({"completed", "failed", "cancelled"})
TASK_ENDED = frozenset({"task_completed", "task_failed"})
ONCE = frozenset({"step_recorded", "task_scheduled", "timer_set", "timer_fired", "waitpoint_opened"})
ATTEMPTS = frozenset({"task_begun", "attempt_failed", "attempt_lost", "task_uncertain"})
ASKED_FOR = {"pause": "paused", "resume": "resumed", "stop": "stop_requested", "cancel": "cancel_requested"}

STORE_AHEAD_MS = 150
"""How far the store's clock, which never goes back, may run ahead of the machine's: after a crash, for that long."""


def log_is_whole(case: Case) -> Iterator[Violation]:
    """Events are numbered from 1 without gaps, of known kinds, and begin with one `started`."""
    events = case.history.events
    for expected, event in enumerate(events, start=1):
        if event.seq != expected:
            yield case.broken("P1", "I2", f"seq {event.seq} stands where {expected} belongs")
            break
    for event in events:
        if event.kind not in KINDS:
            yield case.broken("P8", "I2", f"seq {event.seq} is of unknown kind {event.kind!r}")
    if [event.seq for event in events if event.kind == "started"] != [1]:
        yield case.broken("P9", "I1", "its log does not begin with the one `started`")


def terminal_is_final(case: Case) -> Iterator[Violation]:
    """At most one end, nothing after it, and the state says the same."""
    ends = case.events(*TERMINAL)
    last = case.history.events[-1] if case.history.events else None
    if ends and last and last.seq != ends[0].seq:
        yield case.broken("P1", "I9", f"{last.kind} at seq {last.seq} follows {ends[0].kind} at seq {ends[0].seq}")
    shown = case.history.state if case.history.state in TERMINAL else None
    logged = ends[0].kind if ends else None
    if shown != logged:
        yield case.broken("P8", "I9", f"its state is {case.history.state}, its log ends with {last and last.kind}")
    if case.expect.ended and not ends:
        yield case.broken("P9", "I12", f"it has not ended: {case.history.state} after {last and last.kind}")


def one_result_per_step(case: Case) -> Iterator[Violation]:
    """A step is asked for once and answered once, and nothing is tried after its answer."""
    for step in case.steps.values():
        counts = Counter(event.kind for event in step.events)
        for kind in sorted(ONCE):
            if counts[kind] > 1:
                yield case.broken("P1", "I2", f"{step.address}: {counts[kind]} events {kind}")
        ends = _standing_ends(step)
        if len(ends) > 1:
            kinds = ", ".join(event.kind for event in ends)
            yield case.broken("P1", "I2", f"{step.address}: ended {len(ends)} times ({kinds})")
        for event in step.all(*ATTEMPTS):
            if ends and event.seq > ends[0].seq:
                yield case.broken("P1", "I3", f"{step.address}: {event.kind} at seq {event.seq} after {ends[0].kind}")


def _standing_ends(step: Step) -> list[Event]:
    """Return the ends of a step that nobody took back: a dead task may be put back on its queue, and ends once more."""
    ends: list[Event] = []
    for event in step.events:
        if event.kind == "task_revived":
            ends = ends[:-1]
        elif event.kind in TASK_ENDED:
            ends.append(event)
    return ends


def no_call_after_the_end(case: Case) -> Iterator[Violation]:
    """No call of a step reaches the world once its end is recorded, unless somebody put it back on its queue."""
    for step in case.steps.values():
        end = next(iter(_standing_ends(step)), None)
        if end is None:
            continue
        for call in step.calls:
            last = end.data.get("attempt")
            if call.attempt and last and call.attempt > last:
                what = f"call {call.n} is of attempt {call.attempt}; attempt {last} had ended it"
                yield case.broken("P1", "I3", f"{step.address}: {what}")
            elif is_late(call, end, case.expect) and not (case.expect.late_attempts and _was_given_up(step, call)):
                late = call.received_at_ms - end.at_ms
                yield case.broken("P1", "I3", f"{step.address}: call {call.n} came {late} ms after {end.kind}")


def no_step_after_its_record(case: Case) -> Iterator[Violation]:
    """No step of a durable function reaches the world once it is recorded: a run from the log does not do it again."""
    for step in case.steps.values():
        recorded = step.first("step_recorded")
        if recorded is None or case.expect.late_attempts:
            continue
        for call in step.calls:
            if is_late(call, recorded, case.expect):
                late = call.received_at_ms - recorded.at_ms
                yield case.broken("P1", "I3", f"{step.address}: call {call.n} came {late} ms after it was recorded")


def _was_given_up(step: Step, call: Entry) -> bool:
    given_up = {
        event.data.get("attempt")
        for event in step.all("attempt_lost", "attempt_failed", "task_failed", "task_uncertain")
    }
    return call.attempt in given_up


def at_most_once(case: Case) -> Iterator[Violation]:
    """A claim precedes the body, is never released, and lets it start once. Done is one effect, unknown is 0 or 1."""
    for step, scheduled in _tasks(case, "at_most_once"):
        taken_back = [event for event in step.all("attempt_failed") if event.data.get("code") == "not_done"]
        allowed = 1 + step.rulings("run") + len(taken_back)  # its author's word that nothing happened
        begun = step.all("task_begun")
        if len(step.calls) > allowed:
            yield case.broken(
                "P3", "I4", f"{step.address}: its body started {len(step.calls)} times, {allowed} allowed"
            )
        if len(begun) > allowed:
            yield case.broken("P3", "I4", f"{step.address}: {len(begun)} claims, {allowed} allowed")
        for call in step.calls:
            if not any(b.at_ms <= call.received_at_ms + STORE_AHEAD_MS + case.expect.clock_slack_ms for b in begun):
                yield case.broken("P3", "I4", f"{step.address}: call {call.n} came before any claim was recorded")
        for event, following in pairwise(step.events):
            released = (
                following.kind in ("task_begun", "attempt_failed", "attempt_lost") and following not in taken_back
            )
            if event.kind == "task_begun" and released:
                yield case.broken("P3", "I4", f"{step.address}: claim released: {following.kind} at {following.seq}")
        vouched = step.rulings("happened") > 0  # somebody's word, not the world's
        if _should_have_acted(step, scheduled, case) and not vouched:
            yield case.broken("P3", "I4", f"{step.address}: done, and the world saw nothing")


def at_least_once(case: Case) -> Iterator[Violation]:
    """A finished action acted, and every attempt carried the key that the log names."""
    for step, scheduled in _tasks(case, "at_least_once"):
        if _should_have_acted(step, scheduled, case):
            yield case.broken("P2", "I5", f"{step.address}: done, and the world saw nothing")
    for step, scheduled in _tasks(case, "at_least_once", "at_most_once"):
        for call in step.calls:
            if call.key != scheduled.data.get("key"):
                what = f"call {call.n} carried key {call.key!r}, the log says {scheduled.data.get('key')!r}"
                yield case.broken("P2", "I5", f"{step.address}: {what}")


def _tasks(case: Case, *deliveries: str) -> Iterator[tuple[Step, Event]]:
    for step in case.steps.values():
        scheduled = step.first("task_scheduled")
        if scheduled and scheduled.data.get("delivery") in deliveries:
            yield step, scheduled


def _should_have_acted(step: Step, scheduled: Event, case: Case) -> bool:
    silent = scheduled.data.get("tool") in case.expect.silent_tools
    done = step.first("task_completed")
    # A fork takes the result of its origin, which has acted: see the rule over all histories.
    ran = done is not None and not {"served", "origin"} & done.data.keys() and done.seq > case.history.inherited
    return ran and not silent and not any(call.effect for call in step.calls)


def served(case: Case) -> Iterator[Violation]:
    """What got the receipt of an equal act did not act itself, and that act was done."""
    for step, _ in _tasks(case, "at_least_once", "at_most_once"):
        done = step.first("task_completed")
        if done is None or "served" not in done.data:
            continue
        if step.calls:
            yield case.broken("P3", "I4", f"{step.address}: served, and its body started {len(step.calls)} times")
        first = case.steps.get(str(done.data["served"]))
        if first is None or not (first.first("task_completed") or first.rulings("happened")):
            yield case.broken("P3", "I4", f"{step.address}: served by {done.data['served']}, which was never done")


def model_calls(case: Case) -> Iterator[Violation]:
    """No request follows its recorded reply, and each repeated one has a reason in the log."""
    bought_here = any(step.requests for step in case.steps.values())
    for step in case.steps.values():
        recorded = step.first("step_recorded")
        if recorded is None or not MODEL_ADDRESS.search(step.address) or recorded.seq <= case.history.inherited:
            continue
        if bought_here and is_reply(recorded) and not step.requests:
            yield case.broken("P8", "I2", f"{step.address}: a reply is recorded that nobody asked the model for")
        for request in step.requests:
            late = left_at_ms(request, case.expect) - recorded.at_ms
            if late > case.expect.clock_slack_ms:
                yield case.broken("P1", "I3", f"{step.address}: requested again {late} ms after its reply was recorded")
        takeovers = sum(event.seq < recorded.seq for event in case.events("taken_over"))
        # A retry after a fault of the world, or a refusal, explains itself.
        sound = sum(request.fault is None for request in step.requests) - step.refused()
        explained = max(1, requests_recorded(recorded)) + takeovers
        if sound > explained:
            yield case.broken("P1", "I3", f"{step.address}: {sound} requests, the log explains {explained}")


def cancel_stops_new_calls(case: Case) -> Iterator[Violation]:
    """After a cancel, nothing scheduled before it begins, and no attempt and no model request starts."""
    cancel = next(iter(case.events("cancel_requested")), None)
    if cancel is None:
        return
    for step in case.steps.values():
        scheduled = step.first("task_scheduled")
        if scheduled and scheduled.seq < cancel.seq:
            yield from _starts_after(case, step, cancel)
    acked = [asked.known_ms for asked in case.accepted("cancel")]
    for step in case.steps.values():
        for request in step.requests:
            late = left_at_ms(request, case.expect) - min(acked, default=math.inf)
            if late > case.expect.cancel_grace_ms:
                yield case.broken("P9", "I9", f"{step.address}: model request {late} ms after the cancel was accepted")


def _starts_after(case: Case, step: Step, cancel: Event) -> Iterator[Violation]:
    for begun in step.all("task_begun"):
        if begun.seq > cancel.seq:
            yield case.broken("P9", "I9", f"{step.address}: begun at seq {begun.seq}, cancelled at {cancel.seq}")
    over = [event for event in step.all("attempt_failed", "attempt_lost") if event.seq < cancel.seq]
    running = 1 + max([len(over), *(int(event.data.get("attempt") or 0) for event in over)])
    for call in step.calls:
        if (call.attempt or 0) > running and is_late(call, cancel, case.expect):
            yield case.broken("P9", "I9", f"{step.address}: attempt {call.attempt} started after the cancel")


def approvals_are_followed(case: Case) -> Iterator[Violation]:
    """A wait is answered once; what needed a yes acts only after it, and never after a no."""
    answers = Counter(_wait_of(event) for event in case.events("waitpoint_resolved"))
    for wait, count in answers.items():
        if count > 1:
            yield case.broken("P6", "I7", f"{wait}: answered {count} times")
    for opened in case.events("waitpoint_opened"):
        if opened.data.get("kind", "approval") != "approval":
            continue
        answer = next((e for e in case.events("waitpoint_resolved") if _wait_of(e) == _wait_of(opened)), None)
        for step in case.steps.values():
            if _stands_on(step, opened.address):
                yield from _calls_against(case, step, answer)


def _stands_on(step: Step, approval: str) -> bool:
    scheduled = step.first("task_scheduled")
    named = scheduled is not None and scheduled.data.get("approval") == approval
    return named or approval == step.address or approval.startswith(step.address + "/")


def _calls_against(case: Case, step: Step, answer: Event | None) -> Iterator[Violation]:
    for call in step.calls:
        if answer is None or answer.data.get("decision") != "approve":
            yield case.broken("P6", "I7", f"{step.address}: call {call.n} without an approval")
        elif call.received_at_ms + STORE_AHEAD_MS + case.expect.clock_slack_ms < answer.at_ms:
            yield case.broken("P6", "I7", f"{step.address}: call {call.n} came before its approval")


def _wait_of(event: Event) -> str:
    return str(event.data.get("id") or event.address)


def timers_fire_once_and_not_early(case: Case) -> Iterator[Violation]:
    """A timer fires at or after the time it was set to, by the store's clock."""
    for step in case.steps.values():
        fired, set_ = step.first("timer_fired"), step.first("timer_set")
        if fired and set_ and fired.at_ms < int(set_.data.get("due_ms") or 0):
            early = int(set_.data["due_ms"]) - fired.at_ms
            yield case.broken("P6", "I8", f"{step.address}: fired {early} ms early")
        if fired and not set_:
            yield case.broken("P6", "I8", f"{step.address}: fired, and was never set")


def fences_rise(case: Case) -> Iterator[Violation]:
    """Each new holder has a higher fence than the last."""
    fences = [int(event.data["fence"]) for event in case.events("taken_over") if "fence" in event.data]
    if any(later <= sooner for sooner, later in pairwise(fences)):
        yield case.broken("P5", "I6", f"fences do not rise: {fences}")


def requests_are_recorded(case: Case) -> Iterator[Violation]:
    """What a client was told had been accepted is in the log."""
    end = next(iter(case.events(*TERMINAL)), None)
    for op, kind in ASKED_FOR.items():
        for asked in case.accepted(op):
            moot = (end is not None and end.at_ms <= asked.known_ms) or (
                op == "pause" and case.events("cancel_requested")
            )
            if not case.events(kind) and not moot:
                yield case.broken("P9", "I9" if op == "cancel" else "I7", f"accepted {op} is not in the log")
    for asked in case.accepted("rule"):
        ruled = [event for event in case.events("effect_ruled") if event.address == asked.value.get("address")]
        if [event.data.get("ruling") for event in ruled].count(asked.value.get("ruling")) < 1:
            yield case.broken("P9", "I7", f"accepted ruling on {asked.value.get('address')} is not in the log")
    yield from _messages_once(case)


def _messages_once(case: Case) -> Iterator[Violation]:
    messages = case.events("message")
    counts = Counter(event.data.get("dedupe") for event in messages if event.data.get("dedupe"))
    for dedupe, count in counts.items():
        if count > 1:
            yield case.broken("P6", "I7", f"message {dedupe!r} is in the log {count} times")
    sent = case.accepted("send")
    for asked in sent:
        dedupe = asked.value.get("dedupe")
        if dedupe and not counts[dedupe]:
            yield case.broken("P9", "I7", f"accepted message {dedupe!r} is not in the log")
    plain = sum(not asked.value.get("dedupe") for asked in sent)
    if len(messages) - counts.total() < plain:
        yield case.broken("P9", "I7", f"{plain} messages without a dedupe key accepted, fewer are in the log")


def calls_are_accounted_for(case: Case) -> Iterator[Violation]:
    """Everything that reached the world in an execution's name belongs to a step of its log."""
    for step in case.steps.values():
        if step.calls and not step.first("task_scheduled", "task_begun", "step_recorded"):
            yield case.broken("P8", "I3", f"call {step.calls[0].n} names step {step.address!r}, which the log has not")


RULES: tuple[Callable[[Case], Iterator[Violation]], ...] = (
    log_is_whole,
    terminal_is_final,
    one_result_per_step,
    no_call_after_the_end,
    no_step_after_its_record,
    at_most_once,
    at_least_once,
    served,
    model_calls,
    cancel_stops_new_calls,
    approvals_are_followed,
    timers_fire_once_and_not_early,
    fences_rise,
    requests_are_recorded,
    calls_are_accounted_for,
)
"""The rules that need the evidence of one execution only."""
