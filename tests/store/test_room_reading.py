"""What is read of rooms again and again, threads and lines of memory: it costs what is read, whatever else is there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine_bench import Bench
from older_store import older_store
from perdure.core.rooms import OpenTask, Post, Remember
from perdure.engine import rooms_snapshot
from perdure.engine.rooms_read import Window, memory_view, messages_view
from perdure.store.sql_store import load_queries
from perdure.store.sqlite import open_sqlite
from perdure.store.sqlite_link import open_link
from perdure.testing.clock import FakeClock, SeededRandom
from room_bench import ACME, ANN, BOB, EVERYTHING, GLOBEX, RoomBench


@pytest.fixture
def room(bench: Bench) -> RoomBench:
    return RoomBench(bench)


def test_a_thread_is_a_message_and_what_is_about_it_in_order(room: RoomBench) -> None:
    first = room.post(ANN, "one")
    room.post(ANN, "another")
    task = room.write(ANN, OpenTask("count", GLOBEX, thread=first.id, key="t"))
    replies = [room.write(BOB, Post(f"reply {n}", thread=first.id, key=str(n))) for n in range(3)]
    room.write(BOB, Post("of the task", thread=task.id, key="of"))

    def thread(about: str, window: Window = EVERYTHING) -> list[str]:
        return [one.text for one in room.read(messages_view, GLOBEX, window, about)]

    assert thread(first.id) == ["one", "reply 0", "reply 1", "reply 2"]
    assert thread(first.id, Window(replies[0].seq, 1)) == ["reply 1"]
    assert thread(task.id) == ["of the task"]
    assert thread("msg_none") == []
    assert len(thread("")) == 6


BY_ID = "(room=? AND id=?)"
BY_READER = "room_readers_in_order (room=? AND company=?"
BY_THREAD = "room_messages_in_thread (room=? AND thread=? AND seq>?)"


@pytest.mark.parametrize(
    ("query", "ways"),
    [
        ("room_thread_after", [BY_ID, BY_THREAD]),
        ("room_memory_after", [BY_READER, BY_READER, BY_ID]),
        ("room_memory_last", [BY_READER, BY_READER, BY_ID]),
    ],
)
def test_what_is_read_again_and_again_is_gone_to_by_an_index_however_much_a_room_holds(
    tmp_path: Path, query: str, ways: list[str]
) -> None:
    place = tmp_path / "s.db"
    open_sqlite(place, clock=FakeClock(), random=SeededRandom()).close()
    with closing(open_link(place, {}, writes=True)) as link:
        link.raise_wall()
        asked = load_queries("sqlite")[query]
        plan = link.database.execute(f"EXPLAIN QUERY PLAN {asked.sql}", dict.fromkeys(asked.params)).fetchall()
    found = [step for *_, step in plan if step.startswith(("SCAN t", "SEARCH t"))]
    assert len(found) == len(ways), plan
    for way in ways:
        assert sum(way in one for one in found) == ways.count(way), plan


def test_of_lines_the_newest_that_a_company_may_read_are_found_behind_all_that_it_may_not(room: RoomBench) -> None:
    room.agent(BOB, "bot")
    for number in range(3):
        room.write(ANN, Remember(f"for all {number}", key=f"a{number}"))
        room.write(BOB, Remember(f"for us {number}", (GLOBEX,), key=f"b{number}"))
    for number in range(5):
        room.write(ANN, Remember(f"for acme {number}", (ACME,), key=f"c{number}"))

    def seen(reads: Any, company: str, where: str) -> Any:
        return rooms_snapshot.snapshot(reads, company, "bot", where, "")

    theirs = [f"for {whom} {number}" for number in range(3) for whom in ("all", "us")]
    assert [one["text"] for one in room.read(seen, GLOBEX)["memory"]] == theirs
    lines = room.read(memory_view, GLOBEX, Window(0, 4))
    assert [one.text for one in lines] == theirs[:4]
    assert [one.text for one in room.read(memory_view, GLOBEX, Window(lines[-1].seq, 4))] == theirs[4:]
    assert room.read(memory_view, ACME, Window(0, 100))[-1].text == "for acme 4"


OLD_LINES = """
INSERT INTO rooms VALUES ('room_r', 'acme', 'n', 'ann', 0)
INSERT INTO room_seats VALUES ('room_r', 'acme', 'acme'), ('room_r', 'globex', 'acme')
INSERT INTO room_memory VALUES ('room_r', 'mem_b', 2, 'acme', 'ann', 'first', '', '', '', 0, '[]')
INSERT INTO room_memory VALUES ('room_r', 'mem_c', 3, 'acme', 'ann', 'secret', '', '', '', 0, '[]')
INSERT INTO room_memory VALUES ('room_r', 'mem_a', 4, 'acme', 'ann', 'last', '', '', '', 0, '[]')
INSERT INTO room_readers VALUES ('room_r', 'mem_a', 'globex', 'acme'), ('room_r', 'mem_a', 'acme', 'acme')
INSERT INTO room_readers VALUES ('room_r', 'mem_b', '*', 'acme'), ('room_r', 'mem_c', 'acme', 'acme')
"""


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_lines_that_an_earlier_release_kept_are_read_in_their_order(
    request: pytest.FixtureRequest, tmp_path: Path, dialect: str
) -> None:
    with older_store(dialect, tmp_path, request, before="room_reading") as old:
        with old.session.exclusive():
            old.speak_for_all()
            for statement in OLD_LINES.strip().split("\n"):
                old.session.execute(statement)
        old.carry_on()
    asked = {"room": "room_r", "limit": 9}
    with closing(old.opened()) as store, store.read() as reads:
        for company, texts in ((GLOBEX, ["first", "last"]), (ACME, ["first", "secret", "last"])):
            reads.speak_for(company)
            newest = reads.rows("room_memory_last", company=company, **asked)
            assert [row["text"] for row in newest] == texts[::-1]
            later = reads.rows("room_memory_after", company=company, after=2, most=1_000, **asked)
            assert [row["text"] for row in later] == texts[1:]
