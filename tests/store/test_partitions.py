"""The tables can be spread by shard: every key of an execution begins with it, and the logs run on in partitions."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg

from engine_bench import Bench, step, task
from perdure.core.ids import SHARDS
from perdure.engine.due import Sweep
from perdure.engine.park import Finish, finish
from perdure.engine.retention import SCOPED, forget, set_retention
from perdure.store.postgres import open_postgres
from perdure.store.sqlite_schema import tables
from perdure.testing.clock import FakeClock, SeededRandom
from perdure.upkeep.checking import check_store

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "scaling.md"
BY_ANOTHER_KEY = {
    "start_keys": "a key has to be found before anybody knows the execution that it began",
    "a2a_messages": "as above: a message's id",
}


def test_every_key_of_an_execution_begins_with_its_shard() -> None:
    keys = {table.name: table.key[:2] for table in tables() if table.name in SCOPED}
    spread = {name for name, key in keys.items() if key in (("shard", "execution"), ("shard", "id"))}
    assert keys.keys() - spread == BY_ANOTHER_KEY.keys()


def worked(bench: Bench) -> str:
    """Run an execution with a tool call to its end; return its id."""
    held = bench.waiting(step(), task())
    [given] = bench.lease()
    bench.report(given, value=1)
    [held] = bench.claim()
    seen = bench.execution(held.ref.execution)["next_seq"] - 1
    bench.do(finish, Finish(held.ref, held.fence, seen, 0, "complete", '{"output":{"result":1}}'))
    return held.ref.execution


def test_logs_are_put_into_partitions_as_the_guide_says_and_go_on_there(postgres_database: str) -> None:
    [recipe] = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    store = open_postgres(postgres_database, random=SeededRandom())
    before = worked(Bench(store, FakeClock()))
    store.close()
    with psycopg.connect(postgres_database) as database:
        database.execute(recipe.encode())
    store = open_postgres(postgres_database, random=SeededRandom(2))
    bench = Bench(store, FakeClock(), _births=50)
    made = [before, *(worked(bench) for _ in range(20))]
    assert check_store(postgres_database).problems == []
    with psycopg.connect(postgres_database) as database:
        found = database.execute(
            "SELECT tableoid::regclass::text, MIN(shard), MAX(shard), COUNT(DISTINCT execution) FROM events GROUP BY 1"
        ).fetchall()
    assert len(found) > 3, "they are all in one"
    assert sum(count for *_, count in found) == len(made)
    width = SHARDS // 8
    assert {low // width for _, low, _, _ in found} == {high // width for _, _, high, _ in found}
    bench.do(set_retention, 0)
    assert bench.do(forget, Sweep(50)) == len(made)
    report = check_store(postgres_database)
    assert (report.problems, report.rows["events"]) == ([], 0)
    store.close()
