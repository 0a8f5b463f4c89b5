"""Evidence about one execution as a checker reads it: good stories, to be spoilt by tests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from perdure.testing.checker import Expect, Report, check
from perdure.testing.evidence import ClientLine, Entry, History

MAIL, REFUND = "turn 1/tool/c1", "turn 1/tool/c2"
YES = "turn 1/yes/c2"
MODEL_1, MODEL_2 = "turn 1/model", "turn 2/model"
START_MS = 1_700_000_000_000


@dataclass
class Story:
    """The evidence about one execution, to be spoilt. Event `n` is recorded 1,000 ms after the one before."""

    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    entries: list[Entry] = field(default_factory=list[Entry])
    lines: list[ClientLine] = field(default_factory=list[ClientLine])
    state: str = "completed"
    expect: Expect = Expect()  # noqa: RUF009 - frozen

    def event(self, kind: str, address: str = "", /, **data: Any) -> None:
        seq = len(self.events) + 1
        self.events.append(
            {"seq": seq, "kind": kind, "address": address, "data": data, "at_ms": START_MS + seq * 1_000}
        )

    def call(self, name: str, step: str, after: int, **more: Any) -> None:
        """Add a call that the world received just after event `after`."""
        key = None if name.startswith("model_") else f"exe_1/{step}"
        at_ms = START_MS + after * 1_000 + 500
        entry = Entry(len(self.entries) + 1, at_ms, name, "exe_1", step, key)
        self.entries.append(replace(entry, **more))

    def asked(self, op: str, after: int, outcome: str = "ok", **value: Any) -> None:
        call = f"c-{len(self.lines)}"
        at_ms = START_MS + after * 1_000
        self.lines.append(ClientLine(call, "invoke", op, at_ms, None if op == "start" else "exe_1", value))
        self.lines.append(ClientLine(call, outcome, op, at_ms + 100, "exe_1"))

    def find(self, kind: str, address: str = "") -> dict[str, Any]:
        return next(e for e in self.events if e["kind"] == kind and e["address"].startswith(address))

    def drop(self, kind: str, address: str = "") -> None:
        """Take an event out and close the gap in the numbers, as an engine that forgot it would."""
        self.events.remove(self.find(kind, address))
        for seq, event in enumerate(self.events, 1):
            event["seq"] = seq

    def end_at(self, kind: str) -> None:
        """Let the log end before the first event of a kind."""
        del self.events[self.events.index(self.find(kind)) :]

    def history(self) -> History:
        return History.parse({"id": "exe_1", "state": self.state}, self.events)

    def check(self) -> Report:
        return check(self.entries, self.lines, [self.history()], self.expect)


def good() -> Story:
    """Return a run with a lost attempt, an approval, a claim, a takeover in mid-call, a timer and a message."""
    story = Story()
    story.event("started")
    story.event("step_recorded", MODEL_1, value={"outcome": "replied", "requests": 1})
    story.event("task_scheduled", MAIL, tool="mail", delivery="at_least_once", key=f"exe_1/{MAIL}")
    refund = {"tool": "refund", "delivery": "at_most_once", "key": f"exe_1/{REFUND}", "approval": YES}
    story.event("task_scheduled", REFUND, **refund)
    story.event("waitpoint_opened", YES, id="wp_1", kind="approval")
    story.event("attempt_lost", MAIL, attempt=1)
    story.event("task_completed", MAIL, attempt=2)
    story.event("waitpoint_resolved", YES, id="wp_1", decision="approve")
    story.event("task_begun", REFUND, attempt=1)
    story.event("task_completed", REFUND, attempt=1)
    story.event("taken_over", fence=3)
    story.event("timer_set", "turn 2/wait", due_ms=START_MS + 13_000)
    story.event("timer_fired", "turn 2/wait")
    story.event("message", text="hurry", dedupe="m-1")
    story.event("step_recorded", MODEL_2, value={"outcome": "replied", "requests": 2})
    story.event("completed")
    for step, after in ((MODEL_1, 1), (MODEL_2, 13), (MODEL_2, 14)):
        story.call("model_request", step, after)
        story.call("model_reply", step, after)
    story.call("mail", MAIL, 4, attempt=1)
    story.call("mail", MAIL, 6, attempt=2)
    story.call("refund", REFUND, 9, attempt=1)
    story.asked("start", 1, key="k-1")
    story.asked("decide", 8, approval="wp_1", decision="approve")
    story.asked("send", 14, dedupe="m-1")
    return story


def cancelled() -> Story:
    """Return a run that was cancelled while its mail, on the second attempt, was being sent."""
    story = Story(state="cancelled")
    story.event("started")
    story.event("step_recorded", MODEL_1, value={"outcome": "replied", "requests": 1})
    story.event("task_scheduled", MAIL, tool="mail", delivery="at_least_once", key=f"exe_1/{MAIL}")
    story.event("task_scheduled", REFUND, tool="refund", delivery="at_most_once", key=f"exe_1/{REFUND}")
    story.event("attempt_failed", MAIL, attempt=1)
    story.event("cancel_requested")
    story.event("task_failed", MAIL, attempt=2)
    story.event("task_failed", REFUND)
    story.event("cancelled")
    story.call("model_request", MODEL_1, 1)
    story.call("mail", MAIL, 4, attempt=1)
    story.call("mail", MAIL, 6, attempt=2)
    story.asked("start", 1)
    story.asked("cancel", 6)
    return story


def cancelled_and_paused() -> Story:
    """Return a cancelled run that somebody paused when it was too late for that."""
    story = cancelled()
    story.asked("pause", 7)
    return story


def uncertain() -> Story:
    """Return a run whose refund nobody knows about: the worker died after its claim."""
    story = good()
    story.find("task_completed", REFUND)["kind"] = "task_uncertain"
    return story
