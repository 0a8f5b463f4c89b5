"""Executions that are to begin later, on both databases: never early, once, and cancelled before it comes to that."""

from __future__ import annotations

from typing import Any

from engine_bench import COMPANY, Bench
from perdure.core.views import Started
from perdure.engine.delay import START, begin_delayed
from perdure.engine.diagnose import diagnose
from perdure.engine.due import Sweep
from perdure.engine.look import deadlines
from perdure.engine.query import execution_view
from perdure.engine.set_back import SetBack, set_back
from perdure.engine.start import Start, start
from perdure.engine.sweep import tell_time
from perdure.store.protocol import Ref


def later(bench: Bench, **options: Any) -> str:
    """Have an execution begin later; in an hour by default."""
    plain = bench.new(key=options.pop("key", None))
    given = {"delay_ms": 3_599_000, **options}
    row = Start(plain.id, COMPANY, plain.agent, plain.definition, plain.spec, plain.input, plain.start_key, **given)
    begun = bench.do(start, row)
    assert isinstance(begun, Started)
    return begun.id


def begin(bench: Bench) -> int:
    """Begin what is due."""
    return bench.do(begin_delayed, Sweep(100))


def until_begun(bench: Bench, count: int) -> None:
    """Let time pass until as many have begun."""
    while count > 0:  # by the database's own clock
        count -= begin(bench)
        bench.clock.advance(0.01)


def start_ms(bench: Bench, execution: str) -> int:
    return bench.log(execution)[0].data["start_ms"]


def test_it_is_nobodys_until_its_time_has_come(bench: Bench) -> None:
    execution = later(bench, delay_ms=300)
    assert bench.state(execution) == ("waiting", "parked")
    assert begin(bench) == 0
    assert bench.claim() == []
    until_begun(bench, 1)
    assert bench.state(execution) == ("ready", "ready")
    [claimed] = bench.claim()
    assert claimed.ref.execution == execution
    assert bench.do(tell_time, None) >= start_ms(bench, execution)
    assert begin(bench) == 0, "once"


def test_a_time_is_kept_as_a_delay_is_and_one_that_is_over_begins_at_once(bench: Bench) -> None:
    now = bench.do(tell_time, None)
    at = later(bench, delay_ms=0, at_ms=now + 60_000)
    assert (bench.state(at), start_ms(bench, at)) == (("waiting", "parked"), now + 60_000)
    past = later(bench, delay_ms=0, at_ms=now - 60_000)
    assert bench.state(past) == ("ready", "ready")
    assert "start_ms" not in bench.log(past)[0].data


def test_what_is_sent_to_it_is_kept_and_does_not_begin_it(bench: Bench) -> None:
    execution = later(bench)
    bench.signal(execution, "send", text="news")
    bench.signal(execution, "stop")
    assert bench.state(execution) == ("waiting", "parked")
    assert bench.kinds(execution) == ["started", "message", "stop_requested"]


def test_a_cancel_ends_it_before_its_time(bench: Bench) -> None:
    execution = later(bench, delay_ms=200)
    bench.signal(execution, "cancel")
    assert bench.state(execution) == ("cancelling", "ready")
    [claimed] = bench.claim()
    assert claimed.ref.execution == execution
    until_begun(bench, 1)
    assert bench.claim() == [], "its time changes nothing any more"


def test_one_that_was_paused_and_resumed_waits_for_its_time(bench: Bench) -> None:
    execution = later(bench, delay_ms=400)
    bench.signal(execution, "pause")
    assert bench.state(execution) == ("paused", "parked")
    bench.signal(execution, "resume")
    assert bench.state(execution) == ("waiting", "parked")
    until_begun(bench, 1)
    assert len(bench.claim()) == 1


def test_one_whose_time_comes_while_it_is_paused_begins_when_it_is_resumed(bench: Bench) -> None:
    execution = later(bench, delay_ms=100)
    bench.signal(execution, "pause")
    until_begun(bench, 1)
    assert bench.claim() == []
    bench.signal(execution, "resume")
    assert [one.ref.execution for one in bench.claim()] == [execution]


def test_one_that_was_brought_back_to_an_older_state_waits_for_its_time_when_it_is_resumed(bench: Bench) -> None:
    """Its fence has risen, and nobody ever had it: a payment run of Monday does not begin when somebody resumes all."""
    execution = later(bench, delay_ms=1_500)
    bench.do(set_back, SetBack(Ref(-1, ""), 100, "ann", "restored"))
    assert bench.state(execution) == ("paused", "parked")
    bench.signal(execution, "resume")
    bench.signal(execution, "send", text="news")
    assert bench.state(execution) == ("waiting", "parked")
    assert begin(bench) == 0
    view = bench.read(lambda reads: execution_view(reads, COMPANY, execution))
    assert [wait.kind for wait in view.waits] == ["start"]
    until_begun(bench, 1)
    assert len(bench.claim()) == 1


def test_its_start_key_begins_one_whatever_the_delay(bench: Bench) -> None:
    first = later(bench, key="k")
    assert later(bench, key="k", delay_ms=0) == first
    assert bench.claim() == []


def test_one_that_is_due_is_given_to_who_waits_in_the_transaction_that_finds_it(bench: Bench) -> None:
    execution = later(bench, delay_ms=50)
    bench.notes.clear()
    until_begun(bench, 1)
    assert ("ready", "") in [(note.topic, note.key) for note in bench.notes]
    assert bench.read(deadlines)["start_ms"] is None
    assert bench.row("start_of", shard=bench.execution(execution)["shard"], execution=execution, kind=START) is None


def test_it_is_shown_as_waiting_for_its_start(bench: Bench) -> None:
    execution = later(bench)
    view = bench.read(lambda reads: execution_view(reads, COMPANY, execution))
    assert view.state == "waiting"
    [wait] = view.waits
    assert (wait.kind, wait.detail.startswith("its start, at ")) == ("start", True)
    now = bench.do(tell_time, None)
    [found] = bench.read(lambda reads: diagnose(reads, COMPANY, execution, [], now))
    assert (found.level, found.what) == ("ok", "it is to begin in 59 min.")
