"""How SQLite would run a query of the store's: the steps of its plan, in a file that holds nothing yet."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from perdure.store.sql_store import load_queries
from perdure.store.sqlite import open_sqlite
from perdure.store.sqlite_link import open_link
from perdure.testing.clock import FakeClock, SeededRandom


def steps_in_file(folder: Path, query: str) -> list[str]:
    """Return the steps of a named query's plan, below the wall between companies as always."""
    place = folder / "s.db"
    open_sqlite(place, clock=FakeClock(), random=SeededRandom()).close()
    with closing(open_link(place, {}, writes=True)) as link:
        link.raise_wall()
        asked = load_queries("sqlite")[query]
        plan = link.database.execute(f"EXPLAIN QUERY PLAN {asked.sql}", dict.fromkeys(asked.params)).fetchall()
    return [step for *_, step in plan]
