"""Signals: stored whether or not anybody waits, once for each key, and refused only by an execution that has ended."""

from __future__ import annotations

from typing import Any

from engine_bench import Bench, ask
from perdure.core.items import AwaitSignal
from perdure.engine.park import Finish, finish
from perdure.engine.signal import Signal, signal
from perdure.errors import Conflict


def sent(execution: str, name: str = "go", value: str = "1", dedupe: str | None = "k") -> Signal:
    return Signal("default", execution, "signal", by="eve", dedupe=dedupe, name=name, value=value)


def ended(bench: Bench, *items: Any) -> str:
    held = bench.owned()
    for item in items:
        bench.do(signal, item(held.ref.execution))
    seen = bench.execution(held.ref.execution)["next_seq"] - 1
    bench.do(finish, Finish(held.ref, held.fence, seen, 0, "complete", '{"output":{}}'))
    return held.ref.execution


def test_a_signal_that_nobody_waits_for_is_stored(bench: Bench) -> None:
    execution = bench.started()
    seq = bench.do(signal, sent(execution, value='{"n":1}'))
    last = bench.last(execution)
    assert (last.seq, last.kind) == (seq, "signal")
    assert last.data == {"name": "go", "value": {"n": 1}, "by": "eve", "dedupe": "k"}


def test_a_signal_wakes_who_waits_for_it(bench: Bench) -> None:
    held = bench.waiting(AwaitSignal("signal go", "d", "go"))
    bench.do(signal, sent(held.ref.execution))
    assert bench.state(held.ref.execution) == ("ready", "ready")
    assert bench.log(held.ref.execution)[1].data == {"kind": "signal", "name": "go"}


def test_the_same_signal_again_gives_the_first_number(bench: Bench) -> None:
    execution = bench.started()
    first, again = bench.twice(signal, sent(execution))
    assert first == again
    assert bench.kinds(execution) == ["started", "signal"]


def test_a_key_that_stands_for_something_else_is_refused(bench: Bench) -> None:
    execution = bench.started()
    bench.signal(execution, "send", text="hello", dedupe="m")
    bench.do(signal, sent(execution))
    for other in (sent(execution, name="stop"), sent(execution, value="2"), sent(execution, dedupe="m")):
        refused = bench.do(signal, other)
        assert isinstance(refused, Conflict)
        assert refused.code == "dedupe_conflict"


def test_an_ended_execution_takes_none(bench: Bench) -> None:
    refused = bench.do(signal, sent(ended(bench)))
    assert isinstance(refused, Conflict)
    assert refused.code == "ended"


def test_what_was_accepted_is_still_accepted_after_the_end(bench: Bench) -> None:
    execution = ended(bench, sent)
    assert bench.do(signal, sent(execution)) == 2


def test_cleanup_may_wait_for_a_signal(bench: Bench) -> None:
    execution = bench.started()
    bench.signal(execution, "cancel")
    assert bench.do(signal, sent(execution)) == 3


def test_the_first_cancel_is_remembered_by_its_number(bench: Bench) -> None:
    held = bench.waiting(ask())
    execution = held.ref.execution
    bench.signal(execution, "cancel")
    first = bench.last(execution).seq
    bench.signal(execution, "cancel")
    assert bench.execution(execution)["cancel_seq"] == first
