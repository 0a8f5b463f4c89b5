"""Waits on both databases: tokens, signals, children and timers, each once, with the same text of SQL."""

from __future__ import annotations

import threading

import pytest

from calendar_starts import schedule
from engine_bench import AGENT, COMPANY, SPEC, Bench
from perdure.core import codec
from perdure.core.credentials import hash_of
from perdure.core.items import AwaitSignal, OpenToken, SetTimer, StartChild
from perdure.core.tokens import Issuer, company_key
from perdure.core.views import Started
from perdure.engine.due import Sweep
from perdure.engine.orphans import cancel_children
from perdure.engine.park import Finish, finish
from perdure.engine.schedule import ChangeSchedule, change_schedule, fire_schedules, make_schedule, schedules_view
from perdure.engine.signal import Signal, signal
from perdure.engine.sweep import fire_timers
from perdure.engine.token import EndToken, TokenEnded, end_token, expire_tokens
from perdure.errors import Conflict, NotFound
from perdure.store.tx import Tx


def token(bench: Bench, timeout_ms: int | None = None) -> tuple[OpenToken, str]:
    secret = Issuer(company_key(bench.store.token_key, COMPANY)).secret("tok_1")
    return OpenToken("token yes", "d", "tok_1", "yes", hash_of(secret), "", timeout_ms), secret


def test_a_token_ends_once(bench: Bench) -> None:
    item, secret = token(bench)
    held = bench.waiting(item)
    row = EndToken("complete", hash=hash_of(secret), value='{"a":1}')
    assert bench.twice(end_token, row) == (TokenEnded(held.ref, first=True), TokenEnded(held.ref, first=False))
    assert isinstance(bench.do(end_token, EndToken("fail", hash=hash_of(secret), error="no")), Conflict)
    assert isinstance(bench.do(end_token, EndToken("complete", hash=hash_of("x"))), NotFound)
    assert bench.last(held.ref.execution).data["value"] == {"a": 1}
    assert bench.ready() == [held.ref.execution]


def test_a_token_expires_once(bench: Bench) -> None:
    item, _ = token(bench, timeout_ms=0)
    held = bench.waiting(item)
    assert bench.twice(expire_tokens, Sweep(10)) == (1, 0)
    assert bench.last(held.ref.execution).data["decision"] == "expire"


def test_a_signal_counts_once(bench: Bench) -> None:
    held = bench.waiting(AwaitSignal("signal go", "d", "go"))
    row = Signal(COMPANY, held.ref.execution, "signal", dedupe="k", name="go", value="1")
    first, again = bench.twice(signal, row)
    assert first == again
    assert bench.kinds(held.ref.execution).count("signal") == 1


def test_a_childs_end_is_its_parents_news_and_a_parents_cancel_its_childrens(bench: Bench) -> None:
    digest = codec.digest(dict(SPEC))
    children = [StartChild(f"child {n}", "d", f"exe_c{n}", dict(SPEC), AGENT, digest, '"hi"') for n in (1, 2)]
    parent = bench.waiting(*children)
    held = next(one for one in bench.claim() if one.ref.execution == "exe_c1")
    bench.do(finish, Finish(held.ref, held.fence, 1, 0, "complete", '{"output":{"result":"x"}}'))
    assert bench.last(parent.ref.execution).data["output"] == {"result": "x"}
    bench.signal(parent.ref.execution, "cancel")
    assert bench.do(cancel_children, Sweep(10)) == 1
    assert bench.do(cancel_children, Sweep(10)) == 0
    assert (bench.state("exe_c1")[0], bench.state("exe_c2")[0]) == ("completed", "cancelling")
    rows = bench.read(lambda reads: reads.rows("descendants_of", root=parent.ref.execution, limit=10))
    assert [row["execution"] for row in rows] == ["exe_c1", "exe_c2"]


def test_a_full_pass_of_timers_leaves_the_rest_for_the_next(bench: Bench) -> None:
    held = bench.waiting(*(SetTimer(f"t{n}", "d", 0) for n in range(5)))
    assert [bench.do(fire_timers, Sweep(3)) for _ in range(3)] == [3, 2, 0]
    assert bench.kinds(held.ref.execution).count("timer_fired") == 5


def test_a_tick_begins_one_execution(bench: Bench) -> None:
    bench.do(make_schedule, schedule(cron="* * * * *"))
    row = bench.row("schedule", company=COMPANY, name="nightly")
    assert row is not None
    with bench.store.write() as connection:
        last = {"paused": 0, "next_ms": row["next_ms"] - 60_000}
        connection.run("pause_schedule", company=COMPANY, name="nightly", **last)
    assert bench.twice(fire_schedules, Sweep(10)) == (1, 0)
    by_hand = bench.twice(change_schedule, ChangeSchedule(COMPANY, "nightly", "trigger", "a"))
    assert [one.created for one in by_hand if isinstance(one, Started)] == [True, False]
    assert len(bench.ready()) == 2
    assert bench.read(lambda reads: schedules_view(reads, COMPANY))[0].last_execution in bench.ready()


def test_a_tick_at_one_server_sees_what_another_one_is_about_to_begin(servers: tuple[Bench, Bench]) -> None:
    first, second = servers
    first.do(make_schedule, schedule(cron="* * * * *", overlap="skip"))
    row = first.row("schedule", company=COMPANY, name="nightly")
    assert row is not None
    with first.store.write() as connection:
        due = {"paused": 0, "next_ms": row["next_ms"] - 60_000}
        connection.run("pause_schedule", company=COMPANY, name="nightly", **due)
    with first.store.write() as connection:
        tx = Tx(connection)
        by_hand = change_schedule.apply(tx, [ChangeSchedule(COMPANY, "nightly", "trigger", "a")])
        next(by_hand)
        with pytest.raises(StopIteration):
            next(by_hand)
        firing = threading.Thread(target=lambda: second.do(fire_schedules, Sweep(10)))
        firing.start()
        tx.flush()
    firing.join()
    [begun] = first.ready()
    [seen] = second.read(lambda reads: schedules_view(reads, COMPANY))
    assert (seen.last_execution, seen.skipped) == (begun, 1)
