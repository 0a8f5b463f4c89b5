"""Each rule is shown a good story, which it passes, and one with a planted violation, which it names."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perdure.testing
from checker_stories import (
    MAIL,
    MODEL_1,
    MODEL_2,
    REFUND,
    START_MS,
    YES,
    Story,
    cancelled,
    cancelled_and_paused,
    good,
    uncertain,
)
from perdure.testing.checker import Expect, check
from perdure.testing.evidence import History


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


def test_a_dead_task_may_end_once_more_only_if_somebody_put_it_back() -> None:
    story = good()
    story.find("task_completed", MAIL).update(kind="task_failed", data={"attempt": 2})
    story.end_at("completed")
    story.event("task_revived", MAIL, by="ops")
    story.event("task_completed", MAIL, attempt=3)
    story.event("completed")
    story.call("mail", MAIL, 16, attempt=3)
    assert story.check().ok, str(story.check())
    story.drop("task_revived")
    assert "P1/I2 exe_1: turn 1/tool/c1: ended 2 times" in str(story.check())


def test_a_fork_does_not_owe_the_world_what_its_origin_did() -> None:
    story, value = good(), {"number": 1}
    story.find("task_completed", MAIL)["data"] = {"attempt": 2, "value": value}
    origin = story.history()
    fork = Story(events=[dict(event) for event in story.events[:2]], state="completed")
    fork.event("forked", origin="exe_1")
    fork.event("task_scheduled", MAIL, tool="mail", delivery="at_least_once", key=f"exe_2/{MAIL}")
    fork.event("task_completed", MAIL, attempt=2, value=value, origin="exe_1")
    fork.event("completed")

    def judged() -> str:
        made = History.parse({"id": "exe_2", "state": "completed"}, fork.events)
        return str(check(story.entries, story.lines, [origin, made]))

    assert judged().startswith("every promise held")
    fork.find("task_completed", MAIL)["data"]["value"] = {"number": 2}
    assert f"P8/I2 exe_2: {MAIL}: its result is said to be that of exe_1" in judged()


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


@pytest.mark.parametrize("before_ms", [1, -1])
def test_a_model_request_may_leave_late_only_if_a_stopped_process_had_begun_it_in_time(before_ms: int) -> None:
    story = good()
    recorded = story.find("step_recorded", MODEL_2)
    story.call("model_request", MODEL_2, 17, body={"begun_at_ms": recorded["at_ms"] - before_ms})
    story.call("model_reply", MODEL_2, 17)
    assert "P1/I3 exe_1: turn 2/model: requested again" in str(story.check())
    story.expect = Expect(late_attempts=True)
    assert story.check().ok is (before_ms > 0)


@pytest.mark.parametrize("after_ms", [1_000, 1_001])
def test_so_may_one_that_leaves_after_a_cancel(after_ms: int) -> None:
    story = cancelled()
    accepted_ms = START_MS + 6_100
    story.call("model_request", MODEL_1, 8, body={"begun_at_ms": accepted_ms + after_ms})
    assert "ms after the cancel was accepted" in str(story.check())
    story.expect = Expect(late_attempts=True)
    assert ("ms after the cancel was accepted" in str(story.check())) is (after_ms > 1_000)


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
    (
        "a recorded step done again",
        good,
        lambda s: (_put(s, "step_recorded", "pay", 15), s.call("pay", "pay", 13), s.call("pay", "pay", 16)),
        "P1/I3 exe_1: pay: call 11 came",
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
