"""Search in rooms, on both databases: by words alone, the same on each, and of what the asking company may read."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine_bench import Bench
from older_store import older_store
from perdure.core.ids import shard_of
from perdure.core.room_search import COMMON, SearchPage, words_of
from perdure.core.rooms import Actor, Invite, Join, Leave, Post, Remember
from perdure.engine.room_files import passages_view
from perdure.engine.room_search import Search, search
from perdure.engine.rooms import Write, write_in_room
from perdure.errors import InvalidInput, NotFound
from perdure.store.postgres import open_postgres
from perdure.store.protocol import Store
from perdure.store.sqlite import open_sqlite
from perdure.testing.clock import FakeClock, SeededRandom
from perdure.upkeep.checking import check_store
from perdure.upkeep.copying import copy
from postgres_server import as_ordinary_role
from query_plans import steps_in_file
from room_bench import ACME, ANN, BOB, GLOBEX, STRANGER, RoomBench, snippets

HOSTILE = [
    '"',
    "'; DROP TABLE rooms; --",
    "NEAR(river, 2) AND NOT words:river*",
    "river* ^river -river +river",
    "room_words MATCH '\"'",
    "(((",
    "a & b | !c <-> d",
    "\0",
    "ri\0ver",
    "\ud800",
    "🎉",
    "the of and",
    "%_\\",
    "",
    " \n\t",
    "* OR 1=1",
    "２ ½ Ⅻ",
    "x" * 1_000_000,
    "river " * 200_000,
    "\u202eriver",
]


def test_messages_lines_and_passages_are_found_by_their_words(room: RoomBench) -> None:
    said = room.post(ANN, "The river is 80 m wide.")
    kept = room.write(BOB, Remember("Rivers rise; the RIVER rose in May.", source=said.id, key="m"))
    survey = room.put(ANN, "survey.txt", "word " * 200 + "The river bed is gravel.")
    page = room.found("river")
    assert page.found == 3
    assert [(one.kind, one.id, one.company, one.author) for one in page.items] == [
        ("file", survey.id, ACME, "ann"),
        ("memory", kept.id, GLOBEX, "bob"),
        ("message", said.id, ACME, "ann"),
    ], "alike, so the newest first"
    passage = page.items[0]
    assert (passage.file, passage.version, passage.passage) == ("survey.txt", 1, 1)
    assert passage.snippet.endswith("The river bed is gravel.")
    assert room.found("river", GLOBEX) == page
    for kind, id in (("message", said.id), ("memory", kept.id), ("file", survey.id)):
        assert [one.id for one in room.found("river", kinds=(kind,)).items] == [id]
    assert room.found("sea") == room.found("?!") == SearchPage((), 0, None)


def test_more_of_the_words_comes_first_then_rarer_ones_then_what_is_newer(room: RoomBench) -> None:
    for text in ("cost of steel", "steel of the bridge", "cost", "steel", "steel again", "cost of the bridge"):
        room.post(ANN, text)
    assert snippets(room.found("bridge cost")) == ["cost of the bridge", "steel of the bridge", "cost", "cost of steel"]
    assert snippets(room.found("cost, steel"))[0] == "cost of steel"
    assert snippets(room.found("steel BRIDGE"))[0] == "steel of the bridge"


def test_a_word_that_very_many_have_finds_nothing_beside_a_rarer_one(room: RoomBench) -> None:
    text = "\n\n".join(f"the {number} {'x' * 790}" for number in range(COMMON + 1))
    room.put(ANN, "long.txt", text)
    room.post(ANN, "the bridge")
    assert snippets(room.found("the bridge")) == ["the bridge"]
    assert room.found("the").found > COMMON


def test_pages_hold_together_while_others_write(room: RoomBench) -> None:
    for number in range(7):
        room.post(ANN, f"river {number}" + " bridge" * (number % 2))
    whole = room.found("river bridge", limit=100)
    seen, page = list[Any](), room.found("river bridge", limit=2)
    while True:
        assert page.found == 7
        seen += page.items
        if page.cursor is None:
            break
        room.post(BOB, f"a bridge over a river, said after {len(seen)}")
        page = room.found("river bridge", limit=2, cursor=page.cursor)
    assert tuple(seen) == whole.items
    with pytest.raises(InvalidInput) as refused:
        room.found("another query of words", cursor=room.found("river bridge", limit=2).cursor)
    assert refused.value.code == "bad_search"


def test_nothing_that_a_company_may_not_read_is_found_counted_or_ranked(room: RoomBench) -> None:
    """What others keep to themselves, or say elsewhere, changes nothing: neither the order nor a number."""
    queries = ("bridge cost", "canary", "cost", "steel canary bridge")
    for text in ("cost of steel", "the bridge", "cost", "steel bridge"):
        room.post(ANN, text)
    room.write(ANN, Remember("acme and globex: the cost is 7", (ACME, GLOBEX), key="both"))

    def seen() -> list[Any]:
        pages = [room.found(query, GLOBEX, limit=limit) for query in queries for limit in (1, 100)]
        return [(one.items, one.found, (one.cursor or "").partition(".")[2]) for one in pages]

    before = seen()
    assert room.found("canary", GLOBEX) == SearchPage((), 0, None)
    elsewhere = room.make("its own")
    for number in range(30):
        text = f"canary {number}: bridge, cost, steel"
        room.write(ANN, Remember(text, (ACME,), key=text))
        room.write(ANN, Post(text, key=text), elsewhere)
    assert seen() == before
    assert room.found("canary", ACME).found == 30, "the owner finds its own, of this room"
    shared = snippets(room.found("globex", GLOBEX))
    assert shared == snippets(room.found("globex", ACME)) == ["acme and globex: the cost is 7"]


def test_whoever_is_not_in_the_room_any_more_or_never_was_finds_no_room(room: RoomBench) -> None:
    guest = Actor("guest", "gus")
    room.write(ANN, Invite(guest.company))
    with pytest.raises(NotFound):
        room.found("river", guest.company)
    room.write(guest, Join())
    room.post(guest, "the river")
    assert room.found("river", guest.company).found == 1
    room.write(guest, Leave())
    for company in (guest.company, STRANGER.company):
        with pytest.raises(NotFound, match="there is no room"):
            room.found("river", company)
    assert room.found("river", GLOBEX).found == 1, "what was said stays"


@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: ascii(query[:16]))
def test_a_hostile_query_is_words_like_any_other(room: RoomBench, query: str) -> None:
    text = "the river, a party 🎉"
    room.post(ANN, text)
    assert room.found(query).found == bool({*words_of(text)} & {*words_of(query[:10_000])})
    if query.strip() and "\0" not in query and "\ud800" not in query and len(query) < 100:
        room.post(ANN, query)
        assert room.found(query).found >= int(any(letter.isalnum() for letter in query))


def test_what_is_said_again_under_its_key_is_found_once(room: RoomBench) -> None:
    for _ in range(2):
        room.post(ANN, "the river", key="k")
        room.write(ANN, Remember("the river", key="k"))
        room.put(ANN, "a.txt", "the river", key="k")
    assert room.found("river").found == 3
    row = Write(room.room, ANN, Post("the bridge", key="b"))
    room.bench.together((write_in_room, row), (write_in_room, row))
    assert room.found("bridge").found == 1


def test_of_a_file_the_newest_version_is_found_and_the_others_stay(room: RoomBench) -> None:
    first = room.put(ANN, "plan.txt", "ten beams", key="1")
    room.put(BOB, "plan.txt", "nine beams of globex", key="1")
    second = room.put(ANN, "plan.txt", "twelve beams", key="2")
    best = room.found("beams twelve ten").items[0]
    assert (best.id, best.version) == (second.id, 2)
    assert sorted(snippets(room.found("beams"))) == ["nine beams of globex", "twelve beams"]
    assert room.found("ten").found == 0
    assert room.read(passages_view, GLOBEX, first.id, 0, 10)[0].text == "ten beams"


def test_in_the_index_of_a_file_every_word_is_kept_for_one_room_and_one_reader(tmp_path: Path) -> None:
    """What others may read is in other lists than one's own: nobody's search walks over it."""
    place = tmp_path / "s.db"
    with closing(open_sqlite(place, clock=FakeClock(), random=SeededRandom())) as store:
        room = RoomBench(Bench(store, FakeClock()))
        elsewhere = room.make("its own")
        for where in (room.room, elsewhere):
            for number in range(5):
                room.write(ANN, Post(f"river {number}", key=str(number)), where)
        for readers in ((ACME,), (ACME, GLOBEX)):
            room.write(ANN, Remember("secret river", readers, key=str(readers)))
    with closing(sqlite3.connect(place)) as file:
        kept = file.execute("SELECT room, reader FROM room_entries").fetchall()
        file.execute("CREATE VIRTUAL TABLE temp.lists USING fts5vocab(main, room_words, row)")
        lists = dict(file.execute("SELECT term, doc FROM lists WHERE term LIKE '%river'").fetchall())
    who = {"*": "2a", ACME: ACME.encode().hex(), GLOBEX: GLOBEX.encode().hex()}
    entries = Counter(f"{room_}_{who[reader]}_river" for room_, reader in kept)
    assert lists == entries
    assert sorted(entries.values()) == [1, 2, 5, 5]


@pytest.mark.parametrize(
    ("query", "way"),
    [
        ("room_word_counts", "SEARCH t USING INDEX sqlite_autoindex_room_entries_1 (number=?)"),
        ("room_found", "SEARCH t USING INDEX sqlite_autoindex_room_entries_1 (number=?)"),
        ("room_found_messages", "SEARCH t USING INDEX sqlite_autoindex_room_messages_1 (room=? AND id=?)"),
        ("room_found_lines", "SEARCH t USING INDEX sqlite_autoindex_room_memory_1 (room=? AND id=?)"),
        (
            "room_found_passages",
            "SEARCH t USING INDEX sqlite_autoindex_room_passages_1 (room=? AND file=? AND number=?)",
        ),
    ],
)
def test_what_words_lead_to_in_a_file_is_gone_to_by_its_key(tmp_path: Path, query: str, way: str) -> None:
    """And not looked for among all that the room holds."""
    loops = [step for step in steps_in_file(tmp_path, query) if step.startswith(("SCAN", "SEARCH"))]
    assert " VIRTUAL TABLE INDEX" in loops[0], loops
    assert way in loops


def test_a_copy_in_the_other_database_finds_the_same(tmp_path: Path, postgres_database: str) -> None:
    place, address = tmp_path / "s.db", as_ordinary_role(postgres_database)
    queries = ("river bridge", "secret", "beams", "the")

    def pages(store: Store) -> list[SearchPage]:
        room = RoomBench(Bench(store, FakeClock()))
        return [room.found(query, company, limit=2) for query in queries for company in (ACME, GLOBEX)]

    with closing(open_sqlite(place, clock=FakeClock(), random=SeededRandom())) as store:
        room = RoomBench(Bench(store, FakeClock()))
        for number in range(5):
            room.post(ANN, f"the river {number}" + " and its bridge" * (number % 2))
        room.write(ANN, Remember("a secret bridge", (ACME,), key="m"))
        for version in ("ten", "twelve"):
            room.put(ANN, "plan.txt", f"{version} beams", key=version)
        before = pages(store)
    copy(place, address)
    assert check_store(place).problems == check_store(address).problems == []
    with closing(open_postgres(address, random=SeededRandom())) as store:
        assert pages(store) == before
        assert RoomBench(Bench(store, FakeClock())).put(ANN, "plan.txt", "eleven beams", key="3").created
        assert pages(store)[4].found == 1


OLD = """
INSERT INTO rooms VALUES ('room_r', 'acme', 'n', 'ann', 0)
INSERT INTO room_seats VALUES ('room_r', 'acme', 'acme'), ('room_r', 'globex', 'acme')
INSERT INTO room_members VALUES ('room_r', 'globex', '', 'joined', '', '', '', 0)
INSERT INTO room_messages VALUES ('room_r', 'msg_1', 1, 'acme', 'ann', 'person', 'a river', '[]', '', 0, '', 0, '[]')
INSERT INTO room_memory VALUES ('room_r', 'mem_all', 2, 'acme', 'ann', 'a river', '', '', '', 0, '[]')
INSERT INTO room_memory VALUES ('room_r', 'mem_own', 3, 'acme', 'ann', 'a secret river', '', '', '', 0, '[]')
INSERT INTO room_readers VALUES ('room_r', 'mem_all', '*', 'acme'), ('room_r', 'mem_own', 'acme', 'acme')
INSERT INTO room_files VALUES ('room_r', 'fil_1', 4, 'acme', 'ann', 'person', 'f', 1, 'm', 1, 'b', 'text', '', 0)
INSERT INTO room_files VALUES ('room_r', 'fil_2', 5, 'acme', 'ann', 'person', 'f', 2, 'm', 1, 'b', 'text', '', 0)
INSERT INTO room_passages VALUES ('room_r', 'fil_1', 0, 'acme', 'old'), ('room_r', 'fil_2', 0, 'acme', 'new')
"""
LEDGER = """INSERT INTO executions (shard, id, company, agent, definition, state, ownership, fence, next_seq,
    log_format, active_ms, created_ms, updated_ms)
VALUES (:shard, 'room_r', '?rooms', '', '', 'waiting', 'parked', 0, 9, 1, 0, 0, 0)"""


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_in_rooms_from_before_there_was_a_search_everything_is_found(
    request: pytest.FixtureRequest, tmp_path: Path, dialect: str
) -> None:
    with older_store(dialect, tmp_path, request, before="room_search") as old:
        with old.session.exclusive():
            old.speak_for_all()
            old.session.execute(LEDGER, shard=shard_of("room_r"))
            for statement in OLD.strip().split("\n"):
                old.session.execute(statement)
        old.carry_on()
    with closing(old.opened()) as store, store.read() as reads:
        reads.speak_for(GLOBEX)
        page = search(reads, GLOBEX, "room_r", Search("river secret old new"))
        assert sorted(one.id for one in page.items) == ["fil_2", "mem_all", "msg_1"]
