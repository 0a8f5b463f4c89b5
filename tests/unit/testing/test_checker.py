"""Each rule is shown a good story, which it passes, and one with a planted violation, which it names."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import perdure.testing
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


@pytest.mark.parametrize("story", [good, cancelled, uncertain])
def test_a_good_story_passes(story: Callable[[], Story]) -> None:
    report = story().check()
    assert report.ok, str(report)
    assert str(report) == "every promise held in 1 executions"


def test_an_uncertain_effect_may_not_have_happened() -> None:
    story = uncertain()
    story.entries = [entry for entry in story.entries if entry.step != REFUND]
    assert story.check().ok


def test_a_late_report_is_a_result() -> None:
    story = uncertain()
    story.end_at("taken_over")
    story.event("task_completed", REFUND, attempt=1, late=True)
    story.event("completed")
    story.entries = [entry for entry in story.entries if entry.step != MODEL_2]
    story.lines = story.lines[:4]
    assert story.check().ok


def test_a_ruling_to_run_allows_a_second_claim() -> None:
    story = uncertain()
    story.end_at("completed")
    story.event("effect_ruled", REFUND, ruling="run")
    story.event("task_begun", REFUND, attempt=2)
    story.event("task_completed", REFUND, attempt=2)
    story.event("completed")
    story.call("refund", REFUND, 17, attempt=2)
    story.asked("rule", 16, address=REFUND, ruling="run")
    assert story.check().ok, str(story.check())
    story.call("refund", REFUND, 17, attempt=2)
    assert "P3/I4" in str(story.check())


def test_what_got_the_receipt_of_an_equal_act_has_not_acted_itself() -> None:
    story, again = good(), "turn 1/tool/c3"
    story.end_at("completed")
    story.event("task_scheduled", again, tool="refund", delivery="at_most_once", key=f"exe_1/{again}")
    story.event("task_completed", again, attempt=0, served=REFUND)
    story.event("completed")
    assert story.check().ok, str(story.check())
    story.call("refund", again, len(story.events) - 1)
    assert "served, and its body started" in str(story.check())
    story.find("task_completed", again)["data"]["served"] = "turn 9/tool/x"
    assert "which was never done" in str(story.check())


def test_a_ruling_that_it_happened_is_believed() -> None:
    story = uncertain()
    story.end_at("completed")
    story.event("effect_ruled", REFUND, ruling="happened")
    story.event("task_completed", REFUND, attempt=1)
    story.event("completed")
    story.entries = [entry for entry in story.entries if entry.step != REFUND]
    assert story.check().ok, str(story.check())


def test_a_late_call_of_a_lost_attempt_is_allowed_only_where_processes_are_stopped() -> None:
    story = good()
    story.call("mail", MAIL, 8, attempt=1)
    assert "P1/I3" in str(story.check())
    story.expect = Expect(late_attempts=True)
    assert story.check().ok
    assert story.check().summary().late_calls == 1
    story.call("mail", MAIL, 8, attempt=2)
    assert "P1/I3" in str(story.check())


def test_a_silent_tool_owes_the_world_nothing() -> None:
    story = good()
    story.entries = [entry for entry in story.entries if entry.name != "mail"]
    assert "P2/I5" in str(story.check())
    story.expect = Expect(silent_tools=frozenset({"mail"}))
    assert story.check().ok


def test_an_execution_may_be_waiting_when_that_is_expected() -> None:
    story = good()
    story.events.pop()
    story.state = "waiting"
    assert "P9/I12" in str(story.check())
    story.expect = Expect(ended=False)
    assert story.check().ok


def test_a_refused_model_request_explains_its_repetition() -> None:
    story = good()
    story.call("model_request", MODEL_1, 1)
    story.call("model_reply", MODEL_1, 1, effect=False)
    assert story.check().ok, str(story.check())
    assert story.check().summary().model_calls_maybe_paid_twice == 1


def test_a_recorded_refusal_needs_no_request() -> None:
    story = good()
    story.find("step_recorded", MODEL_1)["data"] = {"value": {"outcome": "refused", "requests": 0}}
    del story.entries[:2]
    assert story.check().ok, str(story.check())


def test_a_request_after_the_end_is_moot() -> None:
    story = good()
    story.asked("pause", 17)
    assert story.check().ok
    assert cancelled_and_paused().check().ok
    story.asked("pause", 3)
    assert "accepted pause is not in the log" in str(story.check())


def test_the_summary_counts_what_it_took() -> None:
    counts = good().check().summary()
    assert (counts.executions, counts.ended) == (1, 1)
    assert (counts.model_calls_made, counts.model_calls_reused, counts.model_calls_maybe_paid_twice) == (3, 1, 1)
    assert (counts.effects, counts.uncertain, counts.late_calls) == (3, 0, 0)
    assert counts.attempts == {"exe_1": {MODEL_1: 1, MAIL: 2, REFUND: 1, MODEL_2: 2}}
    assert uncertain().check().summary().uncertain == 1


def _swap(story: Story, name: str, /, **changes: Any) -> None:
    entry = next(entry for entry in story.entries if entry.name == name)
    story.entries[story.entries.index(entry)] = replace(entry, **changes)


def _put(story: Story, kind: str, address: str, position: int, **data: Any) -> None:
    """Insert an event at a place (counted from 1) and number all anew."""
    story.event(kind, address, **data)
    story.events.insert(position - 1, story.events.pop())
    for seq, event in enumerate(story.events, 1):
        event["seq"] = seq
    story.events[position - 1]["at_ms"] = story.events[position - 2]["at_ms"]


Spoil = Callable[[Story], object]

PLANTED: list[tuple[str, Callable[[], Story], Spoil, str]] = [
    ("a gap in the log", good, lambda s: s.events.pop(4), "P1/I2 exe_1: seq 6 stands where 5 belongs"),
    ("an unknown kind", good, lambda s: s.find("message").update(kind="noted"), "unknown kind 'noted'"),
    ("a log without its start", good, lambda s: s.drop("started"), "does not begin with the one `started`"),
    ("two starts in one log", good, lambda s: _put(s, "started", "", 5), "does not begin with the one `started`"),
    ("an event after the end", good, lambda s: s.event("message"), "P1/I9 exe_1: message at seq 17 follows completed"),
    ("a second end", good, lambda s: s.event("failed"), "P1/I9"),
    ("a state that is not the log's", good, lambda s: setattr(s, "state", "running"), "P8/I9"),
    ("a run that never ends", good, lambda s: (s.drop("completed"), setattr(s, "state", "stuck")), "P9/I12"),
    ("a model step with two results", good, lambda s: _put(s, "step_recorded", MODEL_1, 3), "2 events step_recorded"),
    ("a task scheduled twice", good, lambda s: _put(s, "task_scheduled", MAIL, 4), "2 events task_scheduled"),
    (
        "a task with two results",
        good,
        lambda s: _put(s, "task_completed", MAIL, 8),
        "P1/I2 exe_1: turn 1/tool/c1: ended 2",
    ),
    ("a result and a failure", good, lambda s: _put(s, "task_failed", MAIL, 8), "(task_completed, task_failed)"),
    (
        "an attempt after the result",
        good,
        lambda s: _put(s, "attempt_failed", MAIL, 9),
        "P1/I3 exe_1: turn 1/tool/c1: att",
    ),
    (
        "a call after the result",
        good,
        lambda s: s.call("mail", MAIL, 8, attempt=2),
        "P1/I3 exe_1: turn 1/tool/c1: call 10",
    ),
    (
        "an attempt too many",
        good,
        lambda s: s.call("mail", MAIL, 6, attempt=3),
        "is of attempt 3; attempt 2 had ended it",
    ),
    (
        "a body that started twice",
        good,
        lambda s: s.call("refund", REFUND, 9, attempt=1),
        "P3/I4 exe_1: turn 1/tool/c2: its b",
    ),
    ("a body refused, then started", good, lambda s: s.call("refund", REFUND, 9, effect=False), "body started 2 times"),
    ("a claim after the body", good, lambda s: _swap(s, "refund", received_at_ms=START_MS + 8_500), "before any claim"),
    (
        "no claim at all",
        good,
        lambda s: s.drop("task_begun"),
        "P3/I4 exe_1: turn 1/tool/c2: call 9 came before any claim",
    ),
    ("two claims", good, lambda s: _put(s, "task_begun", REFUND, 10), "P3/I4 exe_1: turn 1/tool/c2: 2 claims"),
    ("a claim released", good, lambda s: _put(s, "attempt_lost", REFUND, 10), "claim released: attempt_lost"),
    (
        "a refund that was none",
        good,
        lambda s: _swap(s, "refund", effect=False),
        "P3/I4 exe_1: turn 1/tool/c2: done, and",
    ),
    (
        "a mail never sent",
        good,
        lambda s: [_swap(s, "mail", name="model_reply") for _ in "12"],
        "P2/I5 exe_1: turn 1/tool/c1",
    ),
    (
        "another key on a retry",
        good,
        lambda s: _swap(s, "mail", key="exe_1/other"),
        "P2/I5 exe_1: turn 1/tool/c1: call 7",
    ),
    ("no key", good, lambda s: _swap(s, "mail", key=None), "carried key None"),
    ("one key for two steps", good, lambda s: _swap(s, "refund", key=f"exe_1/{MAIL}"), "was used by 2 steps"),
    (
        "a model call after its reply",
        good,
        lambda s: s.call("model_request", MODEL_1, 5),
        "P1/I3 exe_1: turn 1/model: req",
    ),
    (
        "a model call without a reason",
        good,
        lambda s: s.call("model_request", MODEL_1, 1),
        "2 requests, the log explains 1",
    ),
    ("a reply out of thin air", good, lambda s: s.entries.pop(0), "P8/I2 exe_1: turn 1/model: a reply is recorded"),
    ("a cancel that left no trace", cancelled, lambda s: s.drop("cancel_requested"), "P9/I9 exe_1: accepted cancel"),
    (
        "a claim after the cancel",
        cancelled,
        lambda s: _put(s, "task_begun", REFUND, 7),
        "P9/I9 exe_1: turn 1/tool/c2: begun",
    ),
    (
        "an attempt after the cancel",
        cancelled,
        lambda s: s.call("mail", MAIL, 6, attempt=3),
        "attempt 3 started after the c",
    ),
    (
        "a model call after the cancel",
        cancelled,
        lambda s: s.call("model_request", MODEL_2, 8),
        "2400 ms after the cancel",
    ),
    (
        "an approval answered twice",
        good,
        lambda s: _put(s, "waitpoint_resolved", YES, 9, id="wp_1"),
        "P6/I7 exe_1: wp_1",
    ),
    (
        "an act against a no",
        good,
        lambda s: s.find("waitpoint_resolved")["data"].update(decision="reject"),
        "without an appr",
    ),
    (
        "an act without an answer",
        good,
        lambda s: s.drop("waitpoint_resolved"),
        "P6/I7 exe_1: turn 1/tool/c2: call 9 without",
    ),
    (
        "an act before the yes",
        good,
        lambda s: _swap(s, "refund", received_at_ms=START_MS + 6_000),
        "before its approval",
    ),
    (
        "a decision lost",
        good,
        lambda s: s.drop("waitpoint_resolved"),
        "P9/I7 exe_1: approval wp_1: accepted 'approve', the",
    ),
    (
        "two decisions accepted",
        good,
        lambda s: s.asked("decide", 9, approval="wp_1", decision="reject"),
        "accepted 'reject'",
    ),
    (
        "a timer too early",
        good,
        lambda s: s.find("timer_set")["data"].update(due_ms=START_MS + 13_001),
        "fired 1 ms early",
    ),
    ("a timer fired twice", good, lambda s: _put(s, "timer_fired", "turn 2/wait", 14), "2 events timer_fired"),
    ("a timer never set", good, lambda s: s.drop("timer_set"), "P6/I8 exe_1: turn 2/wait: fired, and was never set"),
    (
        "a fence that fell",
        good,
        lambda s: _put(s, "taken_over", "", 12, fence=2),
        "P5/I6 exe_1: fences do not rise: [3, 2]",
    ),
    ("a message lost", good, lambda s: s.drop("message"), "P9/I7 exe_1: accepted message 'm-1' is not in the log"),
    (
        "a message twice",
        good,
        lambda s: _put(s, "message", "", 15, dedupe="m-1"),
        "P6/I7 exe_1: message 'm-1' is in the log 2",
    ),
    ("a plain message lost", good, lambda s: s.asked("send", 5), "P9/I7 exe_1: 1 messages without a dedupe key"),
    (
        "a ruling lost",
        uncertain,
        lambda s: s.asked("rule", 12, address=REFUND, ruling="run"),
        "accepted ruling on turn 1",
    ),
    ("a stop lost", good, lambda s: s.asked("stop", 5), "P9/I7 exe_1: accepted stop is not in the log"),
    ("a call of no known step", good, lambda s: s.call("mail", "turn 9/tool/x", 4), "P8/I3 exe_1: call 10 names step"),
    (
        "a call of no known execution",
        good,
        lambda s: s.call("mail", MAIL, 4, execution="exe_9"),
        "P8/I1 exe_9: mail 10",
    ),
    ("one key, two executions", good, lambda s: (s.asked("start", 2, key="k-1"), _rename(s)), "key 'k-1' started 2"),
    (
        "an accepted start lost",
        good,
        lambda s: (s.asked("start", 2), _rename(s)),
        "P9/I1 exe_2: its start was accepted",
    ),
    ("a record changed", good, lambda s: _remember(s, "message", text="wait"), "P1/I2 exe_1: seq 14 was message"),
    (
        "a record lost",
        good,
        lambda s: (_remember(s, "message"), s.end_at("message")),
        "P1/I2 exe_1: seq 14 was message",
    ),
]


def _rename(story: Story) -> None:
    story.lines[-1] = replace(story.lines[-1], execution="exe_2")


def _remember(story: Story, kind: str, **changed: Any) -> None:
    """Keep the history as it was read before, in which an event carried other data."""
    now = story.find(kind)["data"]
    story.find(kind)["data"] = {**now, **changed}
    story.expect = Expect(earlier=(story.history(),))
    story.find(kind)["data"] = now


@pytest.mark.parametrize(("story", "spoil", "named"), [case[1:] for case in PLANTED], ids=[case[0] for case in PLANTED])
def test_a_planted_violation_is_named(story: Callable[[], Story], spoil: Spoil, named: str) -> None:
    told = story()
    spoil(told)
    report = told.check()
    assert not report.ok
    assert named in str(report)


def test_the_oracle_shares_no_code_with_what_it_judges() -> None:
    folder = Path(perdure.testing.__file__).parent
    for name in ("world", "world_client", "evidence", "client_log", "cases", "rules", "checker"):
        tree = ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        ours = {module for module in imported if module.split(".")[0] == "perdure"}
        assert all(module.startswith("perdure.testing.") for module in ours), (name, ours)
