"""Search in a room that holds very much, a page at a time, on SQLite or, with `--store`, PostgreSQL.

Half of it are messages and half passages of files, in a language whose n-th word is n times as rare as its first. It is
searched twice: alone in its store, and beside a room as large that the searcher is not in, which has to cost nothing.
Prints the middle and the slowest of many pages. Exit code 1 if the other room costs more than the bar.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random
from statistics import median

from search import gather_statistics, opened

from perdure.core.room_search import Source, entries_of
from perdure.core.rooms import Actor, Invite, Join, written_id
from perdure.engine.room_search import Search, search
from perdure.engine.rooms import MakeRoom, Write, make_room, room_ref, write_in_room
from perdure.store.protocol import EVERY_COMPANY, Store
from perdure.store.tx import Tx
from perdure.store.writer import InlineWriter

BAR = 1.5
"""Times that pages may take beside another room, over those that they take alone."""
ANN, BOB = Actor("acme", "ann"), Actor("globex", "bob")
WORDS = 20_000
LENGTH = 60
"""Words of a text."""
BATCH = 2_000
ROUNDS = 9
QUERIES = {
    "a word of its own": "own77",
    "a word that is nowhere": "nowhere",
    "two rare words": "w9001 w15003",
    "a rare and a common one": "w1 w9001",
    "a common word": "w1",
    "a sentence": " ".join(f"w{number**2}" for number in range(1, 31)),
}


def text_of(chance: Random, number: int) -> str:
    """Return a text that has one word of its own."""
    return " ".join((*(f"w{int(WORDS ** chance.random())}" for _ in range(LENGTH)), f"own{number}"))


def make(store: Store, name: str, *guests: Actor) -> str:
    """Make a room of acme's that others are in."""
    writer, room = InlineWriter(store, publish=lambda _: None), written_id("room", ANN.company, name)
    writer.call(make_room, MakeRoom(room, name, ANN))
    for guest in guests:
        writer.call(write_in_room, Write(room, ANN, Invite(guest.company)))
        writer.call(write_in_room, Write(room, guest, Join()))
    return room


def fill(store: Store, room: str, texts: int) -> None:
    """Put texts into a room, as the engine would leave them, its ledger apart."""
    chance = Random(room)  # noqa: S311 - texts, and the same at each run
    for first in range(10, texts + 10, BATCH):
        some = {number: text_of(chance, number) for number in range(first, min(first + BATCH, texts + 10))}
        with store.write() as connection:
            tx = Tx(connection)
            tx.speak_for(EVERY_COMPANY)
            tx.lock([room_ref(room)])
            put(tx, room, some)
            ledger = tx.execution(room)
            assert ledger is not None
            ledger.next_seq, ledger.changed = max(some) + 1, True
            tx.flush()


def put(tx: Tx, room: str, texts: dict[int, str]) -> None:
    """Put each second text in as a message, and the others as passages of one file."""
    whose = {"room": room, "company": ANN.company}
    by = {"author": ANN.name, "kind": "person", "digest": "", "now_ms": 0}
    said = {number: text for number, text in texts.items() if number % 2}
    read = {number: text for number, text in texts.items() if not number % 2}
    message = {**whose, **by, "addressed": "[]", "thread": "", "hops": 0, "steered_by": "[]"}
    tx.many("insert_room_message", [{**message, "id": f"msg_{n}", "seq": n, "text": text} for n, text in said.items()])
    seq = min(texts)
    file = f"fil_{seq}"
    facts = {"name": file, "version": 1, "media": "text/plain", "size": 1, "blob": "", "text_state": "text"}
    tx.run("insert_room_file", **whose, **by, **facts, id=file, seq=seq)
    tx.many("insert_room_passage", [{**whose, "file": file, "number": n, "text": text} for n, text in read.items()])
    entries = entries_of(Source(room, ANN.company, "file", file, seq), read)
    for n, text in said.items():
        entries += entries_of(Source(room, ANN.company, "message", f"msg_{n}", n), {0: text})
    tx.many("insert_room_entry", sorted(entries, key=lambda one: one["number"]))


def measure(store: Store, room: str, query: str) -> tuple[list[float], int]:
    """Return the milliseconds of first and second pages, and how much was found."""
    took: list[float] = []
    found, cursor = 0, ""
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with store.read() as reads:
            reads.speak_for(BOB.company)
            page = search(reads, BOB.company, room, Search(query, limit=20, cursor=cursor))
        took.append((time.perf_counter() - began) * 1000)
        found, cursor = page.found, "" if cursor else page.cursor or ""
    return took, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--store", metavar="DSN", help="an empty PostgreSQL database, of an ordinary role")
    parser.add_argument("--no-bar", action="store_true", help="only print")
    options = parser.parse_args()
    took: dict[str, float] = {}
    with opened(options.store) as store:
        for name in ("alone", "beside another room"):
            began = time.perf_counter()
            room = make(store, name, *([BOB] if name == "alone" else []))
            fill(store, room, options.texts)
            print(f"{options.texts:,} texts put into a room in {time.perf_counter() - began:.1f} s")
            if options.store:
                gather_statistics(options.store)
            took[name] = sum(shown(store, name, *one) for one in QUERIES.items())
    times = took["beside another room"] / took["alone"]
    print(f"beside another room pages took {times:.2f} times as long as alone (bar {BAR:.2f})")
    return int(times > BAR and not options.no_bar)


def shown(store: Store, name: str, what: str, query: str) -> float:
    """Measure and print; return the milliseconds of the middle page."""
    took, found = measure(store, written_id("room", ANN.company, "alone"), query)
    times = f"p50 {median(took):8.2f} ms   slowest {max(took):8.2f} ms"
    print(f"{name:20} {what:24} {times}   {found:7,} found")
    return median(took)


if __name__ == "__main__":
    sys.exit(main())
