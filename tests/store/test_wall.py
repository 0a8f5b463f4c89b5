"""The wall below the application: queries that have forgotten whom they are for find of rooms what is the asker's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engine_bench import Bench
from older_store import older_store
from perdure.core.budgets import Budget
from perdure.core.room_files import NewFile, blob_of
from perdure.core.rooms import Actor, Invite, Join, Leave, OpenTask, Remember, SetRights, Stop
from perdure.engine.room_files import PutChunk, PutFile, put_chunk, put_file
from perdure.engine.rooms_budget import SetBudget, set_budget
from perdure.errors import InternalError
from perdure.store.postgres import open_postgres
from perdure.store.protocol import EVERY_COMPANY, Row, Store
from perdure.store.sql_store import Query, load_queries, parse
from perdure.store.sqlite import open_sqlite
from perdure.store.sqlite_schema import tables
from perdure.store.sqlite_wall import RULES, Speaker, raise_wall
from perdure.system import SystemRandom
from perdure.testing.clock import FakeClock, SeededRandom
from poolers import pooled
from postgres_server import as_ordinary_role
from room_bench import ACME, ANN, BOB, GLOBEX, STRANGER, RoomBench

UNWALLED: dict[str, str] = {}
"""Tables of rooms that are not behind the wall, and why."""

OWN = {"room_rights", "room_refusals", "room_budgets", "room_spending", "room_reservations"}
"""Tables of which each company sees its own rows alone."""
UNDONE = {"room_seats", "room_budgets", "room_spending", "room_reservations", "room_stops", "room_halted"}
"""Tables of which a company may delete rows about itself."""

FORGETFUL = {
    **{f"all {name}": f"SELECT * FROM {name}" for name in RULES},
    **{f"count {name}": f"SELECT COUNT(*) AS n FROM {name}" for name in RULES},
    **{f"empty {name}": f"DELETE FROM {name}" for name in RULES},
    "retitle": "UPDATE room_tasks SET title = 'mine now'",
    "other meanings": "UPDATE room_entries SET model = '9', vector = 'mine now'",
    "all evicted": "UPDATE room_members SET state = 'gone'",
    "both": "SELECT m.text FROM room_messages m UNION ALL SELECT l.text FROM room_memory l UNION ALL SELECT t.title "
    "FROM room_tasks t WHERE t.room IN (SELECT id FROM rooms)",
}
"""What an application might ask that has lost its filter."""
WORDS = {
    "sqlite": """SELECT id FROM room_words WHERE terms MATCH '"' || :room || '_' || HEX(:reader) || '_line"'""",
    "postgres": "SELECT id FROM room_entries "
    "WHERE terms @@ CAST('line' AS TSQUERY) AND room = :room AND reader = :reader",
}
"""The same of the index: it asks for what somebody else may read."""


def forgetful(dialect: str) -> Mapping[str, Query]:
    texts = {**FORGETFUL, "words": WORDS[dialect]}
    return {**load_queries(dialect), **{name: parse(name, text) for name, text in texts.items()}}


@pytest.fixture(scope="module", params=["sqlite", "postgres", "pooled"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store that knows forgetful queries; `pooled`: each transaction may be in another session."""
    if request.param == "sqlite":
        place = tmp_path_factory.mktemp("wall") / "s.db"
        with closing(open_sqlite(place, clock=FakeClock(), random=SeededRandom(), queries=forgetful("sqlite"))) as file:
            yield file
        return
    server: str = request.getfixturevalue("postgres_dsn")
    name = f"wall_{request.param}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
    address = as_ordinary_role(server.replace("/postgres?", f"/{name}?"))
    with ExitStack() as open_ones:
        if request.param == "pooled":
            socket = address.partition("host=")[2]
            address = address.replace(socket, str(open_ones.enter_context(pooled("own", Path(socket)))))
        database = open_postgres(address, random=SeededRandom(), queries=forgetful("postgres"))
        yield open_ones.enter_context(closing(database))


@pytest.fixture(scope="module")
def room(store: Store) -> RoomBench:
    """Two rooms of `acme`: one that `globex` is in, and one that it is not in. Something of everything in each."""
    room = RoomBench(Bench(store, FakeClock()))
    room.agent(BOB, "bot")
    for own in (False, True):
        where = room.make("its own") if own else room.room
        room.write(ANN, OpenTask("a task of acme", ACME, key="t"), where)
        room.write(ANN, Remember("a line of acme alone", (ACME,), key="m"), where)
        room.write(ANN, Remember("a line for all", key="a"), where)
        room.bench.do(put_chunk, PutChunk(where, ACME, blob_of(b"x"), 0, "eA=="))
        file = NewFile("x.txt", blob_of(b"x"), 1, key="f")
        room.bench.do(put_file, PutFile(where, ANN, file, "text", "x"))
    room.post(ANN, "@bot, a message of acme", key="1")
    room.post(BOB, "a message of globex", key="2")
    limit(store, room)
    return room


