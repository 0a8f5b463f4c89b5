"""How a crash test judges made-up evidence: what it calls twice, lost, unknown or kept; and how it reads replies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from perdure.errors import InvalidInput
from perdure.models.port import Message, ModelRequest
from perdure.models.recorded import reply_to_json, request_to_json
from perdure.models.scripted import call, say
from perdure.testing.crashtest.bodies import BodyLine
from perdure.testing.crashtest.boundaries import BOUNDARIES, Strike, chosen, spread
from perdure.testing.crashtest.judge import Baseline, Finding, baseline_of, called, judge
from perdure.testing.crashtest.model import answering, read_events, replies_of, write_replies
from perdure.testing.crashtest.one_run import Evidence
from perdure.testing.crashtest.report import write_junit
from perdure.testing.crashtest.session import Ran, Result
from perdure.testing.crashtest.subject import Facts, Subject, ToolFacts
from perdure.testing.evidence import Entry

EXECUTION, STEP, KEY = "exe_1", "turn 1/tool/call_1", "exe_1/turn 1/tool/call_1"
BODY_AFTER = Strike(next(one for one in BOUNDARIES if one.name == "body.after"), 1)
STOPPED = Strike(next(one for one in BOUNDARIES if one.name == "stop.after"), 1)


def facts(delivery: str, *, observes: bool = False) -> Facts:
    return Facts("shop", {}, {"charge": ToolFacts("charge", delivery, by_worker=True)}, observes, "made up")


def event(seq: int, kind: str, **data: Any) -> dict[str, Any]:
    address = STEP if kind.startswith(("task", "attempt", "effect")) else ""
    return {"seq": seq, "kind": kind, "address": address, "data": data, "at_ms": seq * 1_000}


def log(delivery: str, *told: dict[str, Any], ended: bool = True) -> list[dict[str, Any]]:
    scheduled = event(2, "task_scheduled", tool="charge", delivery=delivery, key=KEY, args={}, attempts=3)
    events = [event(1, "started"), scheduled, *told]
    return [*events, event(len(events) + 1, "completed")] if ended else events


def body(at_ms: int, attempt: int = 1, what: str = "start") -> BodyLine:
    return BodyLine(at_ms, what, "charge", EXECUTION, STEP, KEY, attempt, 100 + attempt, "d")


def evidence(events: list[dict[str, Any]], *bodies: BodyLine, **more: Any) -> Evidence:
    ended = events[-1]["kind"] == "completed"
    view = {"id": EXECUTION, "state": "completed" if ended else "waiting"}
    return Evidence(fired=True, ended=ended, parked=not ended, view=view, events=events, bodies=list(bodies), **more)


BASELINE = Baseline(0.3, 1, ("charge",), ("charge",), (), ("charge",), {"charge o-1": 1}, frozenset())


def judged(
    found: Evidence, tested: Facts, tmp_path: Path, baseline: Baseline = BASELINE, strike: Strike = BODY_AFTER
) -> list[Finding]:
    return judge(found, tested, tmp_path / "client.jsonl", baseline, strike)


TWICE = (
    event(3, "attempt_lost", attempt=1, worker="w", why="silent"),
    event(4, "task_completed", value=1, attempt=2, worker="w2"),
)
RAN_TWICE = (body(2_100), body(3_500, attempt=2))


def test_an_effect_that_was_counted_twice_is_a_broken_promise(tmp_path: Path) -> None:
    found = evidence(log("repeatable", *TWICE), *RAN_TWICE, observed={"charge o-1": 2})
    (one,) = judged(found, facts("repeatable", observes=True), tmp_path)
    assert (one.weight, one.promise) == ("broken", "once")
    assert one.what == "'charge o-1' was done 2 times; once was meant."
    assert "The body of charge started 2 times, which `repeatable` allows" in one.how
    assert any("at_most_once" in cure for cure in one.cures)
    assert any("idempotency_key" in cure for cure in one.cures)
    assert any("transactional" in cure for cure in one.cures)


def test_an_effect_that_is_meant_twice_is_no_doubled_one(tmp_path: Path) -> None:
    meant = replace(BASELINE, effects={"charge o-1": 2})
    found = evidence(log("repeatable", *TWICE), *RAN_TWICE, observed={"charge o-1": 2})
    assert judged(found, facts("repeatable", observes=True), tmp_path, meant) == []


def test_a_body_that_ran_twice_uncounted_is_a_doubt_unless_it_changes_nothing(tmp_path: Path) -> None:
    (one,) = judged(evidence(log("at_least_once", *TWICE), *RAN_TWICE), facts("at_least_once"), tmp_path)
    assert (one.weight, one.promise) == ("doubt", "once")
    assert "may be done twice" in one.what
    assert judged(evidence(log("repeatable", *TWICE), *RAN_TWICE), facts("repeatable"), tmp_path) == []


def test_a_body_that_ran_twice_and_acted_once_is_held(tmp_path: Path) -> None:
    told = [Entry(1, 2_200, "charge", EXECUTION, STEP, "o-1")]
    baseline = replace(BASELINE, acting=frozenset({"charge"}))
    found = evidence(log("at_least_once", *TWICE), *RAN_TWICE, world=told)
    assert judged(found, facts("at_least_once"), tmp_path, baseline) == []


def test_an_effect_that_was_recorded_and_never_told_is_lost(tmp_path: Path) -> None:
    baseline = replace(BASELINE, acting=frozenset({"charge"}))
    found = evidence(log("at_least_once", *TWICE), *RAN_TWICE)
    (one,) = judged(found, facts("at_least_once"), tmp_path, baseline)
    assert (one.weight, one.promise) == ("broken", "P2")
    assert "its effect was never told" in one.what


def test_what_is_not_counted_any_more_is_a_doubt(tmp_path: Path) -> None:
    """Most likely the stand-in remembers the run before: then nothing is tested, which must not look like success."""
    found = evidence(log("at_least_once", *TWICE), *RAN_TWICE, observed={"charge o-1": 0})
    (one,) = judged(found, facts("at_least_once", observes=True), tmp_path)
    assert one.weight == "doubt"
    assert "PERDURE_CRASHTEST_DIR" in one.how


BEGUN = event(3, "task_begun", attempt=1, worker="w", claim=1)


@pytest.mark.parametrize(
    ("bodies", "promise"),
    [
        ((body(3_100), body(3_200, attempt=2)), "P3"),  # the body of a claim that was given once started twice
        ((body(3_100), body(9_000)), "P1"),  # it ran again when its result was on record
        ((), "P3"),  # its result is on record, and it never ran
    ],
)
def test_what_the_engine_must_never_do_is_seen(bodies: tuple[BodyLine, ...], promise: str, tmp_path: Path) -> None:
    done = event(4, "task_completed", value=1, attempt=1, worker="w")
    found = evidence(log("at_most_once", BEGUN, done), *bodies)
    promises = {one.promise for one in judged(found, facts("at_most_once"), tmp_path) if one.weight == "broken"}
    assert promise in promises


def test_an_unknown_outcome_that_waits_for_a_person_is_held(tmp_path: Path) -> None:
    unknown = event(4, "task_uncertain", attempt=1, worker="w", why="its worker fell silent")
    found = evidence(log("at_most_once", BEGUN, unknown, ended=False), body(3_100))
    (one,) = judged(found, facts("at_most_once"), tmp_path)
    assert (one.weight, one.promise) == ("waits", "P3")


def test_a_ruling_that_came_too_early_is_told_as_that(tmp_path: Path) -> None:
    events = log(
        "at_most_once",
        BEGUN,
        event(4, "task_uncertain", attempt=1, worker="w", why="silent"),
        event(5, "effect_ruled", ruling="run", by="probe"),
        event(6, "task_begun", attempt=2, worker="w2", claim=2),
        event(7, "task_completed", value=1, attempt=2, worker="w2"),
    )
    told = [Entry(n, 6_000 + n, "charge", EXECUTION, STEP, "o-1") for n in (1, 2)]
    found = evidence(events, body(6_100, attempt=2), body(6_900), world=told)
    (one,) = [one for one in judged(found, facts("at_most_once"), tmp_path, strike=STOPPED) if one.promise == "once"]
    assert "ruled that it had not happened" in one.how
    assert any("settle_seconds" in cure for cure in one.cures)


def test_a_call_is_named_only_where_it_can_be_told(tmp_path: Path) -> None:
    done = event(3, "task_completed", value=1, attempt=1, worker="w")
    at_commit = Strike(next(one for one in BOUNDARIES if one.name == "commit.after"), 1)
    alone = evidence(log("at_least_once", done), body(2_100))
    assert called(alone, baseline_of(alone), at_commit) == "charge"
    other = {**event(3, "task_scheduled", tool="mail", delivery="repeatable"), "address": "turn 1/tool/call_2"}
    together = evidence(log("at_least_once", other, {**done, "seq": 4}), body(2_100))
    assert called(together, baseline_of(together), at_commit) == ""
    lost = evidence(log("at_least_once", *TWICE), *RAN_TWICE)
    assert called(lost, baseline_of(together), BODY_AFTER) == "charge"


def test_a_run_that_does_not_end_is_broken(tmp_path: Path) -> None:
    found = evidence(log("at_least_once", ended=False))
    found.parked, found.why = False, "charge waits, and no worker is connected"
    (one,) = judged(found, facts("at_least_once"), tmp_path)
    assert (one.weight, one.promise) == ("broken", "P9")
    assert "no worker is connected" in one.what


def test_boundaries_are_chosen_by_name_and_pass() -> None:
    assert [(one.name, nth) for one, nth in chosen(["body.after@2", "start.after"])] == [
        ("body.after", 2),
        ("start.after", 0),
    ]
    assert len(chosen([])) == len({one.name for one in BOUNDARIES}) == len(BOUNDARIES)
    for wrong in ("body.after@0", "body.after@x", "body.aftr"):
        with pytest.raises(InvalidInput, match=r"body\.after"):
            chosen([wrong])
    assert (spread(0, 6), spread(3, 6), spread(9, 3)) == ([], [1, 2, 3], [1, 2, 9])


def test_recorded_replies_are_read_from_an_export_and_answer_at_their_steps(tmp_path: Path) -> None:
    reply = reply_to_json(call("charge", {"cents": 5}, id="call_1"))
    value = json.dumps({"value": {"outcome": "replied", "reply": reply}})
    lines = [
        {"record": "event", "execution": "e", "kind": "started", "address": "", "data": json.dumps({"input": "Hi."})},
        {"record": "event", "execution": "e", "kind": "step_recorded", "address": "turn 1/model", "data": value},
        {"record": "effect", "execution": "e", "address": "x"},
        {"record": "log", "execution": "e"},
    ]
    export = tmp_path / "run.jsonl"
    export.write_text("\n".join(map(json.dumps, lines)))
    replies, given = replies_of(read_events(export))
    assert given == "Hi."
    kept = tmp_path / "replies.json"
    write_replies(kept, replies)
    answer = answering(Subject("agent.py", replies=str(kept)))
    asked = ModelRequest("scripted/x", "", (Message("user", "Hi."),), call="other/turn 1/model")
    body: Any = request_to_json(asked)
    assert answer(body) == reply
    assert answer({**body, "call": "other/turn 7/model"})["text"] == "Done."


def test_a_file_of_several_executions_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "two.jsonl"
    records = [{"record": "event", "execution": name, "kind": "started", "data": "{}"} for name in ("a", "b")]
    file.write_text("\n".join(map(json.dumps, records)))
    with pytest.raises(InvalidInput, match="2 executions"):
        read_events(file)


def test_a_script_that_is_a_list_says_its_last_word_again(tmp_path: Path) -> None:
    home = tmp_path / "listed_agent.py"
    home.write_text("from perdure.models.scripted import call, say\nscript = [call('a'), say('End.')]\n")
    answer = answering(Subject(str(home)))
    said = tuple(Message("assistant", "x") for _ in range(5))
    body: Any = request_to_json(ModelRequest("scripted/x", "", (Message("user", "Hi."), *said)))
    assert answer(body)["text"] == say("End.").text


def test_junit_holds_what_xml_can(tmp_path: Path) -> None:
    broken = Finding("broken", "once", "done\x00 twice <&>", "how", ("cure",))
    run = Ran("body.after@1", "body.after", 1, "worker", "cause", "charge", True, "completed", 1.0, 1, 0, (broken,))
    result = Result(facts("repeatable"), BASELINE, [run, replace(run, findings=())])
    write_junit(result, lambda strike: f"again {strike}", tmp_path / "deep" / "junit.xml")
    suite = ElementTree.parse(tmp_path / "deep" / "junit.xml").getroot()[0]
    failed, passed = suite.findall("testcase")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert failed[0].get("message") == "done twice <&>"
    assert "again body.after@1" in (failed[0].text or "")
    assert len(passed) == 0
