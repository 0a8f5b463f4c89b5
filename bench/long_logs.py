"""Show an execution of a hundred thousand events by the page, on SQLite or, with `--store`, PostgreSQL.

Prints, for each way to look at it, the time of a page and the memory that a page takes, and what a conversation of many
turns takes in the store. Exit code 1 if a page took longer or more memory than its bar, or if a later turn is stored
larger than an early one.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from search import opened

from perdure.agent.spec import AgentSpec, LimitsEntry, spec_to_json
from perdure.core import codec
from perdure.core.items import ScheduleTask, StepDone
from perdure.core.views import EffectFilter, StartRequest
from perdure.core.work import Lane, LeaseRequest, Report
from perdure.engine.claim import Claim, Claimed, claim
from perdure.engine.complete import Completion, complete
from perdure.engine.gist import Gists
from perdure.engine.lease import Lease, lease
from perdure.engine.ledger import effects_view, log_page
from perdure.engine.park import Finish, Released, finish
from perdure.engine.query import PAGE, events_page, execution_view
from perdure.engine.query_tasks import tasks_view
from perdure.engine.record import Record, record
from perdure.engine.start import Start, start
from perdure.models.catalog import Catalog
from perdure.models.scripted import call, say
from perdure.server.node import Node, Parts
from perdure.store.batch import Entry
from perdure.store.protocol import Reads, Store
from perdure.store.sqlite import open_sqlite
from perdure.store.writer import InlineWriter
from perdure.system import SystemClock, SystemRandom

PAGE_BAR_MS = 1_000.0
PAGE_BAR_MB = 64.0
COMPANY = "default"
AGENT = "clerk"
AT_ONCE = 500
SPEC: dict[str, Any] = {"name": AGENT, "model": "scripted/clerk", "instructions": ""}

Pages = Callable[[Reads], Iterator[int]]
"""Reads one page after the other, and yields how much was on each."""


def reply(n: int) -> StepDone:
    """Return a turn with half a kilobyte of text."""
    usage = {"input_tokens": 900, "output_tokens": 120}
    said = {
        "text": f"{n} " + "word " * 100,
        "tool_calls": [],
        "finish_reason": "stop",
        "usage": usage,
        "cost_usd": 0.01,
    }
    value = {"outcome": "replied", "requests": 1, "reply": {**said, "model": "m"}}
    return StepDone(f"turn {n}/model", "d", codec.encode({"value": value}))


def effect(n: int) -> ScheduleTask:
    """Return a call that acts."""
    given = {"digest": "d", "agent": AGENT, "tool": "post", "queue": "default", "args": {"n": n}, "timeout_ms": 0}
    return ScheduleTask(f"turn {n}/tool/post", delivery="at_least_once", max_attempts=1, **given)


def fill(store: Store, events: int, *, ended: bool = False) -> str:
    """Make an execution of about that many events, or some more: four replies for each acting call. Return its id."""
    writer = InlineWriter(store, publish=lambda notes: None)
    spec = codec.encode(SPEC)
    execution = "exe_long"
    writer.call(start, Start(execution, COMPANY, AGENT, codec.digest(SPEC), spec, '"go"', None))
    [held] = writer.call(claim, Claim("srv", 1, 3_600_000))
    for first in range(0, events * 4 // 6, AT_ONCE):
        _append(writer, held, [reply(n) for n in range(first, first + AT_ONCE)])
    for first in range(0, events // 6, AT_ONCE):
        _append(writer, held, [effect(n) for n in range(first, first + AT_ONCE)])
        _work(writer, first)
    if ended:
        with store.read() as reads:
            last = execution_view(reads, COMPANY, execution, Gists()).last_seq
        done = writer.call(finish, Finish(held.ref, held.fence, last, 0, "complete", codec.encode({"output": "done"})))
        assert isinstance(done, Released), done
    return execution


def _append(writer: InlineWriter, held: Claimed, items: Sequence[Any]) -> None:
    writer.call(record, Record(held.ref, held.fence, 0, tuple(items)))


def _work(writer: InlineWriter, batch: int) -> None:
    """Do all calls that wait."""
    wish = LeaseRequest("wrk", f"n{batch}", (Lane(AGENT, "post"),), AT_ONCE, 60_000)
    for task in writer.call(lease, Lease(COMPANY, wish)):
        report = Report(task.execution, task.address, task.fence, "completed", {"id": 1})
        writer.submit(complete, Completion(COMPANY, report), _Nobody())
    while writer.run_batch():
        pass


class _Nobody:
    """Whoever asks for nothing back."""

    def settle(self, entries: Sequence[Entry]) -> None:
        return


def ways(execution: str) -> dict[str, Pages]:
    """Return the ways to look at an execution."""

    def events(reads: Reads) -> Iterator[int]:
        after = 0
        while page := events_page(reads, execution, after, PAGE):
            yield len(page)
            after = page[-1].seq

    def log(reads: Reads) -> Iterator[int]:
        after = 0
        while links := log_page(reads, COMPANY, execution, after=after, limit=PAGE).links:
            yield len(links)
            after = links[-1].seq

    def tasks(reads: Reads) -> Iterator[int]:
        after = 0
        while page := tasks_view(reads, COMPANY, execution, after=after):
            yield len(page)
            after = page[-1].scheduled_seq

    def effects(reads: Reads) -> Iterator[int]:
        after = 0
        while page := effects_view(reads, COMPANY, EffectFilter(execution, after=after)):
            yield len(page)
            after = page[-1].seqs[0]

    return {"events": events, "log with hashes (prove)": log, "tool calls": tasks, "effects": effects}


def measure(store: Store, pages: Pages) -> tuple[list[float], float, int]:
    """Return the milliseconds of each page, the most memory that was held, in megabytes, and how much there was."""
    took: list[float] = []
    total = 0
    with store.read() as reads:
        found = pages(reads)
        began = time.perf_counter()
        for count in found:
            took.append((time.perf_counter() - began) * 1000)
            total += count
            began = time.perf_counter()
    return took, peak_mb(lambda: _few(store, pages)), total


def _few(store: Store, pages: Pages) -> None:
    with store.read() as reads:
        for _page, _ in zip(pages(reads), range(5), strict=False):
            pass


def peak_mb(work: Callable[[], object]) -> float:
    """Return the most memory that Python held for `work`, in megabytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def judge_pages(store: Store, execution: str) -> bool:
    """Measure the ways to look at it by the page; return whether all are within their bars."""
    good = True
    for name, pages in ways(execution).items():
        took, held, total = measure(store, pages)
        good = good and max(took) <= PAGE_BAR_MS and held <= PAGE_BAR_MB
        figures = f"p50 {median(took):7.1f} ms   slowest {max(took):7.1f} ms   at most {held:5.1f} MB"
        print(f"{name:26} {figures}   ({total:,} in {len(took)} pages)")
    return good


