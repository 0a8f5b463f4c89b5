"""The engine's operations on a real store, a batch at a time, under a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from perdure.core import codec
from perdure.core.events import Event
from perdure.core.ids import shard_of
from perdure.core.items import Item, OpenApproval, ScheduleTask, StepDone
from perdure.core.work import Answer, Begin, Failure, Held, Lane, LeasedTask, LeaseRequest, Report
from perdure.engine.begin import Beginning, begin
from perdure.engine.claim import Claim, Claimed, claim
from perdure.engine.complete import Completion, complete
from perdure.engine.lease import Lease, lease
from perdure.engine.park import Park, park
from perdure.engine.query import events_between
from perdure.engine.record import Record, record
from perdure.engine.signal import Signal, signal
from perdure.engine.start import Start, start
from perdure.engine.sweep import Sweep, expire_tasks
from perdure.store.batch import Entry
from perdure.store.operation import Operation
from perdure.store.protocol import Reads, Ref, Row, Store
from perdure.store.sqlite import SqliteStore, open_sqlite
from perdure.store.tx import Note
from perdure.store.writer import InlineWriter, outcome
from perdure.testing.clock import FakeClock, SeededRandom
from which_store import open_store

T = TypeVar("T")

Outcome = Literal["completed", "failed", "cancelled"]
Verb = Literal["send", "stop", "pause", "resume", "cancel"]

COMPANY = "default"
AGENT = "clerk"
HOLDER = "srv_1"
WORKER = "wrk_1"
SPEC: Mapping[str, Any] = {"name": AGENT, "model": "scripted/clerk", "instructions": ""}


class _Nobody:
    def settle(self, entries: Sequence[Entry]) -> None:
        return


@dataclass
class Bench:
    """One store and its writer."""

    store: Store
    clock: FakeClock
    notes: list[Note] = field(default_factory=list)
    """Every hint given so far."""
    _births: int = 0

    def __post_init__(self) -> None:
        self.writer = InlineWriter(self.store, publish=self.notes.extend)

    def do(self, operation: Operation[Any, T], row: Any) -> T:
        """Run one row in a batch of its own."""
        return self.writer.call(operation, row)

    def twice(self, operation: Operation[Any, T], row: Any) -> tuple[T, T]:
        """Run the same row in two batches: the first answer was lost."""
        return self.do(operation, row), self.do(operation, row)

    def together(self, *rows: tuple[Operation[Any, Any], Any]) -> list[Any]:
        """Run rows in one batch, in this order of operations, and return their results."""
        entries = [self.writer.submit(operation, row, _Nobody()) for operation, row in rows]
        assert self.writer.run_batch() == len(entries), "they do not fit into one batch"
        return [outcome(entry) for entry in entries]

    def read(self, query: Callable[[Reads], T]) -> T:
        """Look at what is committed."""
        with self.store.read() as reads:
            return query(reads)

    def row(self, query: str, **params: Any) -> Row | None:
        return self.read(lambda reads: reads.row(query, **params))

    # -- executions ----------------------------------------------------------------------------------------------------

    def new(
        self, *, company: str = COMPANY, key: str | None = None, input: str = '"hi"', id: str = "", **more: Any
    ) -> Start:
        """Return a start nobody made yet."""
        self._births += 1
        spec = codec.encode(dict(SPEC))
        execution = id or f"exe_{self._births:04}"
        return Start(execution, company, AGENT, codec.digest(dict(SPEC)), spec, input, key, **more)

    def started(self, **options: Any) -> str:
        """Start an execution and return its id."""
        row = self.new(**options)
        self.do(start, row)
        return row.id

    def claim(self, *, holder: str = HOLDER, limit: int = 10, lease_ms: int = 30_000) -> list[Claimed]:
        return self.do(claim, Claim(holder, limit, lease_ms))

    def owned(self, **options: Any) -> Claimed:
        """Start an execution and claim it."""
        execution = self.started(**options)
        return next(one for one in self.claim() if one.ref.execution == execution)

    def record(self, held: Claimed, *items: Item, seen: int | None = None) -> Any:
        last = self.execution(held.ref.execution)["next_seq"] - 1
        return self.do(record, Record(held.ref, held.fence, last if seen is None else seen, items))

    def park(self, held: Claimed, *, seen: int | None = None, active_ms: int = 0) -> Any:
        last = self.execution(held.ref.execution)["next_seq"] - 1
        return self.do(park, Park(held.ref, held.fence, last if seen is None else seen, active_ms))

    def waiting(self, *items: Item, **options: Any) -> Claimed:
        """Start an execution, record what it waits for, and park it."""
        held = self.owned(**options)
        self.record(held, *items)
        self.park(held)
        return held

    def execution(self, execution: str) -> Row:
        """Return the row, whatever its company."""
        wanted = codec.encode({execution: shard_of(execution)})
        # Where several servers write, the query locks what it reads, which a reader may not.
        with self.store.write() if self.store.shared else self.store.read() as connection:
            found = connection.row("lock_executions", wanted=wanted)
        assert found is not None
        return found

    def state(self, execution: str) -> tuple[str, str]:
        """Return (state, ownership)."""
        row = self.execution(execution)
        return row["state"], row["ownership"]

    def log(self, execution: str) -> list[Event]:
        return self.read(lambda reads: events_between(reads, execution, 0, 10_000))

    def kinds(self, execution: str) -> list[str]:
        return [str(event.kind) for event in self.log(execution)]

    def last(self, execution: str) -> Event:
        return self.log(execution)[-1]

    def ready(self) -> list[str]:
        """Return the executions that anybody may claim."""
        everything = {"oldest": 0, "newest": 1_000, "limit": 1_000}

        def found(reads: Reads) -> list[str]:
            companies = [row["company"] for row in reads.rows("ready_companies", after="", limit=1_000)]
            rows = [row for one in companies for row in reads.rows("ready_executions", company=one, **everything)]
            return [row["execution"] for row in rows if not row["onward"]]

        return self.read(found)

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def task(self, execution: str, address: str = "tool") -> Row:
        found = self.row("task", shard=shard_of(execution), execution=execution, address=address)
        assert found is not None
        return found

    def lease(self, worker: str = WORKER, nonce: str = "", **options: Any) -> list[LeasedTask]:
        """Ask for tasks; without a nonce, for others than before."""
        self._births += 1
        return self.do(lease, wish(worker, nonce or f"n{self._births}", **options))

    def report(self, held: LeasedTask, outcome: Outcome = "completed", **options: Any) -> Answer:
        return self.do(complete, completion(held, outcome, **options))

    def begin(self, held: LeasedTask, nonce: str = "b") -> Answer:
        return self.do(begin, beginning(held, nonce))

    def begun(self, item: ScheduleTask | None = None, **options: Any) -> LeasedTask:
        """Start an execution that waits for one effect, reserve it, and commit its claim."""
        held = self.leased(item or once(), **options)
        assert self.begin(held) is Answer.ACCEPTED
        return held

    def uncertain(self) -> LeasedTask:
        """Start an execution with an effect whose holder fell silent after it began."""
        held = self.begun()
        self.expire(31)
        assert self.task(held.execution)["state"] == "uncertain"
        return held

    def expire(self, seconds: float) -> int:
        """Let time pass and end the leases that ran out in it."""
        self.clock.advance(seconds)
        return self.do(expire_tasks, Sweep(100))

    def signal(self, execution: str, verb: Verb, **options: Any) -> Any:
        return self.do(signal, request(execution, verb, **options))

    def leased(self, item: ScheduleTask | None = None, **options: Any) -> LeasedTask:
        """Start an execution that waits for one task, and reserve it."""
        held = self.waiting(item or task())
        return next(one for one in self.lease(**options) if one.execution == held.ref.execution)


class FileBench(Bench):
    """A bench over a file, whatever other stores are in."""

    store: SqliteStore


def completion(
    held: LeasedTask,
    outcome: Outcome = "completed",
    *,
    value: Any = None,
    failure: Failure | None = None,
    fence: int | None = None,
    company: str = COMPANY,
) -> Completion:
    """Return a worker's report about a task."""
    given = held.fence if fence is None else fence
    return Completion(company, Report(held.execution, held.address, given, outcome, value, failure))


