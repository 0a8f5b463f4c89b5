"""A call that failed for good, put back by a person: recorded, its attempts anew, and never what may have acted."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import Bench, once, task
from perdure.core.delivery import NOT_DONE
from perdure.core.rules import TaskRules
from perdure.core.work import Answer, Failure, LeasedTask
from perdure.engine.park import Finish, finish
from perdure.engine.revive import Revive, revive
from perdure.engine.rule import Rule, rule
from perdure.errors import Conflict, NotFound

NO = Failure("tool_error", "no", permanent=True)


def dead(bench: Bench, **options: Any) -> LeasedTask:
    held = bench.leased(task(**options))
    bench.report(held, "failed", failure=NO)
    assert bench.task(held.execution)["state"] == "dead"
    return held


def wish(execution: str, *, company: str = "default", address: str = "tool", by: str = "ann") -> Revive:
    return Revive(company, execution, address, by, "the disk is back")


def again(bench: Bench, execution: str, **options: Any) -> Any:
    return bench.do(revive, wish(execution, **options))


def test_its_attempts_begin_anew_and_the_log_says_who_wanted_it(bench: Bench) -> None:
    held = dead(bench, max_attempts=2)
    assert again(bench, held.execution) is None
    last = bench.last(held.execution)
    assert (last.kind, last.data) == ("task_revived", {"by": "ann", "reason": "the disk is back", "attempts": 2})
    [second] = bench.lease()
    assert (second.attempt, second.key, second.fence > held.fence) == (2, held.key, True)
    bench.report(second, "failed", failure=Failure("tool_error", "no"))
    bench.expire(4)
    [third] = bench.lease()
    bench.report(third, "failed", failure=Failure("tool_error", "no"))
    assert bench.task(held.execution)["state"] == "dead"


def test_the_execution_is_woken_to_hear_of_it(bench: Bench) -> None:
    held = dead(bench)
    [owned] = bench.claim()
    bench.park(owned)
    again(bench, held.execution)
    assert bench.state(held.execution) == ("ready", "ready")


def test_its_deadline_does_not_count_any_more(bench: Bench) -> None:
    held = dead(bench, rules=TaskRules(deadline_ms=5_000, pause_ms=700))
    bench.expire(60)
    again(bench, held.execution)
    [second] = bench.lease()
    assert second.timeout_ms == 0
    assert bench.report(second, value=1) is Answer.ACCEPTED


def test_the_old_holder_stays_shut_out(bench: Bench) -> None:
    held = dead(bench)
    again(bench, held.execution)
    assert bench.report(held, value="late") is Answer.LEASE_LOST


def refusal(bench: Bench, execution: str, **options: Any) -> str:
    found = again(bench, execution, **options)
    assert isinstance(found, (Conflict, NotFound))
    return found.code


def test_only_what_is_dead_is_put_back(bench: Bench) -> None:
    held = bench.leased()
    assert refusal(bench, held.execution) == "not_dead"
    bench.report(held, value=1)
    assert refusal(bench, held.execution) == "not_dead"


def test_the_same_word_again_is_once_and_anothers_is_refused(bench: Bench) -> None:
    """Its commit may be reported lost: the second run finds what the first has done."""
    held = dead(bench)
    assert bench.twice(revive, wish(held.execution)) == (None, None)
    assert refusal(bench, held.execution, by="bob") == "not_dead"
    assert bench.kinds(held.execution).count("task_revived") == 1


def test_it_was_put_back_also_if_it_ended_before_that_was_said_again(bench: Bench) -> None:
    held = dead(bench)
    again(bench, held.execution)
    [second] = bench.lease()
    bench.report(second, value=1)
    assert again(bench, held.execution) is None
    assert bench.kinds(held.execution).count("task_revived") == 1


def test_who_puts_it_back_a_second_time_may_use_the_same_words(bench: Bench) -> None:
    held = dead(bench)
    again(bench, held.execution)
    [second] = bench.lease()
    bench.report(second, "failed", failure=NO)
    assert again(bench, held.execution) is None
    assert bench.task(held.execution)["state"] == "ready"
    assert bench.kinds(held.execution).count("task_revived") == 2


def test_nothing_runs_again_for_what_has_ended(bench: Bench) -> None:
    held = dead(bench)
    [owned] = bench.claim()
    seen = bench.execution(held.execution)["next_seq"] - 1
    bench.do(finish, Finish(owned.ref, owned.fence, seen, 0, "complete", '{"output":1}'))
    assert refusal(bench, held.execution) == "ended"


def test_nothing_runs_again_for_what_is_being_cancelled(bench: Bench) -> None:
    held = dead(bench)
    bench.signal(held.execution, "cancel")
    assert refusal(bench, held.execution) == "ended"


def test_what_may_have_acted_is_for_a_ruling(bench: Bench) -> None:
    held = bench.begun()
    bench.report(held, "failed", failure=Failure("tool_error", "no"))
    bench.do(rule, Rule("default", held.execution, "tool", "give_up", "ann", ""))
    assert bench.task(held.execution)["state"] == "dead"
    assert refusal(bench, held.execution) == "had_begun"


def test_what_its_author_vouches_did_not_happen_may_be_tried_anew(bench: Bench) -> None:
    held = bench.begun(once())
    bench.report(held, "failed", failure=Failure(NOT_DONE, "the terminal was offline"))
    assert bench.task(held.execution)["state"] == "dead"
    assert again(bench, held.execution) is None
    [second] = bench.lease()
    assert bench.begin(second, "b2") is Answer.ACCEPTED


@pytest.mark.parametrize("options", [{"company": "other"}, {"address": "nowhere"}])
def test_what_is_not_there_is_not_found(bench: Bench, options: dict[str, Any]) -> None:
    assert refusal(bench, dead(bench).execution, **options) == "not_found"
