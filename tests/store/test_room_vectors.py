"""What is found in rooms by its meaning, on both databases, with a stand-in that knows a few groups of words."""

from __future__ import annotations

import re
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from alike import StandIn
from engine_bench import Bench
from perdure import failpoints
from perdure.core.room_search import SearchPage
from perdure.core.rooms import Post, Remember
from perdure.engine import room_vectors
from perdure.engine.room_vectors import KeepVectors, Turn, keep_vectors, without_vector
from perdure.store.postgres import open_postgres
from perdure.store.postgres_link import translate
from perdure.store.sql_store import load_queries
from perdure.store.sqlite import open_sqlite
from perdure.testing.clock import FakeClock, SeededRandom
from perdure.upkeep.copying import copy
from postgres_server import as_ordinary_role
from query_plans import steps_in_file
from room_bench import ACME, ANN, BOB, GLOBEX, RoomBench, snippets

MODEL = StandIn()


def pending(bench: Bench, embedder: StandIn = MODEL, limit: int = 1_000) -> dict[int, str]:
    return bench.read(lambda reads: without_vector(reads, embedder.model, Turn(), limit))[0]


def embed(bench: Bench, embedder: StandIn = MODEL) -> int:
    """Give all that has none a vector, as a server does; return how many that were."""
    found = pending(bench, embedder)
    vectors = dict(zip(found, embedder.vectors(list(found.values())), strict=True))
    return bench.do(keep_vectors, KeepVectors(embedder.model, vectors)) if vectors else 0


def found(
    room: RoomBench, query: str, company: str = ACME, embedder: StandIn | None = MODEL, **more: Any
) -> SearchPage:
    return room.found(query, company, embedder, **more)


def test_a_text_is_found_by_words_at_once_and_by_meaning_once_it_has_a_vector(room: RoomBench) -> None:
    room.post(ANN, "The price of steel rose.")
    room.write(BOB, Remember("The lorry is broken.", key="m"))
    room.put(ANN, "plan.txt", "A span of 80 m.", "f")
    assert snippets(found(room, "steel")) == ["The price of steel rose."]
    assert found(room, "cost") == SearchPage((), 0, None)
    assert embed(room.bench) == 3
    for query, text, kind in (
        ("what does it cost", "The price of steel rose.", "message"),
        ("vehicle", "The lorry is broken.", "memory"),
        ("bridge", "A span of 80 m.", "file"),
    ):
        page = found(room, query)
        assert (snippets(page), page.found) == ([text], 1)
        assert [(one.kind, one.found_by) for one in page.items] == [(kind, "meaning")]
        assert found(room, query, GLOBEX) == page
        assert found(room, query, embedder=None) == SearchPage((), 0, None), "without the extra it is as it was"
        others = {"message", "memory", "file"} - {kind}
        assert found(room, query, kinds=tuple(others)) == SearchPage((), 0, None)


def test_what_is_found_to_the_letter_comes_before_what_is_near(room: RoomBench) -> None:
    for text in ("order 48812 is paid", "order 48821 is late", "a delay of the truck", "lunch at noon"):
        room.post(ANN, text)
    embed(room.bench)
    page = found(room, "is 48812 late?")
    assert snippets(page) == ["order 48812 is paid", "order 48821 is late", "a delay of the truck"]
    assert [one.found_by for one in page.items] == ["words", "words", "meaning"]
    assert page.found == 3, "two that have a word, and one that has none"


def test_nothing_that_a_company_may_not_read_is_found_counted_or_ranked_by_its_meaning(room: RoomBench) -> None:
    queries = ("what does it cost", "expensive", "secret", "a hidden vehicle", "bridge 48812", "price river lunch")
    for text in ("the price of steel", "a truck", "river and lunch", "an order 48812"):
        room.post(ANN, text)
    room.write(ANN, Remember("acme and globex: the fee is 7", (ACME, GLOBEX), key="both"))
    embed(room.bench)

    def seen() -> list[Any]:
        pages = [found(room, query, GLOBEX, limit=limit) for query in queries for limit in (1, 2, 100)]
        return [(one.items, one.found, (one.cursor or "").partition(".")[2]) for one in pages]

    before = seen()
    assert found(room, "secret", GLOBEX) == SearchPage((), 0, None)
    elsewhere = room.make("its own")
    for number in range(60):
        text = f"canary {number}: the fee of a vehicle at the crossing of a stream, lunch, order 48812"
        room.write(ANN, Remember(text, (ACME,), key=text))
        room.write(ANN, Post(text, key=text), elsewhere)
    assert embed(room.bench) == 120
    assert seen() == before
    assert found(room, "secret", ACME).found == 40, "the owner finds its own, the nearest ones of this room"


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_pages_neither_repeat_nor_skip_while_texts_come_and_vectors_are_made(room: RoomBench, limit: int) -> None:
    """Also where another server, without the extra, gives the next page."""
    words = ("the price", "steel", "a fee for steel", "lunch", "expensive", "48812 steel")
    for number in range(30):
        room.post(ANN, f"{words[number % len(words)]} {number}")
    half = dict(sorted(pending(room.bench).items())[:15])
    vectors = dict(zip(half, MODEL.vectors(list(half.values())), strict=True))
    room.bench.do(keep_vectors, KeepVectors(MODEL.model, vectors))
    query = "money for steel 48812"
    whole, page = found(room, query, limit=100), found(room, query, limit=limit)
    assert whole.cursor is None
    assert {one.found_by for one in whole.items} == {"words", "meaning"}
    assert len(whole.items) == whole.found > 10
    seen = list(page.items)
    while page.cursor is not None:
        room.post(BOB, f"expensive steel 48812, said after {len(seen)}")
        embed(room.bench)
        embedder = MODEL if len(seen) % 2 else None
        page = found(room, query, embedder=embedder, limit=limit, cursor=page.cursor)
        assert page.found == whole.found
        assert 0 < len(page.items) <= limit
        seen += page.items
    assert tuple(seen) == whole.items


