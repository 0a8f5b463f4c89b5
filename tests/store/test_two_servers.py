"""Two servers on one PostgreSQL: what both do at once to a wait is done once, and neither locks the other out."""

from __future__ import annotations

from dataclasses import replace

from at_once import at_once
from calendar_starts import schedule
from engine_bench import AGENT, COMPANY, SPEC, Bench, request
from perdure.core import codec
from perdure.core.credentials import hash_of
from perdure.core.items import OpenToken, SetTimer, StartChild
from perdure.engine.delay import begin_delayed
from perdure.engine.due import Sweep
from perdure.engine.orphans import cancel_children
from perdure.engine.park import Finish, finish
from perdure.engine.schedule import fire_schedules, make_schedule
from perdure.engine.signal import signal
from perdure.engine.start import start
from perdure.engine.sweep import fire_timers
from perdure.engine.token import EndToken, TokenEnded, end_token, expire_tokens

ROUNDS = 15


def parked(bench: Bench, *items: object) -> str:
    """Start an execution that waits for these; return its id."""
    execution = bench.started()
    held = next(one for one in bench.claim() if one.ref.execution == execution)
    answer = bench.record(held, *items, seen=1)  # type: ignore[arg-type]
    bench.park(held, seen=1 + len(answer.events))
    return execution


def test_one_of_two_answers_wins(servers: tuple[Bench, Bench]) -> None:
    first, second = servers
    for n in range(ROUNDS):
        hash = hash_of(str(n))
        execution = parked(first, OpenToken("token", "d", f"tok_{n}", "yes", hash))
        answers = at_once(
            lambda hash=hash: first.do(end_token, EndToken("complete", hash=hash, value="1")),
            lambda hash=hash: second.do(end_token, EndToken("fail", hash=hash, error="no")),
        )
        assert [isinstance(one, TokenEnded) for one in answers].count(True) == 1
        assert first.kinds(execution).count("waitpoint_resolved") == 1


def test_timers_and_expiries_end_waits_once(servers: tuple[Bench, Bench]) -> None:
    first, second = servers
    token = OpenToken("token", "d", "tok_1", "yes", hash_of("x"), timeout_ms=0)
    execution = parked(first, *(SetTimer(f"t{n}", "d", 0) for n in range(ROUNDS)), token)
    at_once(*(lambda one=one: one.do(fire_timers, Sweep(100)) for one in servers))
    at_once(*(lambda one=one: one.do(expire_tokens, Sweep(100)) for one in servers))
    kinds = second.kinds(execution)
    assert kinds.count("timer_fired") == ROUNDS
    assert kinds.count("waitpoint_resolved") == 1


def test_a_tick_begins_one_execution(servers: tuple[Bench, Bench]) -> None:
    first, second = servers
    first.do(make_schedule, schedule(cron="* * * * *"))
    row = first.row("schedule", company=COMPANY, name="nightly")
    assert row is not None
    for n in range(1, ROUNDS + 1):
        with first.store.write() as connection:
            moved = {"paused": 0, "next_ms": row["next_ms"] - n * 60_000}
            connection.run("pause_schedule", company=COMPANY, name="nightly", **moved)
        at_once(*(lambda one=one: one.do(fire_schedules, Sweep(10)) for one in servers))
        assert len(second.ready()) == 1, "the latest tick, whatever was missed before it"


def test_a_child_that_ends_while_its_parent_is_cancelled_locks_nobody_out(servers: tuple[Bench, Bench]) -> None:
    first, second = servers
    for n in range(ROUNDS):
        child = StartChild("child", "d", f"exe_c{n}", dict(SPEC), AGENT, codec.digest(dict(SPEC)), '"hi"')
        parent = parked(first, child)
        [held] = first.claim()
        at_once(
            lambda held=held: first.do(finish, Finish(held.ref, held.fence, 1, 0, "complete", '{"output":{}}')),
            lambda parent=parent: second.do(signal, request(parent, "cancel")),
        )
        at_once(*(lambda one=one: one.do(cancel_children, Sweep(10)) for one in servers))
        assert first.kinds(parent).count("child_ended") == 1
        for one in first.claim():  # the parent, to be cancelled
            seen = len(first.log(parent)) if one.ref.execution == parent else 1
            first.do(finish, Finish(one.ref, one.fence, seen, 0, "end", "{}"))


def test_a_delayed_start_is_made_once(servers: tuple[Bench, Bench]) -> None:
    first, second = servers
    for _ in range(ROUNDS):
        row = replace(first.new(), delay_ms=20)
        first.do(start, row)
        begun: list[int] = []
        while not sum(begun):  # by the database's own clock
            begun += at_once(*(lambda one=one: one.do(begin_delayed, Sweep(10)) for one in servers))
        assert second.ready() == [row.id]
        assert [one.ref.execution for one in second.claim()] == [row.id]
