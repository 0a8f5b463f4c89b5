"""Forks: a prefix of another's log, edited, that goes on by itself and does nothing again that the origin did."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import COMPANY, Bench, ask, once, ref, step, task
from perdure.core import codec
from perdure.core.ids import shard_of
from perdure.core.items import StepDone
from perdure.core.views import EffectFilter, ForkEdits, Started
from perdure.engine.claim import Claimed
from perdure.engine.fork import Fork, fork
from perdure.engine.ledger import effects_view, log_page
from perdure.engine.query import execution_view
from perdure.engine.resolve import Decide, decide
from perdure.errors import Conflict, InvalidInput, NotFound


def origin_with(bench: Bench, *items: Any) -> str:
    return bench.waiting(*items).ref.execution


def forked(bench: Bench, origin: str, at: int, *, id: str = "exe_fork", company: str = "default", **edits: Any) -> Any:
    return bench.do(fork, Fork(id, company, origin, at, ForkEdits(**edits), "ann"))


def done(bench: Bench, origin: str) -> None:
    for held in bench.lease():
        if held.delivery == "at_most_once":
            bench.begin(held)
        bench.report(held, value=f"did {held.address}")


def keyed(bench: Bench, origin: str, at: int, key: str, *, id: str, **edits: Any) -> Any:
    return bench.do(fork, Fork(id, COMPANY, origin, at, ForkEdits(**edits), "ann", start_key=key))


def replied(address: str = "turn 1/model", text: str = "hello") -> StepDone:
    """Return a model's reply that is in the log, and what it cost."""
    usage = {"input_tokens": 3, "output_tokens": 2}
    value = {"outcome": "replied", "requests": 1, "reply": {"text": text, "usage": usage, "cost_usd": 0.5}}
    return StepDone(address, "d", codec.encode({"value": value}))


def claimed(bench: Bench, execution: str = "exe_fork") -> Claimed:
    return next(one for one in bench.claim() if one.ref.execution == execution)


def test_a_fork_has_the_prefix_and_goes_on(bench: Bench) -> None:
    origin = origin_with(bench, step(), task())
    done(bench, origin)
    assert forked(bench, origin, 4) == Started("exe_fork", created=True)
    assert bench.kinds("exe_fork") == ["started", "step_recorded", "task_scheduled", "task_completed", "forked"]
    assert bench.last("exe_fork").data["origin"] == origin
    assert claimed(bench).ref == ref("exe_fork")
    assert bench.state(origin)[0] != "running" or bench.kinds(origin)[-1] == "task_completed"


def test_asked_twice_it_is_made_once(bench: Bench) -> None:
    origin = origin_with(bench, step())
    row = Fork("exe_fork", "default", origin, 2, ForkEdits(), "ann")
    first, second = bench.twice(fork, row)
    assert first == second == Started("exe_fork", created=True)
    assert bench.kinds("exe_fork") == ["started", "step_recorded", "forked"]


def test_the_same_key_for_the_same_origin_gives_the_first_fork_back(bench: Bench) -> None:
    origin, other = origin_with(bench, step()), origin_with(bench, step())
    assert isinstance(keyed(bench, origin, 9, "k", id="exe_0"), InvalidInput)  # what is refused uses no key up
    assert keyed(bench, origin, 2, "k", id="exe_1", prompt="x") == Started("exe_1", created=True)
    assert keyed(bench, origin, 2, "k", id="exe_2", prompt="x") == Started("exe_1", created=False)
    for at, prompt in ((1, "x"), (2, "y")):
        refused = keyed(bench, origin, at, "k", id="exe_3", prompt=prompt)
        assert isinstance(refused, Conflict)
        assert (refused.code, refused.details["execution"]) == ("start_key_conflict", "exe_1")
    assert keyed(bench, other, 2, "k", id="exe_4") == Started("exe_4", created=True)
    rows = [(fork, Fork(id, COMPANY, origin, 2, ForkEdits(), "ann", start_key="one")) for id in ("exe_5", "exe_6")]
    assert [bench.do(*row) for row in rows] == [Started("exe_5", created=True), Started("exe_5", created=False)]


def test_its_chain_starts_over_and_names_the_origins(bench: Bench) -> None:
    origin = origin_with(bench, step(), task())
    forked(bench, origin, 2)
    theirs = bench.read(lambda reads: log_page(reads, COMPANY, origin, after=0, limit=10)).links
    ours = bench.read(lambda reads: log_page(reads, COMPANY, "exe_fork", after=0, limit=10)).links
    assert (bench.last("exe_fork").data["seq"], bench.last("exe_fork").data["head"]) == (2, theirs[1].hash)
    assert ours[0].hash != theirs[0].hash


