"""A start is durable when it is answered, and one key begins one execution."""

from __future__ import annotations

from dataclasses import replace

from engine_bench import COMPANY, Bench, task
from perdure.core.codec import decode
from perdure.core.views import Started
from perdure.engine.start import start
from perdure.errors import Conflict


def test_a_start_is_ready_with_its_input_as_first_event(bench: Bench) -> None:
    execution = bench.started(input='{"order":12345678901234567890123}')
    [first] = bench.log(execution)
    assert (first.seq, first.kind, first.data["input"]) == (1, "started", {"order": 12345678901234567890123})
    assert bench.state(execution) == ("ready", "ready")
    assert bench.ready() == [execution]
    assert [note.topic for note in bench.notes] == ["events", "ready"]


def test_a_start_whose_answer_was_lost_changes_nothing_when_repeated(bench: Bench) -> None:
    row = bench.new()
    assert bench.twice(start, row) == (Started(row.id, created=True), Started(row.id, created=True))
    assert bench.kinds(row.id) == ["started"]


def test_a_keyed_start_whose_answer_was_lost_is_still_the_one_that_created(bench: Bench) -> None:
    row = bench.new(key="ticket-7")
    assert bench.twice(start, row) == (Started(row.id, created=True), Started(row.id, created=True))
    assert bench.kinds(row.id) == ["started"]


def test_a_repeated_start_does_not_wake_what_waits_by_then(bench: Bench) -> None:
    row = bench.new()
    bench.do(start, row)
    held = bench.claim()[0]
    bench.record(held, task())
    bench.park(held)
    bench.do(start, row)
    assert bench.state(row.id) == ("waiting", "parked")
    assert bench.ready() == []


def test_the_same_key_gives_the_first_execution_back(bench: Bench) -> None:
    first = bench.started(key="ticket-7")
    again = bench.new(key="ticket-7")
    assert bench.do(start, again) == Started(first, created=False)
    assert bench.ready() == [first]


def test_fifty_starts_at_once_with_one_key_begin_one_execution(bench: Bench) -> None:
    rows = [bench.new(key="ticket-7") for _ in range(50)]
    answers = [bench.writer.submit(start, row, _Collect()) for row in rows]
    bench.writer.drain()
    results = [answer.result for answer in answers]
    assert {result.id for result in results} == {rows[0].id}
    assert [result.created for result in results].count(True) == 1
    assert bench.ready() == [rows[0].id]


class _Collect:
    def settle(self, entries: object) -> None:
        return


def test_the_same_key_with_other_input_is_refused_naming_the_first(bench: Bench) -> None:
    first = bench.started(key="ticket-7", input='"a"')
    refusal = bench.do(start, bench.new(key="ticket-7", input='"b"'))
    assert isinstance(refusal, Conflict)
    assert (refusal.code, refusal.details["execution"]) == ("start_key_conflict", first)
    assert first in refusal.message
    assert bench.ready() == [first]


def test_input_written_in_another_order_is_the_same_input(bench: Bench) -> None:
    first = bench.started(key="ticket-7", input='{"a":1,"b":2}')
    assert bench.do(start, bench.new(key="ticket-7", input='{"b":2,"a":1}')) == Started(first, created=False)


def test_a_key_belongs_to_one_agent_of_one_company(bench: Bench) -> None:
    rows = [bench.new(key="k"), bench.new(key="k", company="other"), replace(bench.new(key="k"), agent="second")]
    assert [bench.do(start, row) for row in rows] == [Started(row.id, created=True) for row in rows]


def test_equal_definitions_are_stored_once_per_company(bench: Bench) -> None:
    rows = [bench.new(), bench.new(), bench.new(company="other")]
    bench.together(*((start, row) for row in rows))
    for row in rows:
        found = bench.row("definition", company=row.company, digest=row.definition)
        assert found is not None
        assert decode(found["spec"])["name"] == row.agent
    assert bench.row("definition", company="third", digest=rows[0].definition) is None
    assert rows[0].company == COMPANY


def test_starts_of_one_batch_are_answered_one_by_one(bench: Bench) -> None:
    first = bench.started(key="old")
    fresh, known, clash = bench.new(), bench.new(key="old"), bench.new(key="old2")
    assert bench.together((start, fresh), (start, known), (start, clash)) == [
        Started(fresh.id, created=True),
        Started(first, created=False),
        Started(clash.id, created=True),
    ]
