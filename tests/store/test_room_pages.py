"""Pages of what a room holds, on both databases: bounded in size, and found by an index whatever they are asked by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perdure.core import states
from perdure.core.room_views import RoomTaskView
from perdure.core.rooms import ChangeTask, OpenTask, Post, Remember
from perdure.engine import rooms_read
from perdure.engine.rooms_read import Window, memory_view, messages_view, tasks_view
from perdure.store.postgres import open_postgres
from perdure.store.postgres_link import translate
from perdure.store.sql_store import load_queries
from perdure.testing.clock import SeededRandom
from postgres_server import as_ordinary_role
from query_plans import steps_in_file
from room_bench import ACME, ANN, BOB, EVERYTHING, GLOBEX, RoomBench

TEXT = "x" * 100


def pages(room: RoomBench, view: Any, limit: int = 100) -> Iterator[list[Any]]:
    """Yield the pages that there are, each behind the last one of the page before."""
    after = 0
    while page := room.read(view, GLOBEX, Window(after, limit)):
        yield page
        after = page[-1].seq


def talk(room: RoomBench) -> Any:
    for number in range(7):
        room.post(ANN, TEXT, key=str(number))
    return messages_view


def thread(room: RoomBench) -> Any:
    first = room.post(ANN, TEXT, key="first")
    for number in range(6):
        room.write(BOB, Post(TEXT, thread=first.id, key=str(number)))
        room.post(ANN, TEXT, key=str(number))
    return partial(messages_view, thread=first.id)


def lines(room: RoomBench) -> Any:
    for number in range(7):
        room.write(ANN, Remember(TEXT, key=f"a{number}"))
        room.write(ANN, Remember(TEXT, (ACME,), key=f"b{number}"))
    return memory_view


def tasks(room: RoomBench, **asked: str) -> Any:
    room.agent(BOB, "bot")
    for number in range(7):
        task = room.write(ANN, OpenTask("y" * 40, f"{GLOBEX}/bot", key=str(number)))
        room.write(BOB, ChangeTask(task.id, "complete", "z" * 60))
    return partial(tasks_view, **asked)


@pytest.mark.parametrize(
    "held",
    [
        talk,
        thread,
        lines,
        tasks,
        partial(tasks, state="done"),
        partial(tasks, to=GLOBEX),
        partial(tasks, to=f"{GLOBEX}/bot"),
        partial(tasks, to=f"{GLOBEX}/bot", state="done"),
    ],
)
def test_a_page_ends_where_it_is_much_text_and_the_pages_together_hold_all(
    room: RoomBench, monkeypatch: pytest.MonkeyPatch, held: Callable[[RoomBench], Any]
) -> None:
    view = held(room)
    all_ = room.read(view, GLOBEX, EVERYTHING)
    assert len(all_) == 7
    for most, sizes in ((250, [3, 3, 1]), (1, [1] * 7)):
        monkeypatch.setattr(rooms_read, "PAGE_BYTES", most)
        found = list(pages(room, view))
        assert [len(page) for page in found] == sizes
        assert list(chain(*found)) == all_


def test_tasks_of_any_state_and_member_come_in_pages_that_leave_none_out(room: RoomBench) -> None:
    room.agent(BOB, "bot")
    for number, verb in enumerate(("claim", "complete", "decline", "cancel", "") * 3):
        actor, to = (BOB, (GLOBEX, f"{GLOBEX}/bot")[number % 2]) if number % 3 else (ANN, ACME)
        task = room.write(ANN, OpenTask("count", to, key=str(number)))
        if verb:
            room.write(ANN if verb == "cancel" else actor, ChangeTask(task.id, verb))
    all_: list[RoomTaskView] = room.read(tasks_view, GLOBEX, EVERYTHING)
    assert {one.state for one in all_} == set(states.RoomTask)
    for state in ("", *states.RoomTask):
        for to in ("", ACME, GLOBEX, f"{GLOBEX}/bot", "nobody", "nobody/bot"):
            wanted = [one for one in all_ if state in ("", one.state) and (not to or f"{one.to}/".startswith(f"{to}/"))]
            found = list(pages(room, partial(tasks_view, state=state, to=to), limit=2))
            assert list(chain(*found)) == wanted, (state, to)
            assert all(len(page) == 2 for page in found[:-1])


WAYS = [
    ("room_tasks_after", "room_tasks_in_order", "room=? AND seq>?"),
    ("room_tasks_in", "room_tasks_in_state", "room=? AND state=? AND seq>?"),
    ("room_tasks_to", "room_tasks_to_company", "room=? AND to_company=? AND state=? AND seq>?"),
    ("room_tasks_to_agent", "room_tasks_to_agent", "room=? AND to_company=? AND to_agent=? AND state=? AND seq>?"),
]


@pytest.mark.parametrize(("query", "index", "by"), WAYS)
def test_tasks_in_a_file_are_gone_to_by_an_index_whatever_they_are_asked_by(
    tmp_path: Path, query: str, index: str, by: str
) -> None:
    steps = steps_in_file(tmp_path, query)
    assert f"SEARCH t USING INDEX {index} ({by})" in steps, steps
    found = steps[: steps.index("SCAN page")]  # what comes after it sorts a page
    assert not [step for step in found if step.startswith("SCAN t") or "TEMP B-TREE" in step], steps


FILL = """
INSERT INTO room_tasks (
    room, id, seq, company, author, kind, title, to_company, to_agent, thread, state, holder, result, hops, digest,
    opened_ms, changed_ms
)
SELECT 'room_' || n % 9, 'rtk_' || n, n, 'acme', 'ann', 'person', 'count', 'company_' || n % 5, 'bot_' || n % 4, '',
    (ARRAY['done', 'done', 'done', 'declined', 'cancelled', 'claimed', 'open'])[1 + n % 7], '', '', 0, '', 0, 0
FROM generate_series(1, 20000) n
"""


def test_tasks_in_postgres_are_gone_to_by_an_index_below_the_wall(postgres_database: str) -> None:
    address = as_ordinary_role(postgres_database)
    open_postgres(address, random=SeededRandom()).close()
    given = {"room": "room_1", "after": 0, "limit": 200, "most": 4_000_000}
    given |= {"state": "claimed", "to_company": "company_1", "to_agent": "bot_1"}
    with psycopg.connect(address) as database:
        database.execute("SELECT set_config('perdure.company', '?all', false)")
        database.execute(FILL.encode())
        database.execute("ANALYZE room_tasks")
        database.execute("SELECT set_config('perdure.company', 'acme', false)")
        for query, index, _ in WAYS:
            asked = translate(load_queries("postgres")[query])
            plan = "\n".join(row[0] for row in database.execute(f"EXPLAIN {asked}".encode(), given).fetchall())
            assert f" {index} " in plan, plan
            assert "Seq Scan on room_tasks" not in plan, plan