def test_a_call_that_the_fork_makes_itself_has_a_key_of_its_own_and_a_copied_one_has_not(bench: Bench) -> None:
    origin = origin_with(bench, step(), task("done"), task("open"))
    [first] = [one for one in bench.lease() if one.address == "done"]
    bench.report(first, value="did it")
    forked(bench, origin, 5)
    keys = {event.address: event.data["key"] for event in bench.log("exe_fork") if event.kind == "task_scheduled"}
    assert keys == {"done": f"{origin}/done", "open": "exe_fork/open"}
    bench.signal("exe_fork", "resume")
    [own] = [one for one in bench.lease(worker="wrk_2") if one.execution == "exe_fork"]
    assert own.key == "exe_fork/open"


def test_a_claim_in_doubt_keeps_the_key_of_the_act_that_is_in_doubt(bench: Bench) -> None:
    held = bench.begun()
    forked(bench, held.execution, bench.execution(held.execution)["next_seq"] - 1)
    keys = [event.data["key"] for event in bench.log("exe_fork") if event.kind == "task_scheduled"]
    assert keys == [f"{held.execution}/{held.address}"]


def test_an_approval_of_the_origin_is_no_consent_to_an_act_of_the_fork(bench: Bench) -> None:
    origin = origin_with(bench, step(), ask())
    bench.do(decide, Decide(COMPANY, "apr_1", "approve", "ann", "", None))
    again = next(one for one in bench.claim() if one.ref.execution == origin)
    bench.record(again, once(approval="tool/approval"))
    last = bench.execution(origin)["next_seq"] - 1
    refused = forked(bench, origin, last)
    assert isinstance(refused, Conflict)
    assert "fork it at 2 or earlier" in refused.message
    [held] = bench.lease()
    bench.begin(held)
    bench.report(held, value="sent")
    assert isinstance(forked(bench, origin, last), Started)  # now the act is the origin's, and done
    assert bench.task("exe_fork")["state"] == "done"


def test_what_the_model_said_last_may_be_another_reply(bench: Bench) -> None:
    origin = origin_with(bench, replied(), task())
    reply = {"text": "other", "tool_calls": []}
    assert isinstance(forked(bench, origin, 2, results={"turn 1/model": reply}), Started)
    said = bench.log("exe_fork")[1]
    assert (said.data["value"]["reply"], said.data["edited"], said.digest) == (reply, True, "d")
    assert said.data["value"]["requests"] == 1


def test_a_reply_is_not_replaced_under_what_it_asked_for(bench: Bench) -> None:
    origin = origin_with(bench, replied(), task())
    refused = forked(bench, origin, 3, results={"turn 1/model": {"text": "other"}})
    assert isinstance(refused, InvalidInput)
    assert "fork at 2" in refused.message


def test_what_the_origin_paid_is_not_the_forks_cost(bench: Bench) -> None:
    origin = origin_with(bench, replied())
    forked(bench, origin, 2)
    held = claimed(bench)
    bench.record(held, replied("turn 2/model"))
    views = [bench.read(lambda reads, one=one: execution_view(reads, COMPANY, one)) for one in (origin, "exe_fork")]
    assert [(view.usage.model_calls, view.usage.input_tokens, view.usage.cost_usd) for view in views] == [
        (1, 3, 0.5)
    ] * 2


def test_a_result_that_was_edited_is_told_as_nobodys_report(bench: Bench) -> None:
    origin = origin_with(bench, step(), once())
    done(bench, origin)
    forked(bench, origin, bench.execution(origin)["next_seq"] - 1, results={"tool": 42})
    [seen] = bench.read(lambda reads: effects_view(reads, COMPANY, EffectFilter("exe_fork")))
    assert (seen.value, seen.edited, seen.served, seen.claims, seen.confirmed) == (42, True, origin, 0, 0)
    [seen] = bench.read(lambda reads: effects_view(reads, COMPANY, EffectFilter(origin)))
    assert (seen.edited, seen.confirmed) == (False, 1)


@pytest.mark.parametrize(("bound", "most"), [("MOST_EVENTS", 2), ("MOST_BYTES", 150)])
def test_what_is_copied_at_once_is_bounded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    origin = origin_with(bench, step(), task())
    monkeypatch.setattr(f"perdure.engine.fork_prefix.{bound}", most)
    refused = forked(bench, origin, 3)
    assert isinstance(refused, Conflict)
    assert (refused.code, "fork it earlier" in refused.message) == ("not_forkable", True)
    assert isinstance(forked(bench, origin, 1), Started)