def test_vectors_of_an_earlier_model_are_made_anew_and_those_of_a_later_one_stay(room: RoomBench) -> None:
    later = StandIn("2 stand-in")
    room.post(ANN, "the price of steel")
    embed(room.bench)
    assert pending(room.bench) == {}
    assert len(pending(room.bench, later)) == 1
    assert found(room, "cost", embedder=later).found == 0, "what another model made is not compared"
    assert embed(room.bench, later) == 1
    assert found(room, "cost", embedder=later).found == 1
    assert pending(room.bench) == {}, "a server of the earlier model does not take it back"
    [number] = pending(room.bench, StandIn("9 of all"))
    assert room.bench.do(keep_vectors, KeepVectors(MODEL.model, {number: "0 0 0 0 0 0 1"})) == 0
    assert found(room, "cost", embedder=later).found == 1


def test_rooms_take_turns_however_much_one_has_waiting(room: RoomBench) -> None:
    rooms = sorted((room.room, room.make("second"), room.make("third")))
    for where, texts in zip(rooms, (9, 2, 2), strict=True):
        for number in range(texts):
            room.write(ANN, Post(f"{where} {number}", key=str(number)), where)
    turn, taken = Turn(), list[str]()
    for _ in range(5):
        found, turn = room.bench.read(partial(without_vector, model=MODEL.model, turn=turn, limit=3))
        taken.append(" ".join(sorted(str(rooms.index("_".join(words.split(" ")[:2]))) for words in found.values())))
        room.bench.do(keep_vectors, KeepVectors(MODEL.model, dict.fromkeys(found, "")))
    assert taken == ["0 0 0", "1 1 2", "", "0 0 0", "2"]


def test_keeping_vectors_again_changes_nothing(room: RoomBench) -> None:
    room.post(ANN, "the price of steel")
    waiting = pending(room.bench)
    row = KeepVectors(MODEL.model, dict.fromkeys(waiting, "1 0 0 0 0 0 0"))
    assert row.size == 13
    assert room.bench.twice(keep_vectors, row) == (1, 0)
    assert room.bench.do(keep_vectors, KeepVectors(MODEL.model, {12345: "1 0 0 0 0 0 0"})) == 0, "there is none"
    assert found(room, "cost").found == 1


@pytest.mark.parametrize(("moment", "left"), [("before_commit", 2), ("after_commit", 0)])
def test_a_pass_that_breaks_off_keeps_all_of_its_vectors_or_none(room: RoomBench, moment: str, left: int) -> None:
    for text in ("the price of steel", "a fee"):
        room.post(ANN, text)
    failpoints.arm(f"keep_vectors.{moment}=raise@1")
    try:
        with pytest.raises(failpoints.InjectedFault):
            embed(room.bench)
    finally:
        failpoints.arm("")
    assert len(pending(room.bench)) == left
    assert embed(room.bench) == left
    assert found(room, "cost").found == 2


def test_a_text_that_the_model_knows_nothing_of_is_done_with(room: RoomBench) -> None:
    room.post(ANN, "zzz")
    assert embed(room.bench) == 1
    assert pending(room.bench) == {}
    assert found(room, "cost").found == 0
    assert found(room, "zzz").found == 1


def test_a_version_of_a_file_that_is_replaced_meanwhile_gets_no_vector(room: RoomBench) -> None:
    room.put(ANN, "plan.txt", "the price of steel", "1")
    waiting = pending(room.bench)
    room.put(ANN, "plan.txt", "the lunch", "2")
    assert room.bench.do(keep_vectors, KeepVectors(MODEL.model, dict.fromkeys(waiting, "1 0 0 0 0 0 0"))) == 0
    embed(room.bench)
    assert found(room, "cost").found == 0
    assert snippets(found(room, "soup")) == ["the lunch"]