def limit(store: Store, room: RoomBench) -> None:
    """Have something of all that limits agents, of both companies."""
    for actor in (ANN, BOB):
        room.write(actor, SetRights('{"rules": []}'))
        room.bench.do(set_budget, SetBudget(actor, Budget(room.room, usd=1)))
        for query, params in limits(room.room, actor.company).items():
            write_as(store, actor.company, query, **params)
        halted = {"room": room.room, "company": actor.company, "agent": "bot"}
        write_as(store, EVERY_COMPANY, "insert_halted", **halted, shard=0, execution=actor.company, why="stopped")
    room.write(ANN, Stop(f"{GLOBEX}/bot"))
    room.write(ANN, Stop())


def limits(room: str, company: str) -> dict[str, dict[str, Any]]:
    """Return what writes rows that are a company's own, by the query that does."""
    whose = {"room": room, "company": company, "agent": "bot"}
    request = {"shard": 0, "execution": "wake", "nonce": company, "fence": 1, "usd_micros": 1, "tokens": 1}
    amounts = dict.fromkeys(("reserved_micros", "reserved_tokens", "spent_micros", "spent_tokens"), 1)
    return {
        "insert_refusal": {**whose, "seq": 1, "act": "Post", "code": "not_allowed", "rule": "", "now_ms": 0},
        "add_spending": {**whose, "day": 1, **amounts},
        "insert_reservation": {**whose, "day": 1, **request},
    }


def look(store: Store, company: str, query: str) -> list[Row]:
    with store.read() as reads:
        if company:
            reads.speak_for(company)
        return reads.rows(query)


def counts(store: Store, company: str) -> dict[str, int]:
    return {name: look(store, company, f"count {name}")[0]["n"] for name in RULES}


def test_to_a_stranger_and_to_nobody_every_table_of_rooms_is_empty(store: Store, room: RoomBench) -> None:
    everything = counts(store, EVERY_COMPANY)
    assert all(everything.values()), everything
    for company in (STRANGER.company, ""):
        assert set(counts(store, company).values()) == {0}
        for query in (*(f"all {name}" for name in RULES), "both"):
            assert look(store, company, query) == []


def test_a_member_sees_its_rooms_and_of_memory_what_it_may_read(store: Store, room: RoomBench) -> None:
    assert {one["id"] for one in look(store, GLOBEX, "all rooms")} == {room.room}
    for name in RULES:
        if name != "rooms":
            assert {one["room"] for one in look(store, GLOBEX, f"all {name}")} == {room.room}, name
    assert [one["text"] for one in look(store, GLOBEX, "all room_memory")] == ["a line for all"]
    assert {one["company"] for one in look(store, GLOBEX, "all room_seats")} == {GLOBEX}
    said = sorted(one["text"] for one in look(store, GLOBEX, "both"))
    assert said == ["@bot, a message of acme", "a line for all", "a message of globex", "a task of acme"]
    mine, all_ = counts(store, ACME), counts(store, EVERY_COMPANY)
    assert {name: mine[name] for name in RULES.keys() - OWN} == {name: all_[name] for name in RULES.keys() - OWN}
    for name in OWN:
        for company in (ACME, GLOBEX):
            assert {one["company"] for one in look(store, company, f"all {name}")} == {company}, name
    assert {one["company"] for one in look(store, GLOBEX, "all room_halted")} == {GLOBEX}


def test_by_the_index_of_words_nothing_is_found_that_is_anothers(store: Store, room: RoomBench) -> None:
    def lines(speaker: str, reader: str) -> int:
        with store.read() as reads:
            reads.speak_for(speaker)
            return len(reads.rows("words", room=room.room, reader=reader))

    asked = [(speaker, reader) for speaker in (EVERY_COMPANY, ACME, GLOBEX, STRANGER.company) for reader in (ACME, "*")]
    assert [lines(*one) for one in asked] == [1, 1, 1, 1, 0, 1, 0, 0]


def test_whoever_leaves_sees_nothing_from_then_on(store: Store, room: RoomBench) -> None:
    guest = Actor("guest", "gus")
    room.write(ANN, Invite(guest.company))
    room.write(guest, Join())
    assert counts(store, guest.company)["room_messages"] == 2
    room.write(guest, Leave())
    assert set(counts(store, guest.company).values()) == {0}
    assert room.write(guest, Join()).code == "not_found"


