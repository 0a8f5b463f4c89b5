"""What a holder appends: in order, under its fence, once."""

from __future__ import annotations

from engine_bench import Bench, ask, once, ref, step, task
from perdure.core.items import SetTimer
from perdure.engine.record import News, Record, record
from perdure.engine.resolve import Decide, decide
from perdure.engine.signal import Signal, signal
from perdure.engine.sweep import Drop, drop
from perdure.errors import LeaseLost


def seqs(news: object) -> list[tuple[int, str]]:
    assert isinstance(news, News)
    return [(row["seq"], row["kind"]) for row in news.events]


def test_items_are_appended_in_order_with_the_rows_that_belong_to_them(bench: Bench) -> None:
    held = bench.owned()
    execution = held.ref.execution
    answer = bench.record(held, step(), ask(), task(), SetTimer("t", "d", 500))
    assert seqs(answer) == [(2, "step_recorded"), (3, "waitpoint_opened"), (4, "task_scheduled"), (5, "timer_set")]
    assert bench.task(execution)["state"] == "ready"
    assert bench.last(execution).data["due_ms"] == bench.last(execution).at_ms + 500
    assert bench.log(execution)[3].data["key"] == f"{execution}/tool"
    assert ("tasks", "default/default") in [(note.topic, note.key) for note in bench.notes]


def test_a_late_holder_is_refused_and_writes_nothing(bench: Bench) -> None:
    held = bench.owned()
    bench.do(drop, Drop("srv_1"))
    bench.claim(holder="srv_2")
    assert isinstance(bench.record(held, step()), LeaseLost)
    assert "step_recorded" not in bench.kinds(held.ref.execution)


def test_expiry_alone_refuses_nobody(bench: Bench) -> None:
    held = bench.owned()
    bench.do(drop, Drop("srv_1"))
    assert seqs(bench.record(held, step())) == [(2, "step_recorded")]


def test_an_unknown_or_ended_execution_takes_nothing(bench: Bench) -> None:
    held = bench.owned()
    assert isinstance(bench.do(record, Record(ref("exe_none"), 1, 0, (step(),))), LeaseLost)
    bench.do(signal, Signal("default", held.ref.execution, "cancel"))
    from perdure.engine.park import Finish, finish

    bench.do(finish, Finish(held.ref, held.fence, 2, 0, "end", "{}"))
    assert isinstance(bench.record(held, step()), LeaseLost)


def test_the_answer_brings_what_others_appended_in_between(bench: Bench) -> None:
    held = bench.owned()
    bench.do(signal, Signal("default", held.ref.execution, "send", text="hello"))
    assert seqs(bench.record(held, step(), seen=1)) == [(2, "message"), (3, "step_recorded")]
    assert seqs(bench.record(held, seen=1)) == [(2, "message"), (3, "step_recorded")]


def test_the_answer_brings_what_others_appended_in_the_same_batch(bench: Bench) -> None:
    held = bench.owned()
    _, answer = bench.together(
        (signal, Signal("default", held.ref.execution, "send")), (record, Record(held.ref, held.fence, 1, (step(),)))
    )
    assert seqs(answer) == [(2, "message"), (3, "step_recorded")]


def test_a_record_whose_answer_was_lost_is_taken_once(bench: Bench) -> None:
    held = bench.owned()
    row = Record(held.ref, held.fence, 1, (step(), ask(), task(), SetTimer("t", "d", 500)))
    first, second = bench.twice(record, row)
    assert seqs(first) == seqs(second)
    assert bench.execution(held.ref.execution)["next_seq"] == 6


def test_a_repeated_record_is_taken_once_though_others_wrote_in_between(bench: Bench) -> None:
    held = bench.owned()
    row = Record(held.ref, held.fence, 1, (step(), task()))
    bench.do(record, row)
    bench.do(signal, Signal("default", held.ref.execution, "send"))
    assert seqs(bench.do(record, row)) == [(2, "step_recorded"), (3, "task_scheduled"), (4, "message")]


def test_an_approval_is_used_up_when_a_repeatable_call_is_scheduled(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, ask())
    bench.do(decide, Decide("default", "apr_1", "approve", "ann", ""))
    bench.record(held, task(approval="tool/approval"))
    point = bench.row("waitpoint", shard=held.ref.shard, execution=held.ref.execution, address="tool/approval")
    assert point is not None
    assert point["consumed_ms"] is not None


def test_an_approval_of_an_effect_is_kept_until_it_begins(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, ask())
    bench.do(decide, Decide("default", "apr_1", "approve", "ann", ""))
    bench.record(held, once(approval="tool/approval"))
    point = bench.row("waitpoint", shard=held.ref.shard, execution=held.ref.execution, address="tool/approval")
    assert point is not None
    assert point["consumed_ms"] is None


def test_what_was_scheduled_without_knowing_of_a_cancel_is_never_given_out(bench: Bench) -> None:
    held = bench.owned()
    bench.do(signal, Signal("default", held.ref.execution, "cancel"))
    assert seqs(bench.record(held, task(), seen=1)) == [(2, "cancel_requested"), (3, "task_scheduled")]
    assert bench.task(held.ref.execution)["state"] == "dead"
    assert bench.lease() == []


def test_what_was_scheduled_in_the_batch_of_a_cancel_is_never_given_out(bench: Bench) -> None:
    for order in (1, -1):
        held = bench.owned()
        rows = [
            (signal, Signal("default", held.ref.execution, "cancel")),
            (record, Record(held.ref, held.fence, 1, (task(),))),
        ]
        bench.together(*rows[::order])
        assert bench.lease() == []


def test_what_a_cleanup_schedules_after_a_cancel_runs(bench: Bench) -> None:
    held = bench.owned()
    bench.do(signal, Signal("default", held.ref.execution, "cancel"))
    bench.record(held, task(), seen=2)
    assert [one.address for one in bench.lease()] == ["tool"]


def test_large_steps_count_towards_the_size_of_a_batch(bench: Bench) -> None:
    held = bench.owned()
    large = '"' + "x" * 1_000 + '"'
    row = Record(held.ref, held.fence, 1, (step("a", large), step("b", large)))
    assert row.size == 2 * (len('{"value":""}') + 1_000)


def test_what_came_of_a_result_is_recorded_with_it_if_nothing_came_before(bench: Bench) -> None:
    held = bench.owned()
    row = Record(held.ref, held.fence, 1, (step(), task()), previewed=True)
    first, second = bench.twice(record, row)
    assert seqs(first) == seqs(second) == [(2, "step_recorded"), (3, "task_scheduled")]


def test_else_the_result_alone_is_recorded_however_often_it_is_said(bench: Bench) -> None:
    held = bench.owned()
    bench.do(signal, Signal("default", held.ref.execution, "send", text="hello"))
    row = Record(held.ref, held.fence, 1, (step(), task()), previewed=True)
    first, second = bench.twice(record, row)
    assert seqs(first) == seqs(second) == [(2, "message"), (3, "step_recorded")]
    assert "task_scheduled" not in bench.kinds(held.ref.execution)


def test_what_was_recorded_whole_stays_whole_when_it_is_said_again_later(bench: Bench) -> None:
    held = bench.owned()
    row = Record(held.ref, held.fence, 1, (step(), task()), previewed=True)
    bench.do(record, row)
    bench.do(signal, Signal("default", held.ref.execution, "send", text="hello"))
    assert seqs(bench.do(record, row)) == [(2, "step_recorded"), (3, "task_scheduled"), (4, "message")]
