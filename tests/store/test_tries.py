"""Tries of a task on both databases: pauses, deadlines, retries by hand and what bodies say, with the same SQL."""

from __future__ import annotations

from engine_bench import COMPANY, WORKER, Bench, task
from perdure.core.rules import TaskRules
from perdure.core.work import Answer, Failure, Held
from perdure.engine.diagnose import diagnose
from perdure.engine.due import Sweep
from perdure.engine.held import Beats, beat
from perdure.engine.query_tasks import tasks_view
from perdure.engine.revive import Revive, revive
from perdure.engine.tries import expire_tries

NO_PAUSE = TaskRules(pause_ms=0)


def test_a_try_after_another_and_one_more_round_by_hand(bench: Bench) -> None:
    held = bench.leased(task(max_attempts=2, rules=NO_PAUSE))
    bench.report(held, "failed", failure=Failure("boom", "no"))
    [held] = bench.lease()
    bench.report(held, "failed", failure=Failure("boom", "no"))
    assert bench.task(held.execution)["state"] == "dead"
    assert bench.do(revive, Revive(COMPANY, held.execution, "tool", "ann", "")) is None
    [held] = bench.lease()
    assert (held.attempt, bench.report(held, value=1)) == (3, Answer.ACCEPTED)
    assert bench.kinds(held.execution)[-2:] == ["task_revived", "task_completed"]


def test_what_waits_past_the_deadline_for_its_next_try_has_failed(bench: Bench) -> None:
    held = bench.leased(task(rules=TaskRules(pause_ms=1, deadline_ms=60_000)))
    bench.report(held, "failed", failure=Failure("boom", "no"))
    assert bench.do(expire_tries, Sweep(10)) == 0
    late = bench.leased(task(rules=TaskRules(pause_ms=0, deadline_ms=1)))
    while bench.do(expire_tries, Sweep(10)) == 0:  # by the database's own clock
        bench.clock.advance(0.001)
    bench.report(late, "failed", failure=Failure("timeout", "too long"))
    assert bench.last(late.execution).data["error"].startswith("too long; it is not tried again")


def test_what_a_body_says_and_saves_is_kept(bench: Bench) -> None:
    held = bench.leased(task(rules=NO_PAUSE))
    said = Held(held.execution, held.address, held.fence, progress='"half\\u0000way"', saved='{"done":3}')
    assert bench.do(beat, Beats(COMPANY, WORKER, (said,))) == [Answer.ACCEPTED]
    assert bench.do(beat, Beats(COMPANY, WORKER, (Held(held.execution, held.address, held.fence),))) == [
        Answer.ACCEPTED
    ]
    [seen] = bench.read(lambda reads: tasks_view(reads, COMPANY, held.execution))
    assert (seen.progress, seen.saved) == ("half\0way", {"done": 3})
    bench.report(held, "failed", failure=Failure("boom", "no"))
    [again] = bench.lease()
    assert again.saved == '{"done":3}'


def test_the_doctor_reads_both(bench: Bench) -> None:
    held = bench.waiting(task())
    now_ms = bench.task(held.ref.execution)["updated_ms"]
    [found] = bench.read(lambda reads: diagnose(reads, COMPANY, held.ref.execution, [], now_ms))
    assert "no worker is connected here" in found.what