def test_what_is_said_for_one_company_ends_with_its_transaction(store: Store, room: RoomBench) -> None:
    for company in (ACME, GLOBEX, STRANGER.company, "", ACME, ""):
        seen = len(look(store, company, "all room_messages"))
        assert seen == (2 if company in (ACME, GLOBEX) else 0)
        with store.write() as connection:
            assert connection.rows("all room_messages") == [], "the next transaction speaks for nobody"
            connection.speak_for(company)
            assert len(connection.rows("all room_messages")) == seen


def test_what_does_not_belong_to_it_no_company_changes_or_deletes(store: Store, room: RoomBench) -> None:
    before = {name: look(store, EVERY_COMPANY, f"all {name}") for name in RULES}
    for company in (STRANGER.company, ""):
        with store.write() as connection:
            connection.speak_for(company)
            for query in ("retitle", "all evicted", "other meanings", *(f"empty {name}" for name in RULES)):
                assert connection.run(query) == 0, query
    with store.write() as connection:
        connection.speak_for(GLOBEX)
        assert connection.run("retitle") == 0, "they are acme's, and for acme"
        assert connection.run("other meanings") == 0, "upkeep alone says what texts mean"
        for name in RULES.keys() - UNDONE:
            assert connection.run(f"empty {name}") == 0, "nobody deletes"
    assert {name: look(store, EVERY_COMPANY, f"all {name}") for name in RULES} == before


def test_of_what_limits_agents_a_company_takes_back_what_is_about_itself_alone(store: Store, room: RoomBench) -> None:
    names = UNDONE - {"room_seats"}
    left: dict[str, set[str]] = {}
    with suppress(_Undo), store.write() as connection:
        connection.speak_for(GLOBEX)
        taken = {name: connection.run(f"empty {name}") for name in names}
        connection.speak_for(EVERY_COMPANY)
        left = {name: {one["company"] for one in connection.rows(f"all {name}")} for name in names}
        raise _Undo
    assert taken == dict.fromkeys(names, 1) | {"room_halted": 2}, "one of them is the wake that the stop paused"
    assert left == {name: {ACME} for name in names} | {"room_stops": {""}}, "the host alone lets the room go on"


class _Undo(Exception):
    """Nothing of it is to stay."""


def test_a_statement_that_is_kept_shows_and_changes_for_each_company_what_is_its_own(
    store: Store, room: RoomBench
) -> None:
    """One connection has prepared it once, and runs it for one company after the other, within one transaction too."""
    own = {ACME: {ACME}, GLOBEX: {GLOBEX}, STRANGER.company: set[str](), "": set[str]()}
    retitled = {STRANGER.company: 0, ACME: 1, GLOBEX: 0}
    with store.read() as reads:
        for company in (*own, *own):
            reads.speak_for(company)
            assert {one["company"] for one in reads.rows("all room_rights")} == own[company]
            assert bool(reads.rows("all room_messages")) == bool(own[company])
    with suppress(_Undo), store.write() as connection:
        for company in (*retitled, *retitled):
            connection.speak_for(company)
            assert bool(connection.run("retitle")) == retitled[company], company
        raise _Undo


def test_in_a_file_it_is_asked_once_in_each_run_for_whom_a_connection_speaks(tmp_path: Path) -> None:
    class Asked(Speaker):
        times = 0

        def __getattribute__(self, name: str) -> Any:
            if name == "company":
                Asked.times += 1
            return super().__getattribute__(name)

    with closing(open_sqlite(tmp_path / "s.db", clock=FakeClock(), random=SeededRandom())) as file:
        room = RoomBench(Bench(file, FakeClock()))
        for number in range(30):
            room.post(ANN, f"message {number}")
    with closing(sqlite3.connect(tmp_path / "s.db")) as database:
        speaker = Asked()
        raise_wall(database, speaker)
        for company, seen in ((ACME, 30), (STRANGER.company, 0), (GLOBEX, 30)):
            speaker.company, Asked.times = company, 0
            assert len(database.execute("SELECT * FROM room_messages").fetchall()) == seen
            assert 0 < Asked.times <= 4, "once for each place in the rule, and not for each row"


MESSAGE: dict[str, Any] = {
    "id": "msg_x",
    "seq": 99,
    "author": "eve",
    "kind": "person",
    "text": "x",
    "addressed": "[]",
    "thread": "",
    "hops": 0,
    "steered_by": "[]",
    "digest": "",
    "now_ms": 0,
}


def write_as(store: Store, speaker: str, query: str, **params: Any) -> int:
    with store.write() as connection:
        connection.speak_for(speaker)
        return connection.run(query, **params)


