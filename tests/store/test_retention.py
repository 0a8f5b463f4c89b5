"""Executions that ended long ago are deleted with all that was theirs, once, and never one that is needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engine_bench import AGENT, COMPANY, SPEC, Bench, ref, request, step, task
from perdure import failpoints
from perdure.core import codec
from perdure.core.items import StartChild
from perdure.core.views import EffectFilter, ForkEdits, Started
from perdure.core.work import Answer
from perdure.engine.claim import Claimed
from perdure.engine.due import Sweep
from perdure.engine.fork import Fork, fork
from perdure.engine.ledger import effects_view
from perdure.engine.park import Finish, Released, finish
from perdure.engine.query import execution_view
from perdure.engine.retention import DEFAULT_MS, KEPT, MOST_EVENTS, OFF_MS, SCOPED, forget, set_retention
from perdure.engine.rule import Rule, rule
from perdure.engine.signal import signal
from perdure.engine.start import start
from perdure.errors import NotFound
from perdure.store.postgres import open_postgres
from perdure.store.protocol import EVERY_COMPANY
from perdure.store.sql_store import load_queries
from perdure.store.sqlite import open_sqlite
from perdure.store.sqlite_schema import Table, tables
from perdure.testing.clock import FakeClock, SeededRandom
from perdure.upkeep.checking import check_store
from perdure.upkeep.tables import batches, table_queries

AT_ONCE = 0
"""A retention under which what has ended is past its time."""


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Bench, str]]:
    """A bench over each database in turn, whose tables can be read row by row, and where it is."""
    clock, queries = FakeClock(), {**load_queries(request.param), **table_queries()}
    if request.param == "sqlite":
        where = str(tmp_path / "p.db")
        store: Any = open_sqlite(where, clock=clock, random=SeededRandom(), queries=queries)
    else:
        where = request.getfixturevalue("store_database")
        store = open_postgres(where, random=SeededRandom(), queries=queries)
    try:
        bench = Bench(store, clock)
        bench.do(set_retention, AT_ONCE)
        yield bench, where
    finally:
        store.close()


def end(bench: Bench, held: Claimed, event: str = "complete", data: str = '{"output":{"result":"done"}}') -> str:
    """End an execution; return its id."""
    seen = bench.execution(held.ref.execution)["next_seq"] - 1
    answer = bench.do(finish, Finish(held.ref, held.fence, seen, 0, event, data))  # type: ignore[arg-type]
    assert answer == Released()
    return held.ref.execution


def ended(bench: Bench, **options: Any) -> str:
    held = bench.owned(**options)
    bench.record(held, step())
    return end(bench, held)


def sweep(bench: Bench, limit: int = 50) -> int:
    return bench.do(forget, Sweep(limit))


def there(bench: Bench, execution: str) -> bool:
    try:
        bench.read(lambda reads: execution_view(reads, COMPANY, execution))
    except NotFound:
        return False
    return True


def of_executions() -> list[Table]:
    """Return the tables whose rows belong to one execution each, and go with it."""
    found = [table for table in tables() if "execution" in table.columns or table.name == "executions"]
    return [table for table in found if table.name not in KEPT]


def a_row(table: Table, execution: str) -> dict[str, Any]:
    """Return some row of an execution: of any table, one that is added later too."""
    kinds = zip(table.columns, table.types, strict=True)
    row: dict[str, Any] = {column: "" if kind == "TEXT" else 0 for column, kind in kinds}
    over = {"tasks": "done", "waitpoints": "resolved"}.get(table.name, "")
    own = {"seq": 99, "state": over, "message": "m1"}  # a key has some text in it
    return {**row, **own, "shard": ref(execution).shard, "execution": execution}


def mentions(bench: Bench, execution: str) -> set[str]:
    """Return the tables that know of an execution."""
    with bench.store.read() as reads:
        reads.speak_for(EVERY_COMPANY)
        return {
            table.name
            for table in tables()
            for _, _, rows in batches(reads, table)
            if any(execution in str(dict(row)) for row in rows)
        }


def test_no_table_with_rows_of_executions_is_forgotten() -> None:
    """A migration that adds one has to say how its rows go: a query `forget_…` and a line in `SCOPED`."""
    assert {table.name for table in of_executions()} == set(SCOPED)


def test_what_ended_is_deleted_with_every_row_of_it(kept: tuple[Bench, str]) -> None:
    bench, where = kept
    gone, stays = ended(bench, key="k"), bench.started()
    with bench.store.write() as connection:
        connection.speak_for(EVERY_COMPANY)
        for table in of_executions():
            if table.name not in ("executions", "start_keys"):
                connection.run(f"insert {table.name}", **a_row(table, gone))
    assert mentions(bench, gone) == set(SCOPED)
    assert sweep(bench) == 1
    assert mentions(bench, gone) == set()
    assert not there(bench, gone)
    assert there(bench, stays)
    assert check_store(where).problems == []


def test_what_was_done_is_told_no_more(kept: tuple[Bench, str]) -> None:
    bench, where = kept
    held = bench.waiting(task())
    [given] = bench.lease()
    bench.report(given, value=1)
    [held] = bench.claim()
    wanted = EffectFilter(None, None)
    assert len(bench.read(lambda reads: effects_view(reads, COMPANY, wanted))) == 1
    end(bench, held)
    assert sweep(bench) == 1
    assert bench.read(lambda reads: effects_view(reads, COMPANY, wanted)) == []
    assert bench.report(given, value=1) is Answer.LEASE_LOST  # its worker, still or again
    assert isinstance(bench.do(rule, Rule(COMPANY, given.execution, "tool", "happened", "ann", "late")), NotFound)
    assert check_store(where).problems == []


def test_one_with_an_uncertain_effect_stays_until_somebody_ruled(kept: tuple[Bench, str]) -> None:
    bench, _ = kept
    held = bench.begun()
    bench.report(held, "failed", failure=None)
    execution = held.execution
    assert bench.task(execution)["state"] == "uncertain"
    bench.signal(execution, "cancel")
    [owner] = bench.claim()
    end(bench, owner, "end", "{}")
    assert sweep(bench) == 0
    assert bench.do(rule, Rule(COMPANY, execution, "tool", "happened", "ann", "seen")) is None
    assert sweep(bench) == 1
    assert not there(bench, execution)


def test_a_child_stays_while_its_parent_goes_on_and_a_parent_while_its_child_does(kept: tuple[Bench, str]) -> None:
    bench, _ = kept

    def child(id: str) -> StartChild:
        return StartChild(id, "d", id, dict(SPEC), AGENT, codec.digest(dict(SPEC)), '{"n":1}')

    parent = bench.owned()
    bench.record(parent, child("exe_first"), child("exe_second"))
    first, second = sorted(bench.claim(), key=lambda one: one.ref.execution)
    end(bench, first)
    assert sweep(bench) == 0
    end(bench, parent)
    assert sweep(bench) == 1
    assert not there(bench, "exe_first")
    assert there(bench, parent.ref.execution)
    end(bench, second)
    assert sweep(bench) == 2


def test_an_origin_stays_while_its_fork_goes_on(kept: tuple[Bench, str]) -> None:
    bench, where = kept
    origin = ended(bench)
    made, count = bench.together(
        (fork, Fork("exe_fork", COMPANY, origin, 2, ForkEdits(), "ann")), (forget, Sweep(50))
    )  # in one transaction
    assert (made.id, count) == ("exe_fork", 0)
    assert sweep(bench) == 0
    [held] = bench.claim()
    end(bench, held)
    assert sweep(bench) == 2
    assert check_store(where).problems == []


def test_what_comes_in_the_same_transaction_after_it_finds_nothing(kept: tuple[Bench, str]) -> None:
    bench, where = kept
    said = (signal, request(ended(bench), "send", text="hello?"))
    count, answer = bench.together((forget, Sweep(50)), said)
    assert count == 1
    assert isinstance(answer, NotFound)
    forked = (fork, Fork("exe_fork", COMPANY, ended(bench), 2, ForkEdits(), "ann"))
    count, made = bench.together((forget, Sweep(50)), forked)
    assert count == 1
    assert isinstance(made, NotFound)
    assert check_store(where).problems == []


def test_a_start_key_is_remembered_as_long_as_what_it_began(kept: tuple[Bench, str]) -> None:
    bench, _ = kept
    first = ended(bench, key="order-7")
    assert bench.do(start, bench.new(key="order-7")) == Started(first, created=False)
    assert sweep(bench) == 1
    again = bench.new(key="order-7")
    assert bench.do(start, again) == Started(again.id, created=True)


@pytest.mark.parametrize(("moment", "left"), [("before_commit", True), ("after_commit", False)])
def test_a_pass_that_breaks_off_deletes_all_of_an_execution_or_nothing(
    kept: tuple[Bench, str], moment: str, left: bool
) -> None:
    bench, where = kept
    execution = ended(bench)
    failpoints.arm(f"forget.{moment}=raise@1;set_retention.{moment}=raise@1")
    try:
        with pytest.raises(failpoints.InjectedFault):
            bench.do(set_retention, OFF_MS)
        bench.do(set_retention, AT_ONCE)
        with pytest.raises(failpoints.InjectedFault):
            sweep(bench)
    finally:
        failpoints.arm("")
    assert there(bench, execution) is left
    assert check_store(where).problems == []
    assert sweep(bench) == int(left)


def test_a_pass_is_bounded(kept: tuple[Bench, str]) -> None:
    bench, _ = kept
    made = [ended(bench) for _ in range(5)]
    assert sweep(bench, 2) == 2
    assert sum(there(bench, one) for one in made) == 3
    assert [sweep(bench, 2), sweep(bench, 2)] == [2, 1]


def test_a_long_log_goes_alone(kept: tuple[Bench, str]) -> None:
    bench, _ = kept
    held = bench.owned()
    for part in range(0, MOST_EVENTS, 500):
        bench.record(held, *(step(f"s{part + n}") for n in range(500)))
    long, short = end(bench, held), ended(bench)
    assert sweep(bench) == 50  # there is more
    assert (there(bench, long), there(bench, short)) == (False, True)
    assert sweep(bench) == 1


def test_the_store_is_told_how_long_and_keeps_all_where_that_is_off(kept: tuple[Bench, str]) -> None:
    bench, _ = kept
    execution = ended(bench)
    for retention in (OFF_MS, DEFAULT_MS):
        bench.do(set_retention, retention)
        assert sweep(bench) == 0
    bench.do(set_retention, AT_ONCE)
    assert sweep(bench) == 1
    assert not there(bench, execution)


def test_thirty_days_hold_where_nobody_said_anything(tmp_path: Path) -> None:
    clock = FakeClock()
    with ExitStack() as opened:
        store = open_sqlite(tmp_path / "p.db", clock=clock, random=SeededRandom())
        opened.callback(store.close)
        bench = Bench(store, clock)
        first = ended(bench)
        clock.advance(60)
        second = ended(bench)
        clock.advance(DEFAULT_MS / 1000 - 60.001)
        assert sweep(bench) == 0
        clock.advance(0.001)
        assert sweep(bench) == 1
        assert (there(bench, first), there(bench, second)) == (False, True)


def test_two_servers_delete_each_execution_once(postgres_database: str) -> None:
    with ExitStack() as opened:
        stores = [open_postgres(postgres_database, random=SeededRandom(n)) for n in (1, 2)]
        for store in stores:
            opened.callback(store.close)
        benches = [Bench(store, FakeClock()) for store in stores]
        benches[0].do(set_retention, AT_ONCE)
        made = [ended(benches[0]) for _ in range(60)]
        together, counts = threading.Barrier(2), [0, 0]

        def run(place: int) -> None:
            together.wait(60)
            for _ in range(20):
                counts[place] += sweep(benches[place], 10)

        threads = [threading.Thread(target=run, args=(place,)) for place in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sum(counts) == len(made)
        assert not any(there(benches[0], one) for one in made)
    assert check_store(postgres_database).problems == []
