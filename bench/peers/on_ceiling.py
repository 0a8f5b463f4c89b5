"""What the disk and the databases give raw, run as the contenders are. Modes: `function` and `agent` (the rows of
`bench/ceiling.py`), `function-http` (those of a function, told over HTTP), and `commit` (one row of 0.75 KB a
transaction, one after another).
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
from workloads import Options, quantile, read_options

sys.path.insert(0, str(Path(__file__).parents[1]))
import ceiling
import ceiling_http

ROW = "c" * 768
TABLE = "CREATE TABLE rows (id INTEGER PRIMARY KEY, data TEXT NOT NULL)"


def commits(options: Options) -> dict[str, float]:
    """Return the middle of the milliseconds that a commit takes."""
    if options.database:
        with psycopg.connect(options.database, autocommit=True) as database:
            database.execute(TABLE)
            return _timed(options.seconds, lambda n: database.execute("INSERT INTO rows VALUES (%s, %s)", (n, ROW)))
    with closing(sqlite3.connect(options.folder / "raw.db", isolation_level=None)) as file:
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = FULL")
        file.execute(TABLE)
        return _timed(options.seconds, lambda n: file.execute("INSERT INTO rows VALUES (?, ?)", (n, ROW)))


def _timed(seconds: float, commit: Callable[[int], object]) -> dict[str, float]:
    took: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        commit(len(took))
        took.append((time.perf_counter() - began) * 1000)
    return {"gap_p50_ms": quantile(took, 0.5), "gap_p99_ms": quantile(took, 0.99)}


def rows(options: Options) -> dict[str, float]:
    """Return how many steps a second's rows stand for."""
    folder, database = options.folder, options.database
    if options.mode.endswith("-http"):
        return {"steps_per_second": ceiling_http.measure(folder, options.concurrency, options.seconds, database)}
    return {"steps_per_second": ceiling.measure(folder, options.concurrency, options.seconds, options.mode, database)}


if __name__ == "__main__":
    given = read_options()
    print(json.dumps(commits(given) if given.mode == "commit" else rows(given)))