@pytest.mark.parametrize(
    ("speaker", "author"), [(STRANGER.company, STRANGER.company), (GLOBEX, ACME), ("", ACME), (STRANGER.company, ACME)]
)
def test_nobody_writes_in_a_foreign_room_or_in_a_foreign_name(
    store: Store, room: RoomBench, speaker: str, author: str
) -> None:
    with pytest.raises(InternalError) as refused:
        write_as(store, speaker, "insert_room_message", **MESSAGE, room=room.room, company=author)
    assert refused.value.code == "constraint"
    assert "security" in refused.value.message or "wall" in refused.value.message


@pytest.mark.parametrize("speaker", [STRANGER.company, GLOBEX, ""])
def test_nobody_limits_or_spends_in_a_foreign_name(store: Store, room: RoomBench, speaker: str) -> None:
    by, now = {"by": "eve", "now_ms": 0}, {"reason": "", "now_ms": 0}
    stop = {"room": room.room, "by_company": speaker, "by_name": "eve", **now}
    halted = {"room": room.room, "company": speaker, "agent": "bot", "shard": 0, "execution": "x", "why": "budget"}
    cap = {"room": "", "agent": "", "usd_micros": 0, "tokens": None, "unpriced_micros": None}
    writes: list[tuple[str, dict[str, Any]]] = [
        *limits(room.room, ACME).items(),
        ("put_rights", {"room": room.room, "company": ACME, "revision": 2, "document": "{}", **by}),
        ("put_budget", {"company": ACME, **cap, **by}),
        ("put_stop", {**stop, "company": ACME, "agent": "x"}),
        ("put_stop", {**stop, "company": "", "agent": "x"}),
        ("put_stop", {**stop, "company": GLOBEX, "agent": "x", "by_company": ACME}),
        ("insert_halted", halted),
    ]
    for query, params in writes:
        with pytest.raises(InternalError) as refused:
            write_as(store, speaker, query, **params)
        assert "security" in refused.value.message or "wall" in refused.value.message, query


@pytest.mark.parametrize("speaker", [STRANGER.company, GLOBEX, ""])
def test_nobody_but_its_host_lets_anybody_into_a_room(store: Store, room: RoomBench, speaker: str) -> None:
    mine = room.make("its own")
    assert write_as(store, speaker, "give_room_seat", room=mine, company=speaker) == 0, "it does not even see the room"
    member = {"company": speaker, "name": "", "state": "joined", "definition": "", "on_crash": "", "by": "eve"}
    with pytest.raises(InternalError):
        write_as(store, speaker, "put_room_member", room=mine, **member, now_ms=0)
    assert counts(store, GLOBEX)["rooms"] == 1


def test_every_table_of_rooms_is_behind_the_wall(postgres_database: str) -> None:
    """A new one gets rules, on both databases, or a reason in `UNWALLED`."""
    named = {one.name for one in tables() if one.name.startswith("room")}
    assert named - UNWALLED.keys() == RULES.keys()
    open_postgres(postgres_database, random=SystemRandom()).close()
    with psycopg.connect(postgres_database) as database:
        rows = database.execute("SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity").fetchall()
    assert {name for (name,) in rows} == RULES.keys()


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_rooms_that_were_there_before_the_wall_keep_their_companies(
    request: pytest.FixtureRequest, tmp_path: Path, dialect: str
) -> None:
    with older_store(dialect, tmp_path, request, before="wall") as old:
        session = old.session
        with session.exclusive():
            session.execute("INSERT INTO rooms VALUES ('r', 'acme', 'n', 'ann', 0)")
            for company, name, state in (
                ("acme", "", "joined"),
                ("acme", "bot", "joined"),
                ("globex", "", "invited"),
                ("gone", "", "gone"),
            ):
                session.execute(
                    "INSERT INTO room_members VALUES ('r', :company, :name, :state, '', '', '', 0)",
                    company=company,
                    name=name,
                    state=state,
                )
            session.execute("INSERT INTO room_memory VALUES ('r', 'm', 1, 'acme', 'ann', 'x', '', '', '', 0)")
            session.execute("INSERT INTO room_readers VALUES ('r', 'm', 'globex')")
        old.carry_on()
        with session.exclusive():
            old.speak_for_all()
            found = session.execute("SELECT room, company, host FROM room_seats ORDER BY company")
            readers = session.execute("SELECT line, company, owner FROM room_readers")
    assert [tuple(one.values()) for one in readers] == [("m", "globex", "acme")]
    assert [tuple(one.values()) for one in found] == [("r", "acme", "acme"), ("r", "globex", "acme")]
