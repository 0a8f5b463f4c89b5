"""Tries of a task on both databases: pauses, deadlines, retries by hand and what bodies say, with the same SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_bench import COMPANY, WORKER, Bench, bench_in, task
from perdure.core import codec
from perdure.core.ids import shard_of
from perdure.core.rules import TaskRules
from perdure.core.work import Answer, Failure, Held
from perdure.engine.diagnose import diagnose
from perdure.engine.due import Sweep
from perdure.engine.held import Beats, beat
from perdure.engine.query_tasks import tasks_view
from perdure.engine.revive import Revive, revive
from perdure.engine.tries import expire_tries
from perdure.store.postgres import open_postgres
from perdure.store.protocol import Row
from perdure.testing.clock import FakeClock, SeededRandom

NO_PAUSE = TaskRules(pause_ms=0)


class LockingBench(Bench):
    """A bench over a database whose readers cannot run the query that locks."""

    def execution(self, execution: str) -> Row:
        with self.store.write() as connection:
            found = connection.row("lock_executions", wanted=codec.encode({execution: shard_of(execution)}))
        assert found is not None
        return found


@pytest.fixture(params=["sqlite", "postgres"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "sqlite":
        with bench_in(tmp_path) as made:
            yield made
        return
    store = open_postgres(request.getfixturevalue("postgres_database"), random=SeededRandom())
    try:
        yield LockingBench(store, FakeClock())  # type: ignore[arg-type] - a store is a store
    finally:
        store.close()


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
