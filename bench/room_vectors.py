"""Search by meaning: questions in other words than the answers, names and numbers, and what it costs in large rooms.

The questions, and the passages that answer them, stand in questions.txt. They are searched for by words alone, by
vectors alone, and as a server with the extra does it; what is counted is how often the passage comes first, or among
the first three. Then queries are timed in rooms of several sizes, by words alone and with vectors, on SQLite or, with
`--store`, PostgreSQL. Exit code 1 if the two together find a name or number less often than words, or, but for one
question in twenty, an answer less often than vectors: some are right, and not near enough to be shown.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from room_search import ANN, BOB, fill, make
from search import gather_statistics, opened

from perdure.core.ports import Embedder
from perdure.core.room_search import words_of
from perdure.core.rooms import Post, Written
from perdure.engine.room_search import Search, search
from perdure.engine.room_vectors import MOST_COMPARED, KeepVectors, Turn, keep_vectors, without_vector
from perdure.engine.rooms import Write, write_in_room
from perdure.models.vectors import installed_embedder
from perdure.store.protocol import Store
from perdure.store.writer import InlineWriter

QUESTIONS = Path(__file__).parent / "questions.txt"
BATCH = 500
ROUNDS = 15
QUERIES = {"a sentence": " ".join(f"w{number**2}" for number in range(1, 13)), "a word that is nowhere": "nowhere"}


@dataclass
class Passage:
    """A text and what is asked of it."""

    text: str
    questions: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


Finder = Callable[[str], Sequence[str]]
"""Returns the first texts for a query."""


def passages() -> list[Passage]:
    found: list[Passage] = []
    for line in QUESTIONS.read_text(encoding="utf-8").splitlines():
        match line[:2]:
            case "? ":
                found[-1].questions.append(line[2:])
            case "! ":
                found[-1].names.append(line[2:])
            case "# " | "":
                pass
            case _:
                found.append(Passage(line))
    return found


def judge(all_: Sequence[Passage], finders: dict[str, Finder]) -> bool:
    """Ask, count and print; say whether the two together pass the bar."""
    first: dict[tuple[str, str], int] = {}
    for part, some in (("that chose the rules", all_[::2]), ("that judge them", all_[1::2])):
        for kind in ("questions", "names"):
            asked = [(query, one.text) for one in some for query in getattr(one, kind)]
            for name, finder in finders.items():
                found = [list(finder(query)) for query, _ in asked]
                ranks = [one.index(text) if text in one else 99 for one, (_, text) in zip(found, asked, strict=True)]
                first[kind, name] = first.get((kind, name), 0) + sum(rank == 0 for rank in ranks)
                top = f"first {sum(rank == 0 for rank in ranks):3}   among three {sum(rank < 3 for rank in ranks):3}"
                print(f"{kind:10} {part:22} {name:10} {top}   of {len(asked)}")
    together = [first[kind, "together"] for kind in ("names", "questions")]
    spare = sum(len(one.questions) for one in all_) // 20
    return together[0] >= first["names", "words"] and together[1] + spare >= first["questions", "vectors"]


def finders(store: Store, room: str, said: dict[str, str], embedder: Embedder) -> dict[str, Finder]:
    """Return the ways to find what was said, by the ids of messages."""
    texts = list(said.values())
    kept = embedder.vectors([" ".join(words_of(text)) for text in texts])

    def searched(by: Embedder | None) -> Finder:
        def find(query: str) -> list[str]:
            with store.read() as reads:
                reads.speak_for(BOB.company)
                page = search(reads, BOB.company, room, Search(query, limit=3), by)
            return [said[one.id] for one in page.items]

        return find

    def by_vectors(query: str) -> list[str]:
        likeness = embedder.likeness(" ".join(words_of(query)), kept)
        return [texts[at] for at in sorted(range(len(texts)), key=lambda at: -likeness[at])[:3]]

    return {"words": searched(None), "vectors": by_vectors, "together": searched(embedder)}


def embed_all(store: Store, embedder: Embedder) -> tuple[int, float]:
    """Give all that has none a vector, as a server does; return how many, and in how many seconds."""
    writer, count, began = InlineWriter(store, publish=lambda _: None), 0, time.perf_counter()
    while True:
        with store.read() as reads:
            found, _ = without_vector(reads, embedder.model, Turn(), BATCH)
        if not found:
            return count, time.perf_counter() - began
        vectors = dict(zip(found, embedder.vectors(list(found.values())), strict=True))
        count += writer.call(keep_vectors, KeepVectors(embedder.model, vectors))


def timed(store: Store, room: str, query: str, embedder: Embedder | None) -> tuple[float, float, int]:
    """Return the middle milliseconds of a first page, those of this process's processor, and how much was found."""
    took: list[float] = []
    worked: list[float] = []
    found = 0
    for _ in range(ROUNDS):
        began, work = time.perf_counter(), time.thread_time()
        with store.read() as reads:
            reads.speak_for(BOB.company)
            found = search(reads, BOB.company, room, Search(query, limit=20), embedder).found
        took.append((time.perf_counter() - began) * 1000)
        worked.append((time.thread_time() - work) * 1000)
    return median(took), median(worked), found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, MOST_COMPARED, 100_000])
    parser.add_argument("--store", metavar="DSN", help="an empty PostgreSQL database, of an ordinary role")
    parser.add_argument("--no-bar", action="store_true", help="only print")
    options = parser.parse_args()
    embedder = installed_embedder()
    if embedder is None:
        print("the extra `vectors` is not installed: 0 questions were asked")
        return 0
    began = time.perf_counter()
    embedder.vectors(["load"])
    print(f"the model {embedder.model!r} was loaded in {(time.perf_counter() - began) * 1000:.0f} ms")
    with opened(options.store) as store:
        good = judge_in(store, embedder)
        for size in options.sizes:
            measure(store, embedder, size, options.store)
    print(f"most memory that was held: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
    print(f"together as good as the better of both, but for one in twenty: {'yes' if good else 'no'}")
    return int(not good and not options.no_bar)


def judge_in(store: Store, embedder: Embedder) -> bool:
    room = make(store, "questions", BOB)
    writer = InlineWriter(store, publish=lambda _: None)
    said: dict[str, str] = {}
    for number, one in enumerate(passages()):
        done = writer.call(write_in_room, Write(room, ANN, Post(one.text, key=str(number))))
        assert isinstance(done, Written)
        said[done.id] = one.text
    embed_all(store, embedder)
    return judge(passages(), finders(store, room, said, embedder))


def measure(store: Store, embedder: Embedder, size: int, address: str | None) -> None:
    """Fill a room of a size, give it its vectors, search it, and print."""
    room = make(store, f"of {size}", BOB)
    fill(store, room, size)
    count, seconds = embed_all(store, embedder)
    if address:
        gather_statistics(address)
    print(f"{count:,} texts of 60 words were given their vectors in {seconds:.1f} s: {count / seconds:,.0f} a second")
    for what, query in QUERIES.items():
        for how, by in (("words", None), ("together", embedder)):
            middle, work, found = timed(store, room, query, by)
            times = f"p50 {middle:8.2f} ms   of them at work {work:8.2f} ms"
            print(f"{size:9,} texts   {what:24} {how:10} {times}   {found:7,} found")


if __name__ == "__main__":
    sys.exit(main())