def test_where_there_are_very_many_the_newest_are_compared(room: RoomBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_vectors, "MOST_COMPARED", 3)
    for number in range(5):
        room.post(ANN, f"the price {number}")
        room.write(ANN, Remember(f"a fee {number}", (ACME,), key=str(number)))
    embed(room.bench)
    assert sorted(snippets(found(room, "cost"))) == ["a fee 3", "a fee 4", "the price 4"]
    assert sorted(snippets(found(room, "cost", GLOBEX))) == ["the price 2", "the price 3", "the price 4"]


def test_a_damaged_vector_is_like_nothing_and_words_still_find(room: RoomBench) -> None:
    room.post(ANN, "the price of steel")
    room.bench.do(keep_vectors, KeepVectors(MODEL.model, dict.fromkeys(pending(room.bench), "1 0")))
    assert found(room, "cost").found == 0
    assert found(room, "price").found == 1


def test_two_servers_give_texts_vectors_side_by_side(servers: tuple[Bench, Bench]) -> None:
    rooms = [RoomBench(one) for one in servers]
    for number in range(20):
        rooms[0].post(ANN, f"the price {number}")
    waiting = pending(servers[0])
    halves = [dict(list(waiting.items())[:12]), dict(list(waiting.items())[8:])]
    for bench, half in zip(servers, halves, strict=True):
        bench.do(keep_vectors, KeepVectors(MODEL.model, dict.fromkeys(half, "1 0 0 0 0 0 0")))
    assert pending(servers[1]) == {}
    assert found(rooms[1], "cost", limit=100).found == 20


@pytest.mark.parametrize(
    ("query", "way"),
    [
        ("entries_without_vector", "SEARCH t USING INDEX room_entries_by_model ((model,room)>(?,?) AND model<?)"),
        (
            "room_vectors",
            "SEARCH t USING INDEX room_entries_by_model (model=? AND room=? AND reader=? AND seq<?)",
        ),
        ("room_entries_numbered", "SEARCH t USING INDEX sqlite_autoindex_room_entries_1 (number=?)"),
        ("take_room_entries", "SEARCH t USING INDEX sqlite_autoindex_room_entries_1 (number=?)"),
    ],
)
def test_vectors_in_a_file_are_gone_to_by_an_index(tmp_path: Path, query: str, way: str) -> None:
    steps = steps_in_file(tmp_path, query)
    assert way in steps
    assert not [step for step in steps if step.startswith("SCAN t")], steps


FILL = """
INSERT INTO room_entries (number, room, company, reader, kind, id, part, seq, words, model, vector)
SELECT n, 'room_' || n % 9, 'acme', '*', 'message', 'msg_' || n, 0, n, 'word', '1 stand-in', '1 0 0 0 0 0 0'
FROM generate_series(1, 20000) n
"""


def test_vectors_in_postgres_are_gone_to_by_an_index_below_the_wall(postgres_database: str) -> None:
    """Also where none waits: no look and no search goes through what all rooms have."""
    address = as_ordinary_role(postgres_database)
    open_postgres(address, random=SeededRandom()).close()
    given = {"model": "1 stand-in", "after_model": "", "after_room": "", "limit": 100, "most": 100, "upto": 9_000}
    given |= {"room": "room_1", "company": "acme", "messages": "message", "lines": "", "files": ""}
    with psycopg.connect(address) as database:
        database.execute("SELECT set_config('perdure.company', '?all', false)")
        database.execute(FILL.encode())
        database.execute("ANALYZE room_entries")
        for speaker, seqscan, query, least in (
            ("?all", "on", "entries_without_vector", 1),
            ("acme", "off", "room_vectors", 2),
        ):
            database.execute("SELECT set_config('perdure.company', %s, false)", [speaker])
            database.execute("SELECT set_config('enable_seqscan', %s, false)", [seqscan])
            asked = translate(load_queries("postgres")[query])
            plan = "\n".join(row[0] for row in database.execute(f"EXPLAIN {asked}".encode(), given).fetchall())
            assert "Seq Scan on room_entries" not in plan, plan
            assert len(re.findall(r"room_entries_by_model .*\n *Index Cond: \(\((?:ROW\()?model", plan)) == least, plan


def test_a_copy_in_the_other_database_keeps_its_vectors(tmp_path: Path, postgres_database: str) -> None:
    place, address = tmp_path / "s.db", as_ordinary_role(postgres_database)
    with closing(open_sqlite(place, clock=FakeClock(), random=SeededRandom())) as store:
        room = RoomBench(Bench(store, FakeClock()))
        for text in ("the price of steel", "a fee", "lunch"):
            room.post(ANN, text)
        embed(room.bench)
        before = found(room, "cost of a lorry")
    copy(place, address)
    with closing(open_postgres(address, random=SeededRandom())) as store:
        room = RoomBench(Bench(store, FakeClock()))
        assert pending(room.bench) == {}
        assert found(room, "cost of a lorry") == before
