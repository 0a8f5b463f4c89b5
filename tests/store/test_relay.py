"""What is told of replies in the making through a database: to whom, how far and until when. It need not last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import psycopg

import postgres_server
from engine_bench import Bench, ref, step
from perdure.core.codec import decode
from perdure.engine.claim import Claimed
from perdure.engine.due import Sweep
from perdure.engine.relay import (
    LEFT_MS,
    MOST_READ,
    ONLOOKING_MS,
    Onlooker,
    Piece,
    Relayed,
    Reply,
    Telling,
    Watching,
    any_left,
    relayed,
    say_onlookers,
    sweep_relay,
    tell_onlookers,
)
from perdure.engine.sweep import expire_owned
from perdure.store.operation import Steps, operation
from perdure.store.postgres import open_postgres
from perdure.store.protocol import Row
from perdure.store.tx import Tx
from perdure.system import SystemRandom
from perdure.testing.clock import FakeClock
from perdure.upkeep.checking import check_store

ADDRESS = "turn 1/model"
TABLES = ("relay_onlookers", "relay_replies", "relay_pieces")


def reply_of(held: Claimed, id: str = "rly_1", *, attempt: int = 1) -> Reply:
    """Return the reply of the first step, of which nothing is recorded."""
    return Reply(held.ref.execution, id, ADDRESS, attempt, held.fence, 1)


def say(bench: Bench, reply: Reply, *texts: str, begins: int = 0) -> None:
    """Tell texts of a reply; with the first of them it begins."""
    pieces: list[Piece] = []
    begun = () if begins else (reply,)
    for text in texts:
        pieces.append(Piece(reply, begins, text))
        begins += len(text)
    bench.do(tell_onlookers, Telling((), begun, pieces))


def look(bench: Bench, execution: str, known: Mapping[str, int] | None = None) -> list[Row]:
    """Look as a server does at which somebody looks on."""
    found = bench.read(lambda reads: relayed(reads, Watching((), {execution: known or {}}), 0))
    return list(found.told[execution])


def heard(bench: Bench, execution: str, known: Mapping[str, int] | None = None) -> dict[str, str]:
    """Return the texts that come next, by their reply."""
    texts: dict[str, str] = {}
    for row in look(bench, execution, known):
        if row["reply"] is not None:
            texts[row["reply"]] = texts.get(row["reply"], "") + (decode(row["piece"]) if row["piece"] else "")
    return texts


@operation()
def looked_on_before(tx: Tx, rows: Sequence[tuple[str, int]]) -> Steps[None]:
    """Say that somebody looked on at executions, who counted until so long ago."""
    yield ()
    for execution, ago_ms in rows:
        times = {"now_ms": tx.now_ms - ago_ms - ONLOOKING_MS, "until_ms": tx.now_ms - ago_ms}
        tx.run("keep_relay_onlooker", **ref(execution)._asdict(), **times)
    return [None] * len(rows)


def onlooker(bench: Bench, execution: str, now_ms: int) -> Onlooker | None:
    """Return who looks on from elsewhere, as the server sees it that asks the model."""
    found = bench.read(lambda reads: relayed(reads, Watching([execution]), now_ms))
    return found.onlookers.get(execution)


def now_of(bench: Bench) -> int:
    with bench.store.write() as connection:
        return connection.now_ms


def test_a_text_is_read_from_wherever_it_is_known(bench: Bench) -> None:
    held = bench.owned()
    execution, reply = held.ref.execution, reply_of(held)
    assert [(row["holder"], row["head"], row["reply"]) for row in look(bench, execution)] == [("srv_1", 1, None)]
    say(bench, reply)
    assert heard(bench, execution) == {"rly_1": ""}, "it is known that a model is asked before it says anything"
    say(bench, reply, "Hello", " ☂\0\ud83d", begins=0)
    assert heard(bench, execution) == {"rly_1": "Hello ☂\0\ud83d"}
    assert heard(bench, execution, {"rly_1": 5}) == {"rly_1": " ☂\0\ud83d"}
    assert heard(bench, execution, {"rly_1": 9}) == {"rly_1": ""}
    assert heard(bench, execution, {"rly_0": 7}) == {"rly_1": "Hello ☂\0\ud83d"}, "that was another one"


def test_what_is_told_again_is_there_once(bench: Bench) -> None:
    held = bench.owned()
    reply = reply_of(held)
    for _ in range(2):
        bench.twice(tell_onlookers, Telling((), (reply,), (Piece(reply, 0, "Hello"),)))
        bench.twice(tell_onlookers, Telling((), (), (Piece(reply, 5, " you"),)))
    assert heard(bench, held.ref.execution) == {"rly_1": "Hello you"}


def test_a_long_text_is_read_a_part_at_a_time(bench: Bench) -> None:
    held = bench.owned()
    say(bench, reply_of(held), *("x" * 1_000 for _ in range(100)))
    first = heard(bench, held.ref.execution)["rly_1"]
    assert MOST_READ <= len(first) < MOST_READ + 1_000
    rest = heard(bench, held.ref.execution, {"rly_1": len(first)})["rly_1"]
    assert len(first) + len(rest) == 100_000


def test_another_attempt_takes_the_place_of_the_one_before(bench: Bench) -> None:
    held = bench.owned()
    say(bench, reply_of(held), "Hello")
    other = replace(reply_of(held, "rly_9"), address="turn 2/model")
    say(bench, other, "elsewhere")
    say(bench, reply_of(held, "rly_2", attempt=2), "Hi")
    assert heard(bench, held.ref.execution) == {"rly_2": "Hi", "rly_9": "elsewhere"}
    bench.do(tell_onlookers, Telling((other,)))
    assert heard(bench, held.ref.execution) == {"rly_2": "Hi"}


def test_nothing_is_told_of_what_is_recorded(bench: Bench) -> None:
    held = bench.owned()
    say(bench, reply_of(held), "Hello")
    bench.record(held, step("turn 0/other"))
    assert heard(bench, held.ref.execution) == {"rly_1": "Hello"}
    bench.record(held, step(ADDRESS))
    assert heard(bench, held.ref.execution) == {}, "though it is not yet taken away"


def test_nothing_is_told_of_what_an_earlier_holder_says(bench: Bench) -> None:
    execution = bench.started()
    [held] = bench.claim(lease_ms=0)
    say(bench, reply_of(held), "Hello")
    bench.clock.advance(1)
    assert bench.do(expire_owned, Sweep(10)) == 1
    [again] = bench.claim(holder="srv_2")
    assert again.fence > held.fence
    assert heard(bench, execution) == {}
    say(bench, reply_of(again, "rly_2", attempt=2), "Hi")
    say(bench, reply_of(held, "rly_3"), "is anybody there?")
    assert heard(bench, execution) == {"rly_2": "Hi"}, "nor does it take away what the later one tells"


def test_who_looks_on_counts_for_a_while_and_again_as_the_same(bench: Bench) -> None:
    execution = bench.owned().ref.execution
    now_ms = now_of(bench)
    assert onlooker(bench, execution, now_ms) is None
    bench.do(say_onlookers, [execution, "exe_unknown"])
    first = onlooker(bench, execution, now_ms)
    assert first is not None
    assert first.head == 1
    [row] = look(bench, execution)
    assert row["until_ms"] == first.since_ms + ONLOOKING_MS
    assert onlooker(bench, execution, row["until_ms"]) is None
    bench.clock.advance(1)
    bench.do(say_onlookers, [execution])
    assert onlooker(bench, execution, now_ms) == first


def test_what_a_dead_server_told_is_swept_and_nothing_that_somebody_looks_on_at(bench: Bench) -> None:
    dead, lately = bench.owned(), bench.owned()
    for held in (dead, lately):
        say(bench, replace(reply_of(held), id=held.ref.execution), "Hello")
    bench.do(looked_on_before, (lately.ref.execution, LEFT_MS // 2))
    assert not bench.read(lambda reads: any_left(reads, now_of(bench)))
    bench.do(looked_on_before, (dead.ref.execution, 2 * LEFT_MS))
    assert bench.read(lambda reads: any_left(reads, now_of(bench)))
    bench.do(sweep_relay, None)
    assert heard(bench, dead.ref.execution) == {}
    assert heard(bench, lately.ref.execution) == {lately.ref.execution: "Hello"}
    assert not bench.read(lambda reads: any_left(reads, now_of(bench)))


def test_nobody_who_looks_for_nothing_asks_anything(bench: Bench) -> None:
    class Nothing:
        def rows(self, query: str, **_params: object) -> list[Row]:
            raise AssertionError(query)

    assert relayed(Nothing(), Watching(), 0) == Relayed()  # type: ignore[arg-type]


def test_a_database_keeps_no_log_of_it_and_waits_for_no_disk(postgres_database: str) -> None:
    store = open_postgres(postgres_database, random=SystemRandom())
    fleeting = store.fleeting()
    try:
        with fleeting.write() as link:
            assert link.execute("SHOW synchronous_commit") == [{"synchronous_commit": "off"}]
        with store.write() as link:
            assert link.execute("SHOW synchronous_commit") == [{"synchronous_commit": "on"}]
            kinds = link.execute("SELECT relname, relpersistence FROM pg_class WHERE relname LIKE 'relay_%'")
        assert {row["relpersistence"] for row in kinds if row["relname"] in TABLES} == {"u"}
    finally:
        fleeting.close()
        store.close()


def test_after_a_crash_of_the_database_it_is_empty_and_all_else_is_there() -> None:
    binaries = postgres_server.find_binaries()
    assert binaries, "no PostgreSQL binaries"
    with postgres_server.running_server(binaries) as server:
        bench = Bench(open_postgres(server.address, random=SystemRandom()), FakeClock())
        held = bench.owned()
        bench.do(say_onlookers, [held.ref.execution])
        say(bench, reply_of(held), "Hello")
        assert shards(server.address) == [ref(held.ref.execution).shard] * 3
        server.crash()
        server.start()
        assert shards(server.address) == []
        owner = bench.row("owner_of", **held.ref._asdict())
        assert owner is not None
        assert owner["fence"] == held.fence
        assert check_store(server.address).problems == []
        bench.store.close()


def shards(address: str) -> list[int]:
    """Return the shards of all rows."""
    with psycopg.connect(address) as database:
        found = [database.execute(f"SELECT shard FROM {table}".encode()).fetchall() for table in TABLES]
    return [shard for rows in found for (shard,) in rows]
