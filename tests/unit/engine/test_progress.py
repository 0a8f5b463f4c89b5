"""What a worker says of a running body is kept under its fence, shown, and given to the next attempt."""

from __future__ import annotations

from engine_bench import COMPANY, WORKER, Bench, task
from perdure.core.work import Answer, Failure, Held, LeasedTask
from perdure.engine.held import Beats, beat
from perdure.engine.query import execution_view
from perdure.engine.query_tasks import tasks_view


def say(bench: Bench, held: LeasedTask, worker: str = WORKER, **said: str) -> Answer:
    row = Beats(COMPANY, worker, (Held(held.execution, held.address, held.fence, **said),))
    return bench.do(beat, row)[0]


def test_progress_and_what_was_saved_are_shown(bench: Bench) -> None:
    held = bench.leased()
    assert say(bench, held, progress='"page 3"', saved='{"done":3}') is Answer.ACCEPTED
    [seen] = bench.read(lambda reads: tasks_view(reads, COMPANY, held.execution))
    assert (seen.progress, seen.saved) == ("page 3", {"done": 3})
    [wait] = bench.read(lambda reads: execution_view(reads, COMPANY, held.execution)).waits
    assert wait.detail == f"post, which worker {WORKER} runs: page 3"


def test_a_heartbeat_without_a_word_changes_nothing_of_it(bench: Bench) -> None:
    held = bench.leased()
    say(bench, held, progress="0.5", saved="1")
    say(bench, held)
    say(bench, held, progress="0.75")
    [seen] = bench.read(lambda reads: tasks_view(reads, COMPANY, held.execution))
    assert (seen.progress, seen.saved) == (0.75, 1)


def test_who_lost_its_lease_saves_nothing(bench: Bench) -> None:
    held = bench.leased()
    bench.expire(31)
    [second] = bench.lease("wrk_2")
    assert say(bench, held, saved='"old"') is Answer.LEASE_LOST
    assert say(bench, second, worker="wrk_2", saved='"new"') is Answer.ACCEPTED
    assert bench.task(held.execution)["saved"] == '"new"'


def test_a_worker_that_died_left_what_it_saved_to_the_next(bench: Bench) -> None:
    held = bench.leased(task())
    say(bench, held, saved='{"done":3}')
    bench.expire(31)
    [second] = bench.lease("wrk_2")
    assert second.saved == '{"done":3}'


def test_what_is_no_json_is_shown_as_it_is(bench: Bench) -> None:
    held = bench.leased()
    say(bench, held, progress="{half")
    [seen] = bench.read(lambda reads: tasks_view(reads, COMPANY, held.execution))
    assert seen.progress == "{half"
    bench.report(held, "failed", failure=Failure("boom", "no"))
