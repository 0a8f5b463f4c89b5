"""The ledger: every acting step, what is known of its outcome, and whether it may have been done more than once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from engine_bench import WORKER, Bench, once, task
from perdure.core.events import Event, Kind
from perdure.core.ids import shard_of
from perdure.core.ledger import InlineSteps, ModelCalls, TaskNow, effects_of
from perdure.core.views import EffectFilter, EffectView, Ruling
from perdure.core.work import Failure, LeasedTask
from perdure.engine.ledger import effects_view, log_page
from perdure.engine.park import Finish, finish
from perdure.engine.rule import Rule, rule
from perdure.engine.sweep import Drop, drop
from perdure.errors import NotFound


def found(finder: ModelCalls | InlineSteps, events: Iterable[Event]) -> list[Any]:
    for event in events:
        finder.take(event)
    return list(finder.found)


def effects(bench: Bench, company: str = "default", **filters: Any) -> list[EffectView]:
    return bench.read(lambda reads: effects_view(reads, company, EffectFilter(**filters)))


def ruled(bench: Bench, held: LeasedTask, ruling: Ruling, value: Any = None) -> None:
    bench.expire(120)  # a ruling "did not happen" must wait for what may still be under way
    assert bench.do(rule, Rule("default", held.execution, held.address, ruling, "ann", "saw it", value)) is None


def test_an_effect_shows_its_claims_and_what_is_known(bench: Bench) -> None:
    held = bench.uncertain()
    [seen] = effects(bench)
    assert (seen.state, seen.claims, seen.worker, seen.value, seen.ruling) == ("uncertain", 1, WORKER, None, None)
    assert (seen.tool, seen.args, seen.key) == ("post", {"n": 1}, f"{held.execution}/tool")
    assert (seen.outcome, seen.delivery, seen.digest, seen.confirmed) == ("uncertain", "at_most_once", "d", 0)
    assert seen.claimed_ms == bench.log(held.execution)[2].at_ms
    ruled(bench, held, "happened", "receipt")
    [seen] = effects(bench, state="done")
    assert (seen.ruling, seen.ruled_by, seen.reason, seen.value) == ("happened", "ann", "saw it", "receipt")
    assert (seen.outcome, seen.confirmed, seen.doubt) == ("done", 0, "")


def test_every_acting_step_is_there_and_no_read(bench: Bench) -> None:
    bench.waiting(task("a"), once("b"), task("c", delivery="repeatable"))
    assert [(one.address, one.outcome) for one in effects(bench)] == [("a", "waiting"), ("b", "waiting")]


def test_effects_are_filtered(bench: Bench) -> None:
    other, one = bench.uncertain(), bench.begun()
    bench.leased(once())
    assert len(effects(bench)) == 3
    assert [seen.execution for seen in effects(bench, execution=one.execution)] == [one.execution]
    assert effects(bench, "other") == []
    assert [seen.execution for seen in effects(bench, state="uncertain")] == [other.execution]
    assert (len(effects(bench, tool="post")), effects(bench, tool="look")) == (3, [])
    assert (len(effects(bench, agent="clerk")), effects(bench, agent="other")) == (3, [])
    assert effects(bench, since_ms=bench.clock.wall_ms() + 1_000) == []
    assert effects(bench, state="contradicted") == []


def test_a_late_result_is_shown(bench: Bench) -> None:
    held = bench.uncertain()
    bench.report(held, value="sent")
    [seen] = effects(bench)
    assert (seen.state, seen.value, seen.confirmed, seen.doubt) == ("done", "sent", 1, "")


def test_a_body_that_needs_no_claim_has_begun_once_it_is_leased(bench: Bench) -> None:
    bench.leased()
    [seen] = effects(bench)
    assert (seen.outcome, seen.attempts, seen.doubt) == ("begun", 1, "")


def test_a_second_try_under_the_same_key_is_a_doubt(bench: Bench) -> None:
    held = bench.leased()
    bench.report(held, "failed", failure=Failure("boom", "it broke"))
    bench.clock.advance(60)
    [again] = bench.lease()
    bench.report(again, value="sent")
    [seen] = effects(bench)
    assert (seen.attempts, seen.confirmed, seen.outcome) == (2, 1, "done")
    assert "tried 2 times with the same key" in seen.doubt


def test_a_claim_opened_by_a_ruling_is_a_doubt_that_names_the_ruler(bench: Bench) -> None:
    held = bench.uncertain()
    ruled(bench, held, "run")
    [again] = bench.lease()
    bench.begin(again, "b2")
    bench.report(again, value="sent")
    [seen] = effects(bench)
    assert (seen.claims, seen.confirmed, seen.outcome) == (2, 1, "done")
    assert "claim 2 began" in seen.doubt
    assert "on the word of ann" in seen.doubt


def test_what_is_said_after_the_end_is_kept(bench: Bench) -> None:
    held = bench.leased()
    execution = bench.execution(held.execution)
    [owned] = bench.claim() or [None]
    if owned is None:  # parked: a message makes it claimable
        bench.signal(held.execution, "send", text="hello")
        [owned] = bench.claim()
    last = bench.execution(held.execution)["next_seq"] - 1
    bench.do(finish, Finish(owned.ref, owned.fence, last, 0, "fail", '{"error":"x","code":"limit_exceeded"}'))
    events = bench.kinds(held.execution)
    bench.report(held, value="sent")
    assert bench.kinds(held.execution) == events
    page = bench.read(lambda reads: log_page(reads, "default", held.execution, after=len(events), limit=10))
    assert [(link.kind, link.seq) for link in page.links] == [("task_completed", len(events) + 1)]
    [seen] = effects(bench)
    assert (seen.outcome, seen.value, seen.confirmed) == ("done", "sent", 1)
    assert execution["shard"] == shard_of(held.execution)


def test_a_log_of_nobody_is_not_found(bench: Bench) -> None:
    held = bench.begun()
    for company, execution in (("default", "exe_none"), ("other", held.execution)):
        with pytest.raises(NotFound):
            bench.read(lambda reads: log_page(reads, company, execution, after=0, limit=10))  # noqa: B023 - read at once


def test_a_holder_that_is_dropped_leaves_its_effects_as_they_are(bench: Bench) -> None:
    bench.owned()
    bench.do(drop, Drop("srv_1"))
    assert effects(bench) == []


# -- what only events say ----------------------------------------------------------------------------------------------


def log(*given: tuple[Kind, str, dict[str, Any]]) -> list[Event]:
    return [Event(seq, kind, address, "d", data, seq) for seq, (kind, address, data) in enumerate(given, 1)]


def scheduled(delivery: str = "at_most_once") -> tuple[Kind, str, dict[str, Any]]:
    return Kind.TASK_SCHEDULED, "t", {"tool": "pay", "args": {}, "key": "exe_1/t", "delivery": delivery}


def begun(claim: int) -> tuple[Kind, str, dict[str, Any]]:
    return Kind.TASK_BEGUN, "t", {"claim": claim, "worker": "w", "attempt": claim}


UNKNOWN = (Kind.TASK_UNCERTAIN, "t", {"why": "silence", "attempt": 1, "worker": "w"})
RUN = (Kind.EFFECT_RULED, "t", {"ruling": "run", "by": "ann", "reason": "", "value": None})
DONE = (Kind.TASK_COMPLETED, "t", {"value": 1, "attempt": 2, "worker": "w"})
NOT_DONE = (Kind.ATTEMPT_FAILED, "t", {"code": "not_done", "error": "no", "attempt": 1, "worker": "w"})


def test_a_contradiction_counts_as_done_twice() -> None:
    said = (Kind.EFFECT_CONTRADICTED, "t", {"claim": 1, "worker": "w", "value": "sent"})
    [seen] = effects_of("exe_1", "a", log(scheduled(), begun(1), UNKNOWN, RUN, begun(2), DONE, said))
    assert (seen.outcome, seen.confirmed, seen.state) == ("contradicted", 2, "done")
    assert "the holder of claim 1 reported it done after it had been ruled over (event 7)" in seen.doubt


def test_a_claim_after_the_authors_word_that_nothing_happened_is_no_doubt() -> None:
    [seen] = effects_of("exe_1", "a", log(scheduled(), begun(1), NOT_DONE, begun(2), DONE))
    assert (seen.claims, seen.confirmed, seen.doubt) == (2, 1, "")


def test_tries_of_a_transaction_are_no_doubt() -> None:
    failed = (Kind.ATTEMPT_FAILED, "t", {"code": "boom", "error": "no", "attempt": 1, "worker": "w"})
    [seen] = effects_of("exe_1", "a", log(scheduled("transactional"), failed, DONE))
    assert (seen.attempts, seen.doubt) == (2, "")


def test_what_was_handed_back_was_not_tried() -> None:
    lost = (Kind.ATTEMPT_LOST, "t", {"why": "handed back", "attempt": 1, "worker": "w"})
    first = (Kind.TASK_COMPLETED, "t", {"value": 1, "attempt": 1, "worker": "w"})
    [seen] = effects_of("exe_1", "a", log(scheduled("at_least_once"), lost, first))
    assert (seen.attempts, seen.doubt) == (1, "")


def test_the_log_alone_says_where_an_effect_stands() -> None:
    for told, outcome in (((begun(1),), "begun"), ((begun(1), UNKNOWN), "uncertain"), ((), "waiting")):
        [seen] = effects_of("exe_1", "a", log(scheduled(), *told))
        assert seen.outcome == outcome
    [seen] = effects_of("exe_1", "a", log(scheduled()), {"t": TaskNow("dead", 0)})
    assert (seen.outcome, seen.attempts) == ("dead", 0)


REPLIED = {"value": {"outcome": "replied", "reply": {"cost_usd": 0.5}, "requests": 1, "failures": []}}
TAKEN = (Kind.TAKEN_OVER, "", {"fence": 2})


def test_a_model_call_recorded_after_a_takeover_may_have_been_paid_twice() -> None:
    [seen] = found(ModelCalls(), log((Kind.STARTED, "", {}), TAKEN, (Kind.STEP_RECORDED, "turn 1/model", REPLIED)))
    assert seen.cost_usd == 0.5
    assert seen.doubt == (
        "possibly paid twice: the execution was taken over (event 2) before its reply was recorded (event 3)"
    )


def test_a_takeover_before_what_the_call_follows_is_none_of_its() -> None:
    model = (Kind.STEP_RECORDED, "turn 2/model", REPLIED)
    calls = found(ModelCalls(), log(TAKEN, scheduled(), DONE, model))
    assert [one.doubt for one in calls] == [""]
    calls = found(ModelCalls(), log(scheduled(), TAKEN, DONE, model))
    assert [one.doubt for one in calls] == [""]


def test_a_ruling_during_a_model_call_hides_no_takeover() -> None:
    told = (Kind.EFFECT_RULED, "t", {"ruling": "happened", "by": "ann", "reason": "", "value": None})
    model = (Kind.STEP_RECORDED, "turn 2/model", REPLIED)
    [seen] = found(ModelCalls(), log(scheduled(), begun(1), UNKNOWN, TAKEN, told, model))
    assert "possibly paid twice" in seen.doubt


def recorded(address: str) -> tuple[Kind, str, dict[str, Any]]:
    return Kind.STEP_RECORDED, address, {"value": 1}


def test_a_step_recorded_after_a_takeover_may_have_been_tried_twice() -> None:
    steps = found(InlineSteps(), log(recorded("a"), TAKEN, recorded("b"), recorded("b/2")))
    assert [(one.address, bool(one.doubt)) for one in steps] == [("a", False), ("b", True), ("b/2", False)]
    assert "taken over (event 2) before it was recorded (event 3)" in steps[1].doubt


def test_a_takeover_is_counted_for_each_scope_that_has_recorded_nothing_since() -> None:
    steps = found(
        InlineSteps(), log(recorded("left/a"), recorded("right/a"), TAKEN, recorded("left/b"), recorded("right/b"))
    )
    assert [bool(one.doubt) for one in steps] == [False, False, True, True]


def test_what_a_step_had_to_wait_for_after_a_takeover_clears_it() -> None:
    waited = (Kind.WAIT_OPENED, "yes", {}), TAKEN, (Kind.WAIT_RESOLVED, "yes", {})
    assert [one.doubt for one in found(InlineSteps(), log(*waited, recorded("b")))] == [""]


def test_a_task_that_was_put_back_counts_its_tries_on() -> None:
    failed = (Kind.TASK_FAILED, "t", {"code": "boom", "error": "no", "attempt": 1, "worker": "w"})
    revived = (Kind.TASK_REVIVED, "t", {"by": "ann", "reason": "", "attempts": 1})
    [seen] = effects_of("exe_1", "a", log(scheduled("at_least_once"), failed, revived))
    assert (seen.outcome, seen.attempts) == ("waiting", 1)
    [seen] = effects_of("exe_1", "a", log(scheduled("at_least_once"), failed, revived, DONE))
    assert (seen.outcome, seen.attempts, bool(seen.doubt)) == ("done", 2, True)


def test_a_ruling_after_the_end_is_kept_as_evidence(bench: Bench) -> None:
    held = bench.begun()
    bench.signal(held.execution, "send", text="hello")
    [owned] = bench.claim()
    last = bench.execution(held.execution)["next_seq"] - 1
    bench.do(finish, Finish(owned.ref, owned.fence, last, 0, "fail", '{"error":"x","code":"limit_exceeded"}'))
    bench.expire(31)
    assert bench.task(held.execution)["state"] == "uncertain"
    ruled(bench, held, "happened", "receipt")
    [seen] = effects(bench)
    assert (seen.outcome, seen.ruled_by, seen.value) == ("done", "ann", "receipt")
    page = bench.read(lambda reads: log_page(reads, "default", held.execution, after=last + 1, limit=10))
    assert [link.kind for link in page.links] == ["task_uncertain", "effect_ruled"]
    assert page.last_seq == last + 3


def test_a_contradiction_by_a_real_holder_is_counted_once(bench: Bench) -> None:
    held = bench.uncertain()
    ruled(bench, held, "run")
    [again] = bench.lease("wrk_2")
    bench.begin(again, "b2")
    bench.report(again, value="sent again")
    bench.report(held, value="sent")
    bench.report(held, value="sent")
    [seen] = effects(bench, state="contradicted")
    assert (seen.outcome, seen.confirmed, seen.claims) == ("contradicted", 2, 2)
    assert "claim 1 reported it done after it had been ruled over" in seen.doubt


def test_a_call_that_was_given_an_equal_ones_receipt_was_not_done(bench: Bench) -> None:
    served = (Kind.TASK_COMPLETED, "t", {"value": 1, "attempt": 1, "worker": "w", "served": "first"})
    [seen] = effects_of("exe_1", "a", log(scheduled("at_least_once"), served))
    assert (seen.outcome, seen.value, seen.confirmed, seen.attempts, seen.served) == ("done", 1, 0, 0, "first")


def test_a_fork_did_not_do_what_its_origin_did() -> None:
    forked = (Kind.FORKED, "", {"origin": "exe_0", "seq": 4, "edits": {}, "by": "ann"})
    model = (Kind.STEP_RECORDED, "turn 1/model", REPLIED)
    before = (scheduled(), begun(1), DONE, model)
    [seen] = effects_of("exe_1", "a", log(*before, forked))
    assert (seen.outcome, seen.claims, seen.confirmed, seen.served) == ("done", 0, 0, "exe_0")
    assert found(ModelCalls(), log(*before, forked)) == []
    taken = (Kind.TASK_COMPLETED, "t", {"value": 2, "attempt": 1, "worker": "w", "origin": "exe_0"})
    [seen] = effects_of("exe_1", "a", log(scheduled(), forked, taken))
    assert (seen.outcome, seen.value, seen.confirmed, seen.served) == ("done", 2, 0, "exe_0")
    [seen] = effects_of("exe_1", "a", log(scheduled(), forked, begun(1), DONE))
    assert (seen.outcome, seen.claims, seen.confirmed, seen.served) == ("done", 1, 1, "")