def beginning(held: LeasedTask, nonce: str = "b", *, company: str = COMPANY) -> Beginning:
    """Return a worker's wish to start the body of a task."""
    return Beginning(company, Begin(held.execution, held.address, held.fence, nonce))


def named(held: LeasedTask) -> Held:
    """Return a task as its holder names it."""
    return Held(held.execution, held.address, held.fence)


def request(execution: str, verb: Verb, *, company: str = COMPANY, **options: Any) -> Signal:
    """Return a request to an execution."""
    return Signal(company, execution, verb, **options)


def wish(
    worker: str = WORKER,
    nonce: str = "n",
    *,
    company: str = COMPANY,
    slots: int = 10,
    lease_ms: int = 30_000,
    lanes: tuple[Lane, ...] = (Lane(AGENT, "post"),),
) -> Lease:
    """Return a worker's wish for tasks."""
    return Lease(company, LeaseRequest(worker, nonce, lanes, slots, lease_ms))


def task(address: str = "tool", **options: Any) -> ScheduleTask:
    """Return a tool call: `post`, at least once, three tries two seconds apart."""
    given: dict[str, Any] = {
        "digest": "d",
        "agent": AGENT,
        "tool": "post",
        "queue": "default",
        "args": {"n": 1},
        "delivery": "at_least_once",
        "max_attempts": 3,
        "timeout_ms": 0,
        **options,
    }
    return ScheduleTask(address, **given)


def once(address: str = "tool", **options: Any) -> ScheduleTask:
    """Return a tool call that may act at most once."""
    return task(address, **{"delivery": "at_most_once", "max_attempts": 1, **options})


def step(address: str = "turn 1/model", value: str = "1") -> StepDone:
    return StepDone(address, "d", f'{{"value":{value}}}')


def ask(address: str = "tool/approval", id: str = "apr_1") -> OpenApproval:
    return OpenApproval(address, "d", id, "post", {"n": 1})


def ref(execution: str) -> Ref:
    return Ref(shard_of(execution), execution)


@contextmanager
def bench_in(folder: Path) -> Iterator[Bench]:
    """Open a bench over the store in a folder, there or not."""
    clock = FakeClock()
    store = open_store(folder / "p.db", clock=clock, random=SeededRandom())
    try:
        yield Bench(store, clock)
    finally:
        store.close()


@contextmanager
def file_bench_in(folder: Path) -> Iterator[FileBench]:
    """Open a bench over the file in a folder, for a test that is about files."""
    clock = FakeClock()
    store = open_sqlite(folder / "p.db", clock=clock, random=SeededRandom())
    try:
        yield FileBench(store, clock)
    finally:
        store.close()
