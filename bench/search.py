"""List executions by state, agent, time and tag among a million that have ended, on SQLite or, with `--store`,
PostgreSQL.

Rows are put in as the engine would leave them, without their logs. Prints the slowest and the middle of many pages.
Exit code 1 if a page took longer than the bar.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from perdure.core import states
from perdure.core.ids import id_of, shard_of
from perdure.core.views import ExecutionFilter
from perdure.engine.query_list import execution_page
from perdure.engine.tags import told
from perdure.store.protocol import Store
from perdure.store.sqlite import open_sqlite
from perdure.system import SystemClock, SystemRandom

BAR_MS = 100.0
AGENTS = 20
DAY_MS = 86_400_000
FIRST_MS = 1_700_000_000_000
BATCH = 50_000
PAGES = 40


def tags_of(n: int) -> list[str]:
    """Return the tags of an execution: `half` of them all, a tenth that never fails, a rare one, and one of its own."""
    tags = [f"customer:{n}"]
    if n % 2:
        tags.append("half")
    if n % 10 == 0:
        tags.append("a tenth")
    if n % 20_000 == 5:
        tags.append("rare")
    return tags


def tag_rows(rows: list[dict[str, Any]], first: int) -> list[dict[str, Any]]:
    """Return the rows of the tags of executions, of which the first has a number."""
    return [
        {
            **{name: row[name] for name in ("shard", "company", "agent")},
            "execution": row["id"],
            "tag": tag,
            "ended": "" if row["finished_ms"] is None else row["state"],
        }
        for n, row in enumerate(rows, first)
        for tag in sorted(tags_of(n))
    ]


def rows(count: int) -> Iterator[dict[str, Any]]:
    """Yield ended executions over a year: 1 in 1,000 failed, 1 in 100,000 is paused; the last agent is a rare one."""
    for n in range(count):
        at_ms = FIRST_MS + n * (365 * DAY_MS // count)
        execution = id_of("exe", at_ms, n.to_bytes(10, "big"))
        state = states.Execution.FAILED if n % 1_000 == 7 else states.Execution.COMPLETED
        if paused := n % 100_000 == 13:
            state = states.Execution.PAUSED
        yield {
            "shard": shard_of(execution),
            "id": execution,
            "company": "default",
            "agent": f"agent {AGENTS if n % 50_000 == 3 else n % AGENTS}",
            "definition": "d" * 24,
            "state": state,
            "reason": None,
            "ownership": states.Ownership.PARKED,
            "fence": 1,
            "next_seq": 24,
            "log_format": 2,
            "active_ms": 900,
            "created_ms": at_ms,
            "updated_ms": at_ms + 1_000,
            "finished_ms": None if paused else at_ms + 1_000,
            "chain": "c" * 32,
            "lane": "",
            "build": "",
            "cancel_seq": None,
            "origin": "",
            "kept_by": "",
            "priority": 0,
            "limit_key": "",
        }


def fill(store: Store, count: int) -> None:
    """Put in `count` executions with their tags."""
    every = rows(count)
    for first in range(0, count, BATCH):
        batch = list(islice(every, BATCH))
        told_ = [_told(row, n) for n, row in enumerate(batch, first)]
        tags = tag_rows(batch, first)
        with store.write() as connection:  # in the order of their keys: a page of the file is then written once a batch
            connection.many("insert_execution", sorted(batch, key=_key))
            connection.many("insert_tags", sorted(told_, key=_key))
            connection.many("insert_tagged", sorted(tags, key=_key))


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["shard"], row.get("execution", row.get("id")), row.get("tag", "")


def _told(row: dict[str, Any], n: int) -> dict[str, Any]:
    return {"shard": row["shard"], "execution": row["id"], "tags": told(tags_of(n))}


def measure(store: Store, wanted: dict[str, Any]) -> list[float]:
    """Return the milliseconds of each of the first pages that match."""
    took: list[float] = []
    cursor: str | None = None
    for _ in range(PAGES):
        began = time.perf_counter()
        with store.read() as reads:
            page = execution_page(reads, "default", ExecutionFilter(**wanted), cursor=cursor, limit=50)
        took.append((time.perf_counter() - began) * 1000)
        cursor = page.cursor
        if cursor is None:
            break
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--store", metavar="DSN", help="an empty PostgreSQL database")
    options = parser.parse_args()
    with opened(options.store) as store:
        fill(store, options.executions)
        if options.store:
            gather_statistics(options.store)
        return judge(store, options.executions)


@contextmanager
def opened(address: str | None) -> Iterator[Store]:
    """Have a store to fill: a new file on this disk, or the empty database at an address."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, ExitStack() as at_last:
        if address:
            from perdure.store.postgres import open_postgres  # noqa: PLC0415 - psycopg is an extra

            store: Store = open_postgres(address, random=SystemRandom())
        else:
            store = open_sqlite(Path(folder) / "bench.db", clock=SystemClock(), random=SystemRandom())
        at_last.callback(store.close)
        yield store


def gather_statistics(address: str) -> None:
    """Do what PostgreSQL does by itself within a minute of so many rows: without it, it takes the tables for empty."""
    import psycopg  # noqa: PLC0415 - as above

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("ANALYZE")


def judge(store: Store, count: int) -> int:
    """Measure and print; return the exit code."""
    middle_ms = FIRST_MS + 180 * DAY_MS
    window = {"since_ms": middle_ms, "until_ms": middle_ms + DAY_MS}
    asked: dict[str, dict[str, Any]] = {
        "all": {},
        "failed": {"state": "failed"},
        "paused": {"state": "paused"},
        "waiting (none)": {"state": "waiting"},
        "of an agent": {"agent": "agent 3"},
        "of a rare agent": {"agent": f"agent {AGENTS}"},
        "of an agent, failed": {"agent": "agent 7", "state": "failed"},
        "of one day": window,
        "of one day, failed": {**window, "state": "failed"},
        "of one day and agent": {**window, "agent": "agent 3"},
        "with a tag of half": {"tag": "half"},
        "with it, failed": {"tag": "half", "state": "failed"},
        "with it, paused": {"tag": "half", "state": "paused"},
        "with it, waiting (none)": {"tag": "half", "state": "waiting"},
        "with it, of an agent": {"tag": "half", "agent": "agent 3"},
        "with it, day, agent": {**window, "tag": "half", "agent": "agent 7", "state": "completed"},
        "with it, none of a day": {**window, "tag": "half", "agent": "agent 4", "state": "failed"},
        "of a tenth, failed (none)": {"tag": "a tenth", "state": "failed"},
        "with a rare tag": {"tag": "rare", "state": "completed"},
        "with a tag of its own": {"tag": f"customer:{count // 2}"},
    }
    slowest = 0.0
    for name, wanted in asked.items():
        took = measure(store, wanted)
        slowest = max(slowest, *took)
        print(f"{name:26} p50 {median(took):7.2f} ms   slowest {max(took):7.2f} ms   ({len(took)} pages of 50)")
    print(f"slowest page of {count:,} executions: {slowest:.1f} ms (bar {BAR_MS:.0f})")
    return 0 if slowest <= BAR_MS else 1


if __name__ == "__main__":
    sys.exit(main())
