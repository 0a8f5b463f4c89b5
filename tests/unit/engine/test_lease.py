"""Reservations: one holder per task, bounded, and the same answer to the same question."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_bench import AGENT, COMPANY, WORKER, Bench, request, task, wish
from perdure.core.work import Lane
from perdure.engine.lease import lease
from perdure.engine.record import Record, record
from perdure.engine.signal import signal
from perdure.testing.clock import FakeClock, SeededRandom
from store_operations import Waiter
from unsure_store import UnsureStore
from which_store import open_store, rows_of, store_at


def test_a_leased_task_carries_what_its_body_needs(bench: Bench) -> None:
    held = bench.waiting(task("turn 1/tool/a", args={"order": "7"}, timeout_ms=900, delivery="repeatable"))
    [one] = bench.lease(lease_ms=5_000)
    assert (one.execution, one.address, one.agent, one.tool) == (held.ref.execution, "turn 1/tool/a", AGENT, "post")
    assert (one.args, one.delivery, one.timeout_ms) == ({"order": "7"}, "repeatable", 900)
    assert (one.attempt, one.fence, one.lease_ms) == (1, 1, 5_000)
    assert one.key == f"{held.ref.execution}/turn 1/tool/a"


def test_a_task_has_one_holder(bench: Bench) -> None:
    bench.waiting(task())
    assert len(bench.lease("wrk_1")) == 1
    assert bench.lease("wrk_2") == []


def test_two_workers_in_one_batch_share_the_tasks(bench: Bench) -> None:
    bench.waiting(*(task(f"t{i}") for i in range(5)))
    one, two, three = bench.together(*((lease, wish(f"wrk_{i}", slots=2)) for i in range(3)))
    assert [len(tasks) for tasks in (one, two, three)] == [2, 2, 1]
    assert len({each.address for each in [*one, *two, *three]}) == 5


def test_a_lease_is_bounded_by_the_free_slots_over_all_lanes(bench: Bench) -> None:
    bench.waiting(*(task(f"{tool}{i}", tool=tool) for tool in ("post", "get") for i in range(3)))
    lanes = (Lane(AGENT, "post"), Lane(AGENT, "get"))
    assert [one.tool for one in bench.lease(slots=4, lanes=lanes)] == ["post", "post", "post", "get"]
    assert bench.lease("wrk_2", slots=0, lanes=lanes) == []


def test_what_a_wish_was_given_by_a_commit_that_is_reported_lost_is_told(tmp_path: Path) -> None:
    """Run again, the transaction announces nothing; untold, the task would lie leased until its lease ran out."""
    clock, waiter = FakeClock(), Waiter()
    store = UnsureStore(open_store(tmp_path / "p.db", clock=clock, random=SeededRandom()))
    bench = Bench(store, clock)
    try:
        held = bench.owned()
        bench.writer.submit(lease, wish(), waiter, wants=(("tasks", f"{COMPANY}/default"),))
        bench.writer.drain()
        assert waiter.entries == []
        store.unsure = True
        bench.do(record, Record(held.ref, held.fence, 1, (task("a"),)))
        store.unsure = False
        [entry] = waiter.entries
        assert [(one.address, one.fence, one.attempt) for one in entry.result] == [("a", 1, 1)]
        assert store.lost == 1
    finally:
        store.close()


@pytest.mark.parametrize("damage", ["substr(data, 1, 20)", "replace(data, 'args', 'argt')"])
def test_a_task_that_was_damaged_keeps_no_other_from_its_worker(damage: str, bench: Bench, tmp_path: Path) -> None:
    broken, whole = bench.waiting(task()), bench.waiting(task())
    rows_of(
        store_at(tmp_path / "p.db"),
        f"UPDATE events SET data = {damage} WHERE execution = :execution AND kind = 'task_scheduled'",
        {"execution": broken.ref.execution},
    )
    assert [one.execution for one in bench.lease()] == [whole.ref.execution]
    assert bench.execution(broken.ref.execution)["state"] == "stuck"
    assert bench.lease("wrk_2", slots=1) == []
    after = bench.execution(broken.ref.execution)["next_seq"] - 2
    last = bench.row("events_after", shard=broken.ref.shard, execution=broken.ref.execution, after=after, limit=1)
    assert last is not None
    assert "cannot be read" in last["data"]


def test_a_lost_answer_is_given_again_without_another_attempt(bench: Bench) -> None:
    bench.waiting(task("a"), task("b"), task("c"))
    first = bench.lease(nonce="n1", slots=2)
    bench.clock.advance(10)
    assert bench.lease(nonce="n1", slots=2) == first
    assert bench.task(first[0].execution, "a")["lease_until_ms"] == bench.clock.wall_ms() + 30_000
    assert [one.address for one in bench.lease(nonce="n2")] == ["c"]


def test_a_nonce_answers_only_the_worker_that_used_it(bench: Bench) -> None:
    bench.waiting(task())
    bench.lease("wrk_1", "n")
    assert bench.lease("wrk_2", "n") == []
    assert bench.do(lease, wish("wrk_1", "n", company="other")) == []


def test_what_has_ended_is_not_given_again(bench: Bench) -> None:
    bench.waiting(task("a"), task("b"))
    first, second = bench.lease(nonce="n1")
    bench.report(first)
    assert bench.lease(nonce="n1") == [second]


def test_lanes_are_agent_tool_queue_and_company(bench: Bench) -> None:
    bench.waiting(task(queue="slow"))
    for lane in (Lane(AGENT, "post"), Lane(AGENT, "get", "slow"), Lane("other", "post", "slow")):
        assert bench.lease(lanes=(lane,)) == []
    assert bench.lease(company="other", lanes=(Lane(AGENT, "post", "slow"),)) == []
    assert len(bench.lease(lanes=(Lane(AGENT, "post", "slow"),))) == 1


def test_the_longest_due_is_given_first(bench: Bench) -> None:
    for address in ("a", "b", "c"):
        bench.waiting(task(address))
        bench.clock.advance(1)
    assert [one.address for one in bench.lease(slots=2)] == ["a", "b"]


def test_tasks_of_a_paused_execution_stay_until_it_is_resumed(bench: Bench) -> None:
    held = bench.waiting(task())
    bench.signal(held.ref.execution, "pause")
    assert bench.lease() == []
    bench.notes.clear()
    bench.signal(held.ref.execution, "resume")
    assert ("tasks_all", COMPANY) in [(note.topic, note.key) for note in bench.notes]
    assert len(bench.lease()) == 1


def test_a_pause_or_cancel_in_the_same_batch_keeps_the_task_back(bench: Bench) -> None:
    for verb in ("pause", "cancel"):
        held = bench.waiting(task())
        _, given = bench.together((signal, request(held.ref.execution, verb)), (lease, wish()))
        assert given == []
        given, _ = bench.together((lease, wish()), (signal, request(held.ref.execution, verb)))
        assert given == []


def test_a_pause_after_the_lease_in_the_same_batch_leaves_it_leased(bench: Bench) -> None:
    held = bench.waiting(task())
    given, _ = bench.together((lease, wish(WORKER)), (signal, request(held.ref.execution, "pause")))
    assert len(given) == 1
    assert bench.task(held.ref.execution)["state"] == "leased"