def judge_show(store: Store, execution: str) -> bool:
    """Show it, and show it again; return whether that took no more memory than a page may."""
    gists = Gists()
    took: list[float] = []
    for _ in range(2):
        began = time.perf_counter()
        _show(store, execution, gists)
        took.append((time.perf_counter() - began) * 1000)
    held = peak_mb(lambda: _show(store, execution, Gists()))
    print(f"{'show':26} first {took[0]:5.0f} ms   again {took[1]:11.1f} ms   at most {held:5.1f} MB")
    return took[1] <= PAGE_BAR_MS and held <= PAGE_BAR_MB


def _show(store: Store, execution: str, gists: Gists) -> None:
    with store.read() as reads:
        execution_view(reads, COMPANY, execution, gists)


def judge_stream(store: Store, execution: str, events: int) -> bool:
    """Follow it from its beginning; return whether that took no more memory than a page may."""
    node = Node(store, Parts(Catalog(), SystemClock(), SystemRandom()), close=lambda: None)

    async def follow() -> float:
        began = time.perf_counter()
        async for event in node.api(COMPANY).follow(execution):
            if event.seq >= events:
                break
        return time.perf_counter() - began

    try:
        seconds = asyncio.run(follow())
        held = peak_mb(lambda: asyncio.run(follow()))
    finally:
        node.stop()
    print(f"{'followed from the start':26} {events / seconds:,.0f} events a second   at most {held:5.1f} MB")
    return held <= PAGE_BAR_MB


def judge_turns(turns: int) -> bool:
    """Hold a conversation; return whether its last turns are stored no larger than its first ones."""
    answer = call("nothing", {"text": "word " * 40})
    models = Catalog(scripted={"talk": [*([answer] * turns), say("done")]})
    spec = spec_to_json(AgentSpec("talker", "scripted/talk", "Talk.", limits=LimitsEntry(turns=turns + 2)))
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        store = open_sqlite(Path(folder) / "talk.db", clock=SystemClock(), random=SystemRandom())
        node = Node(store, Parts(models, SystemClock(), SystemRandom()))
        node.start()
        try:
            sizes = asyncio.run(_talk(node, spec))
        finally:
            node.stop()
    early, late = (sum(part) / len(part) for part in (sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :]))
    print(f"{'a turn of ' + str(turns):26} {early:,.0f} bytes in the first half, {late:,.0f} in the second")
    return late <= early * 1.1


async def _talk(node: Node, spec: dict[str, Any]) -> list[int]:
    """Return the size of each event of a whole conversation, as it is stored."""
    api = node.api(COMPANY)
    execution = (await api.start(StartRequest(spec, "go"))).id
    await api.wait(execution)
    sizes: list[int] = []
    while links := (await api.log(execution, after=len(sizes))).links:
        sizes += [len(link.data) for link in links]
    return sizes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--store", metavar="DSN", help="an empty PostgreSQL database")
    parser.add_argument("--no-bar", action="store_true", help="only measure: the exit code is 0")
    options = parser.parse_args()
    with opened(options.store) as store:
        execution = fill(store, options.events)
        good = [judge_pages(store, execution), judge_show(store, execution)]
        good.append(judge_stream(store, execution, options.events // 2))
    good.append(judge_turns(options.turns))
    print(f"bars: {PAGE_BAR_MS:.0f} ms and {PAGE_BAR_MB:.0f} MB a page; a late turn as small as an early one")
    return 0 if all(good) or options.no_bar else 1


if __name__ == "__main__":
    sys.exit(main())
