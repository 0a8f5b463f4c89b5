"""What is given next is found by an index on both databases, however much waits: no search reads a backlog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine_bench import AGENT, COMPANY, Bench, task
from perdure.core.queues import QueueLimits
from perdure.core.work import SERVER_QUEUE
from perdure.engine.claim import Claim, claim
from perdure.engine.queues import ChangeQueue, change_queue
from perdure.store.postgres import open_postgres
from perdure.store.sql_store import Query, load_queries, parse
from perdure.store.sqlite import open_sqlite
from perdure.testing.clock import FakeClock, SeededRandom

MANY = 5_000
_COPIED = (
    "company, agent, tool, queue, state, delivery, fence, attempt, max_attempts, pause_ms, timeout_ms, scheduled_seq, "
    "run_at_ms, ahead_ms, claims, lease_ms, updated_ms"
)
_NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)"
_SAME = "company, agent, definition, state, ownership, fence, next_seq, log_format, active_ms, created_ms, updated_ms"
BEGIN = f"""
INSERT INTO executions (shard, id, limit_key, {_SAME}) {_NUMBERS}
SELECT n.i % 1024, 'exe_many_' || CAST(n.i AS TEXT), CASE WHEN n.i % 2 = 0 THEN 'a' ELSE '' END, {_SAME}
FROM executions e CROSS JOIN n WHERE e.id = :execution
"""
LOG = """
INSERT INTO events (shard, execution, seq, kind, address, digest, data, at_ms)
SELECT e.shard, e.id, v.seq, v.kind, v.address, v.digest, v.data, v.at_ms FROM executions e CROSS JOIN events v
WHERE e.id LIKE 'exe_many_%' AND v.execution = :execution
"""
FILL = f"""
INSERT INTO tasks (shard, execution, address, limit_key, {_COPIED})
SELECT e.shard, e.id, t.address, e.limit_key, {", ".join(f"t.{name}" for name in _COPIED.split(", "))}
FROM executions e CROSS JOIN tasks t WHERE e.id LIKE 'exe_many_%' AND t.execution = :execution
"""
READY = """
INSERT INTO ready (shard, execution, company, lane, since_ms, abandoned)
SELECT e.shard, e.id, e.company, '', 1, 0 FROM executions e WHERE e.id LIKE 'exe_many_%'
"""
PLANNED = (
    "ready_tasks",
    "next_keys",
    "most_urgent",
    "server_lanes",
    "ready_executions",
    "ready_in_lane",
    "ready_companies",
)
NAMED = ("latest_of", "executions_named", "first_events")
"""Queries over executions that are given by their ids."""
LANE = {"company": COMPANY, "queue": "default", "agent": AGENT, "tool": "post"}
ASKED: Mapping[str, Any] = {
    **LANE,
    "limit_key": "",
    "now_ms": 2**50,
    "limit": 8,
    "after": "",
    "full": '{"a":0}',
    "lanes": '{"default":{"clerk":{"post":0}}}',
    "oldest": 1,
    "newest": 2,
    "own": COMPANY,
    "lane": "",
    "build": "b1",
    "holder": "wrk_1",
    "left_before_ms": 2**50,
}


def queries_of(dialect: str) -> dict[str, Query]:
    known = load_queries(dialect)
    made = [parse(name, text) for name, text in (("begin", BEGIN), ("log", LOG), ("fill", FILL), ("ready", READY))]
    made.append(parse("learn", "ANALYZE"))
    explain = "EXPLAIN QUERY PLAN " if dialect == "sqlite" else "EXPLAIN "
    made += [parse(f"plan {name}", explain + known[name].sql) for name in (*PLANNED, *NAMED)]
    return {**known, **{query.name: query for query in made}}


@pytest.fixture(params=["sqlite", "postgres"])
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A bench over each database in turn, in which many executions have a task ready, each second one of a key."""
    queries = queries_of(request.param)
    if request.param == "sqlite":
        store: Any = open_sqlite(tmp_path / "p.db", clock=FakeClock(), random=SeededRandom(), queries=queries)
    else:
        where = request.getfixturevalue("postgres_database")
        store = open_postgres(where, random=SeededRandom(), queries=queries)
    bench = Bench(store, FakeClock())
    execution = bench.waiting(task("first")).ref.execution
    run(bench, "begin", count=MANY, execution=execution)
    learn(bench)
    for query in ("log", "fill"):
        run(bench, query, execution=execution)
    learn(bench)
    yield bench
    store.close()


def run(bench: Bench, query: str, **params: Any) -> None:
    with bench.store.write() as connection:
        connection.run(query, **params)


def learn(bench: Bench) -> None:
    """Have PostgreSQL know what is in the tables, as it does a minute later by itself."""
    if bench.store.dialect == "postgres":
        run(bench, "learn")


def plan(bench: Bench, name: str) -> list[str]:
    """Return the lines of a query's plan that read tasks or the ready list, or sort."""
    params = {one: ASKED[one] for one in queries_of(bench.store.dialect)[name].params}
    with bench.store.write() as connection:
        lines = [" ".join(map(str, row.values())) for row in connection.rows(f"plan {name}", **params)]
    return [line for line in lines if any(word in line for word in ("tasks", "ready", "Sort", "TEMP B-TREE"))]


def sorts_or_reads_all(line: str) -> bool:
    return any(
        word in line for word in ("Seq Scan on tasks", "Seq Scan on ready", "SCAN t", "SCAN r", "Sort", "FOR ORDER BY")
    )


def test_a_lease_asks_an_index_and_goes_past_a_key_that_has_its_fill(full: Bench) -> None:
    for name in ("ready_tasks", "next_keys", "most_urgent"):
        lines = plan(full, name)
        assert any("tasks_ready" in line for line in lines)
        assert not list(filter(sorts_or_reads_all, lines)), name
    full.do(change_queue, ChangeQueue(COMPANY, "default", "limit", QueueLimits(per_key=1)))
    for _ in range(2):
        assert len(full.lease(slots=3)) == 3
    [held] = full.read(lambda reads: reads.rows("keys_held", company=COMPANY, queue="default"))
    assert (held["limit_key"], held["held"]) == ("a", 1)


def test_who_comes_behind_many_of_another_company_is_next(full: Bench) -> None:
    run(full, "ready")
    learn(full)
    other = full.started(company="small")
    [one] = full.do(claim, Claim("srv_1", 1, 1_000, {}, COMPANY))
    assert one.ref.execution == other
    for name in ("ready_executions", "ready_in_lane", "ready_companies"):
        assert not list(filter(sorts_or_reads_all, plan(full, name))), name


def test_what_servers_call_themselves_is_found_past_a_backlog(full: Bench) -> None:
    found = full.read(lambda reads: reads.rows("server_lanes", own=COMPANY, queue="default", limit=10))
    assert [(row["agent"], row["tool"]) for row in found] == [(AGENT, "post")]
    assert not full.read(lambda reads: reads.rows("server_lanes", own=COMPANY, queue=SERVER_QUEUE, limit=10))


@pytest.mark.parametrize("name", NAMED)
def test_executions_that_are_named_are_found_by_their_ids(full: Bench, name: str) -> None:
    """Not among all those of their company: on SQLite, a store with 100,000 of them ran a fifth as fast."""
    with full.store.write() as connection:
        rows = connection.rows(f"plan {name}", company=COMPANY, wanted='{"exe_1":7}', most=100)
    plan = "\n".join(" ".join(map(str, row.values())) for row in rows)
    assert "executions_by_" not in plan
    assert "SCAN e" not in plan
