"""A probe finds out what nobody reported, and a policy rules when nobody does. Both are on record as rulers."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import AGENT, Bench, named, once, wish
from perdure.core.events import Event
from perdure.core.rules import TaskRules
from perdure.core.work import Answer, Failure, Lane, LeasedTask
from perdure.engine.due import Sweep
from perdure.engine.held import Beats, HandBack, beat, hand_back
from perdure.engine.lease import lease
from perdure.engine.park import Finish, finish
from perdure.engine.policy import rule_by_policy
from perdure.engine.rule import Rule, rule

PROBE = Lane(AGENT, "post?probe")
SETTLE_S = 40


def probed(bench: Bench, **options: Any) -> LeasedTask:
    """Return an effect with a probe, lost 31 s after it began; it settles 9 s later."""
    rules = TaskRules(probe=True, settle_ms=SETTLE_S * 1_000)
    held = bench.begun(once(rules=rules, **options))
    bench.expire(31)
    assert bench.task(held.execution)["state"] == "uncertain"
    return held


def probing(bench: Bench, worker: str = "wrk_2") -> list[LeasedTask]:
    return bench.do(lease, wish(worker, f"p{bench.clock.monotonic_ms()}", lanes=(PROBE,)))


def settled(bench: Bench) -> LeasedTask:
    """Return the probe of an effect that has settled."""
    probed(bench)
    bench.clock.advance(SETTLE_S - 31)
    [probe] = probing(bench)
    return probe


def ruling(bench: Bench, execution: str) -> dict[str, Any]:
    return next(event.data for event in bench.log(execution) if event.kind == "effect_ruled")


def test_a_probe_runs_once_the_effect_has_settled_and_never_as_the_tool_itself(bench: Bench) -> None:
    held = probed(bench)
    assert probing(bench) == []
    bench.clock.advance(SETTLE_S - 31)
    assert bench.lease("wrk_old") == [], "a worker that knows nothing of probes would run the tool"
    [probe] = probing(bench)
    assert (probe.tool, probe.delivery, probe.args, probe.key) == ("post?probe", "repeatable", held.args, held.key)


def test_what_it_finds_done_is_done_in_its_name(bench: Bench) -> None:
    probe = settled(bench)
    assert bench.report(probe, value={"happened": True, "value": "receipt"}) is Answer.ACCEPTED
    assert ruling(bench, probe.execution) == {
        "ruling": "happened",
        "by": "probe",
        "reason": "the tool's probe found that it happened",
        "value": "receipt",
    }
    assert bench.task(probe.execution)["state"] == "done"
    assert bench.state(probe.execution) == ("ready", "ready")


def test_what_it_finds_not_done_is_begun_once_more(bench: Bench) -> None:
    probe = settled(bench)
    bench.report(probe, value={"happened": False, "value": None})
    assert (ruling(bench, probe.execution)["ruling"], ruling(bench, probe.execution)["by"]) == ("run", "probe")
    [second] = bench.lease("wrk_3")
    assert bench.begin(second, "b2") is Answer.ACCEPTED
    assert bench.task(probe.execution)["claims"] == 2


def test_a_second_doubt_is_probed_again(bench: Bench) -> None:
    probe = settled(bench)
    bench.report(probe, value={"happened": False})
    [second] = bench.lease("wrk_3")
    bench.begin(second, "b2")
    bench.report(second, "failed")
    bench.clock.advance(SETTLE_S)
    [again] = probing(bench)
    assert again.fence > probe.fence
    bench.report(again, value={"happened": True})
    assert bench.task(probe.execution)["state"] == "done"


def test_a_person_has_to_look_after_many_claims(bench: Bench) -> None:
    held = bench.begun(once(rules=TaskRules(probe=True, settle_ms=0)))
    bench.report(held, "failed")
    for turn in range(2, 6):
        [probe] = probing(bench)
        bench.report(probe, value={"happened": False})
        [second] = bench.lease(f"wrk_{turn}")
        bench.begin(second, f"b{turn}")
        bench.report(second, "failed")
    [probe] = probing(bench)
    bench.report(probe, value={"happened": False})
    assert bench.task(held.execution)["state"] == "uncertain"
    assert "a person has to look" in bench.last(held.execution).data["error"]
    bench.clock.advance(3_600)
    assert probing(bench) == []


@pytest.mark.parametrize("value", [{"happened": None}, {}, "yes", {"happened": "true"}])
def test_what_it_cannot_tell_is_asked_again_and_nothing_is_ruled(bench: Bench, value: Any) -> None:
    probe = settled(bench)
    assert bench.report(probe, value=value) is Answer.ACCEPTED
    assert bench.last(probe.execution).data["code"] == "probe_unknown"
    assert bench.task(probe.execution)["state"] == "uncertain"
    assert probing(bench) == []
    bench.clock.advance(2)
    assert len(probing(bench)) == 1


def test_a_probe_that_fails_is_tried_ten_times_and_leaves_the_effect_uncertain(bench: Bench) -> None:
    probe = settled(bench)
    for _ in range(9):
        bench.report(probe, "failed", failure=Failure("boom", "the bank does not answer"))
        bench.clock.advance(61)
        [probe] = probing(bench)
    bench.report(probe, "failed", failure=Failure("boom", "the bank does not answer"))
    bench.clock.advance(3_600)
    assert probing(bench) == []
    assert bench.task(probe.execution)["state"] == "uncertain"
    kinds = [event.kind for event in bench.log(probe.execution) if event.address == "tool?probe"]
    assert kinds == ["attempt_failed"] * 10


def test_a_probe_whose_worker_dies_goes_to_another(bench: Bench) -> None:
    probe = settled(bench)
    bench.expire(31)
    bench.clock.advance(61)
    [again] = probing(bench, "wrk_3")
    assert bench.report(again, value={"happened": True}) is Answer.ACCEPTED
    assert bench.report(probe, value={"happened": False}) is Answer.LEASE_LOST


def test_a_probe_is_not_asked_once_it_is_known(bench: Bench) -> None:
    held = probed(bench)
    bench.report(held, value="sent")
    bench.clock.advance(SETTLE_S)
    assert probing(bench) == []


def test_what_a_probe_says_after_somebody_ruled_changes_nothing(bench: Bench) -> None:
    probe = settled(bench)
    bench.do(rule, Rule("default", probe.execution, "tool", "happened", "ann", "seen"))
    assert bench.report(probe, value={"happened": False}) is Answer.ACCEPTED
    assert bench.task(probe.execution)["state"] == "done"
    assert bench.report(probe, value={"happened": False}) is Answer.ALREADY_ACCEPTED


def test_a_probe_cannot_say_that_it_did_not_happen_while_the_holder_beats(bench: Bench) -> None:
    held = probed(bench)
    bench.clock.advance(SETTLE_S - 31)
    [probe] = probing(bench)
    bench.do(beat, Beats("default", "wrk_1", (named(held),)))
    bench.report(probe, value={"happened": False})
    assert bench.last(held.execution).data["code"] == "not_settled"
    assert bench.report(held, value="sent") is Answer.ACCEPTED


def test_finding_out_goes_on_when_the_execution_is_cancelled_and_does_not_hold_it_up(bench: Bench) -> None:
    held = probed(bench)
    bench.signal(held.execution, "cancel")
    bench.clock.advance(SETTLE_S - 31)
    [probe] = probing(bench)
    [owner] = bench.claim()
    last = bench.execution(held.execution)["next_seq"] - 1
    bench.do(finish, Finish(owner.ref, owner.fence, last, 0, "end", "{}"))
    assert bench.state(held.execution)[0] == "cancelled"
    assert bench.do(beat, Beats("default", "wrk_2", (named(probe),))) == [Answer.ACCEPTED]
    assert bench.do(hand_back, HandBack("default", (named(probe),))) == [Answer.ACCEPTED]
    [probe] = probing(bench)
    assert bench.report(probe, value={"happened": False}) is Answer.ACCEPTED
    assert bench.task(held.execution)["state"] == "dead", "it did not happen, and nobody wants it now"
    assert bench.last(held.execution).kind == "cancelled", "an ended log is final"


# -- policies


def declared(bench: Bench, rule_as: str) -> LeasedTask:
    held = bench.begun(once(rules=TaskRules(rule_as=rule_as, rule_by_ms=60_000)))
    bench.report(held, "failed")
    return held


def due(bench: Bench) -> int:
    return bench.do(rule_by_policy, Sweep(10))


@pytest.mark.parametrize(("word", "state"), [("give_up", "dead"), ("happened", "done")])
def test_what_nobody_ruled_on_is_ruled_as_its_author_declared(bench: Bench, word: str, state: str) -> None:
    held = declared(bench, word)
    bench.clock.advance(59.999)
    assert due(bench) == 0
    bench.clock.advance(0.001)
    assert due(bench) == 1
    said = ruling(bench, held.execution)
    assert (said["ruling"], said["by"], said["reason"]) == (word, "policy", "nobody ruled within 60 s")
    assert bench.task(held.execution)["state"] == state
    assert due(bench) == 0


def test_a_policy_does_not_overrule_a_person(bench: Bench) -> None:
    held = declared(bench, "give_up")
    bench.do(rule, Rule("default", held.execution, "tool", "happened", "ann", "seen"))
    bench.clock.advance(61)
    assert due(bench) == 0
    assert rulings(bench.log(held.execution)) == ["ann"]


def test_the_time_of_a_policy_begins_anew_with_each_doubt(bench: Bench) -> None:
    held = declared(bench, "give_up")
    bench.clock.advance(45)
    bench.do(rule, Rule("default", held.execution, "tool", "run", "ann", "it did not arrive"))
    [second] = bench.lease("wrk_2")
    bench.begin(second, "b2")
    bench.report(second, "failed")
    bench.clock.advance(59)
    assert due(bench) == 0
    bench.clock.advance(1)
    assert due(bench) == 1
    assert rulings(bench.log(held.execution)) == ["ann", "policy"]


def rulings(log: list[Event]) -> list[str]:
    return [event.data["by"] for event in log if event.kind == "effect_ruled"]