def test_a_long_prefix_is_read_by_the_page(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = origin_with(bench, step(), task("one"), task("two"), step("turn 2/model"))
    done(bench, origin)
    monkeypatch.setattr("perdure.engine.fork_prefix.PAGE", 2)
    forked(bench, origin, 5)
    kinds = ["started", "step_recorded", "task_scheduled", "task_scheduled", "step_recorded", "forked"]
    assert bench.kinds("exe_fork") == [*kinds, "task_completed", "task_completed"]


def test_another_company_cannot_fork(bench: Bench) -> None:
    assert isinstance(forked(bench, origin_with(bench, step()), 2, company="other"), NotFound)
    assert isinstance(forked(bench, "exe_nobody", 2), NotFound)


def test_edits_of_prompt_and_results_stand_in_the_prefix(bench: Bench) -> None:
    origin = origin_with(bench, step("turn 1/model"), task(), step("turn 2/model"))
    done(bench, origin)
    log = bench.log(origin)
    assert [str(event.kind) for event in log][-1] == "task_completed"
    forked(bench, origin, 5, prompt="another", results={"tool": 42})
    events = bench.log("exe_fork")
    assert events[0].data["input"] == "another"
    assert [event.digest for event in events if event.kind == "step_recorded"] == ["*", "*"]
    assert next(event for event in events if event.kind == "task_completed").data["value"] == 42
    assert bench.log(origin) == log


def test_an_edited_result_leaves_what_stands_before_it_as_it_was(bench: Bench) -> None:
    origin = origin_with(bench, step("turn 1/model"), task())
    done(bench, origin)
    forked(bench, origin, 4, results={"tool": 42})
    assert [event.digest for event in bench.log("exe_fork") if event.kind == "step_recorded"] == ["d"]


def test_an_acting_call_past_the_prefix_takes_the_origins_result(bench: Bench) -> None:
    origin = origin_with(bench, step(), once())
    done(bench, origin)
    forked(bench, origin, 2)
    held = claimed(bench)
    news = bench.record(held, once())
    assert [row["kind"] for row in news.events] == ["task_scheduled", "task_completed"]
    assert bench.log("exe_fork")[-1].data["value"] == "did tool"
    assert bench.lease(worker="wrk_2") == []
    assert bench.task("exe_fork")["claims"] == 0


def test_a_call_that_the_origin_did_not_make_waits_for_a_person(bench: Bench) -> None:
    origin = origin_with(bench, step())
    forked(bench, origin, 2)
    held = claimed(bench)
    bench.record(held, task())
    assert bench.state("exe_fork")[0] == "paused"
    assert bench.lease() == []
    bench.park(held)
    bench.signal("exe_fork", "resume")
    assert [one.execution for one in bench.lease()] == ["exe_fork"]


def test_a_call_with_other_arguments_waits_too_and_one_that_only_reads_does_not(bench: Bench) -> None:
    origin = origin_with(bench, step(), task())
    done(bench, origin)
    forked(bench, origin, 2)
    held = claimed(bench)
    bench.record(held, task("look", delivery="repeatable"))
    assert bench.state("exe_fork")[0] == "running"
    bench.record(held, task(digest="other"))
    assert bench.state("exe_fork")[0] == "paused"


def test_a_claim_that_was_open_in_the_prefix_is_never_armed_again(bench: Bench) -> None:
    held = bench.begun()
    seq = bench.execution(held.execution)["next_seq"] - 1
    forked(bench, held.execution, seq)
    assert bench.task("exe_fork", held.address)["state"] == "uncertain"
    assert bench.lease(worker="wrk_2") == []
    assert "task_uncertain" in bench.kinds("exe_fork")
    bench.report(held, value="late")
    assert bench.task("exe_fork", held.address)["state"] == "uncertain"


def test_a_call_that_was_open_in_the_prefix_takes_what_the_origin_heard_later(bench: Bench) -> None:
    origin = origin_with(bench, step(), once())
    seq = bench.execution(origin)["next_seq"] - 1
    done(bench, origin)
    forked(bench, origin, seq)
    assert bench.task("exe_fork")["state"] == "done"
    assert bench.log("exe_fork")[-1].data["value"] == "did tool"


def test_no_fork_takes_over_an_approval_that_is_the_origins(bench: Bench) -> None:
    origin = origin_with(bench, step(), ask())
    refused = forked(bench, origin, 3)
    assert isinstance(refused, Conflict)
    assert refused.code == "not_forkable"
    assert "fork it at 2 or earlier" in refused.message
    assert isinstance(forked(bench, origin, 2), Started)


def test_a_place_or_a_result_that_is_not_there_is_named(bench: Bench) -> None:
    origin = origin_with(bench, step(), task())
    assert isinstance(forked(bench, origin, 9), InvalidInput)
    assert isinstance(forked(bench, origin, 3, results={"tool": 1}), InvalidInput)
    bench.signal(origin, "cancel")
    assert isinstance(forked(bench, origin, 4), Conflict)


def test_its_lineage_names_the_origin(bench: Bench) -> None:
    origin = origin_with(bench, step())
    forked(bench, origin, 2)
    assert bench.execution("exe_fork")["origin"] == origin
    assert bench.execution("exe_fork")["shard"] == shard_of("exe_fork")
