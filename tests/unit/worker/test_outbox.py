"""A result of an acting task is on the disk before it is first told, and off it once it is answered."""

from __future__ import annotations

import asyncio
import os
import resource
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_tasks import Fault, MemoryTasks
from perdure import file_lock
from perdure.core.work import Answer, Failure, Report
from perdure.errors import LimitExceeded, Unreachable
from perdure.system import SystemClock
from perdure.testing.clock import FakeClock
from perdure.wire.strict import MAX_CONTAINERS
from perdure.worker.outbox_file import (
    Kept,
    OutboxFile,
    keep_evidence,
    mark_of,
    parse,
    paths_of,
    record_of,
    refused,
)
from working import at_work, make_worker

pytestmark = pytest.mark.anyio


def number(n: int) -> int:
    return n


def kept(place: int = 1, *, queues: str = "str_1/default", value: object = "done", fence: int = 1) -> Kept:
    report = Report("exe_1", f"turn 1 / tool / {place}", fence, "completed", value)  # type: ignore[arg-type]
    return Kept(queues, "wrk_dead", report, "nonce")


def left_by_the_dead(folder: Path, *results: Kept, worker: str = "wrk_dead") -> Path:
    """Have a file as a killed worker leaves it: with results, and without its lock."""
    file = OutboxFile.create(folder, worker)
    file.append([record_of(one) for one in results], sync=True)
    file.close(remove=False)
    return folder / f"{worker}.outbox"


async def until(fact: Callable[[], bool]) -> None:
    """Return once a fact holds that the disk's thread brings about."""
    while not fact():
        await asyncio.to_thread(lambda: None)


def content_of(folder: Path) -> list[str]:
    return [one.report.address for path in paths_of(folder) for one in parse(path.read_bytes()).open]


# The file.


@given(st.integers(0, 3), st.binary(max_size=40))
def test_a_torn_tail_is_recognised_wherever_it_was_torn(whole: int, noise: bytes) -> None:
    lines = [record_of(kept(n)) for n in range(4)]
    torn = b"".join(lines[:whole]) + lines[whole][: len(noise) % len(lines[whole])]
    found = parse(torn)
    assert [one.report.address for one in found.open] == [kept(n).report.address for n in range(whole)]
    garbage = parse(torn + noise + b"\n" + record_of(kept(9)))
    assert garbage.open[-1] == kept(9), "what is written after a hole is found"
    assert garbage.strange == 0


def test_a_value_of_any_kind_comes_back_as_it_was() -> None:
    for value in ["\ud800", "line\nbreak\x00", 2**70, 1.5, None, {"a": [True, {}]}]:
        assert parse(record_of(kept(value=value))).open == (kept(value=value),)
    failed = Kept("q", "w", Report("exe_1", "a", 1, "failed", failure=Failure("tool_error", "no", True)))
    assert parse(record_of(failed)).open == (failed,)


def test_a_value_of_more_lists_than_a_request_may_hold_is_not_lost() -> None:
    one = kept(value=[[]] * (MAX_CONTAINERS + 1))
    assert parse(record_of(one)).open == (one,)


def test_an_answered_result_and_a_replaced_one_are_gone() -> None:
    data = record_of(kept(1)) + record_of(kept(2)) + mark_of(kept(1).key, Answer.ACCEPTED) + record_of(kept(2, value=3))
    assert parse(data).open == (kept(2, value=3),)


def test_records_of_another_version_are_not_lost() -> None:
    line = record_of(kept(1))
    body = line.split(b" ", 2)[2].rstrip(b"\n").replace(b'"report"', b'"answer_book"')
    found = parse(b"%08x %d %s\n" % (zlib.crc32(body), len(body), body))
    assert (found.open, found.torn, found.strange) == ((), 0, 1)


def test_the_file_is_private_and_locked_for_life(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "outbox"
    file = OutboxFile.create(folder, "wrk_1")
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert OutboxFile.adopt(file.path) is None
    file.close(remove=False)
    adopted = OutboxFile.adopt(file.path)
    assert adopted is not None
    adopted.close(remove=True)
    assert OutboxFile.adopt(file.path) is None


def test_an_heir_that_comes_too_late_gets_nothing(tmp_path: Path) -> None:
    path = left_by_the_dead(tmp_path, kept())
    descriptor = os.open(path, os.O_RDWR)
    path.unlink()
    path.write_bytes(b"")
    file_lock.take(descriptor)
    os.close(descriptor)
    adopted = OutboxFile.adopt(path)
    assert adopted is not None
    assert adopted.read().open == ()
    adopted.close(remove=True)


def test_evidence_can_be_asked_for_by_execution(tmp_path: Path) -> None:
    assert refused(tmp_path) == []
    keep_evidence(tmp_path, kept(1), "lease_lost", 7)
    with (tmp_path / "refused.jsonl").open("ab") as file:
        file.write(b'{"torn')
    assert [one.address for one in refused(tmp_path, "exe_1")] == ["turn 1 / tool / 1"]
    assert refused(tmp_path, "exe_2") == []


# The worker.


async def test_a_result_is_on_the_disk_before_it_is_first_told(tmp_path: Path) -> None:
    source = MemoryTasks(SystemClock())
    gate = asyncio.Event()
    source.faults["report"] = [Fault(hang=gate)]
    async with at_work(make_worker(source, SystemClock(), number, outbox=tmp_path)):
        address = source.add("number", {"n": 7})
        await source.until(lambda: source.in_flight["report"] == 1)
        assert content_of(tmp_path) == [address]
        gate.set()
        await source.reported(address)
    assert os.listdir(tmp_path) == [], "nothing is left of a worker that said all it had to say"


async def test_what_may_be_repeated_is_not_worth_a_sync(tmp_path: Path) -> None:
    source = MemoryTasks(SystemClock())
    gate = asyncio.Event()
    source.faults["report"] = [Fault(hang=gate)]
    async with at_work(make_worker(source, SystemClock(), number, outbox=tmp_path)):
        address = source.add("number", {"n": 7}, delivery="repeatable")
        await source.until(lambda: source.in_flight["report"] == 1)
        assert content_of(tmp_path) == []
        gate.set()
        await source.reported(address)


async def test_the_file_is_empty_while_nothing_is_open(tmp_path: Path) -> None:
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), number, outbox=tmp_path)):
        for n in range(30):
            await source.reported(source.add("number", {"n": n}))
        await until(lambda: paths_of(tmp_path)[0].stat().st_size == 0)


async def test_a_refused_result_is_evidence(tmp_path: Path) -> None:
    source = MemoryTasks(SystemClock())
    gate = asyncio.Event()
    source.faults["report"] = [Fault(hang=gate)]
    async with at_work(make_worker(source, SystemClock(), number, outbox=tmp_path)):
        address = source.add("number", {"n": 7}, delivery="at_most_once")
        await source.until(lambda: source.in_flight["report"] == 1)
        source.rows[address].fence += 1
        gate.set()
        await source.until(lambda: source.in_flight["report"] == 0)
    (one,) = refused(tmp_path, "exe_1")
    assert (one.address, one.answer, one.outcome) == (address, "lease_lost", "completed")


async def test_results_that_are_not_delivered_when_a_worker_leaves_stay_for_the_next(tmp_path: Path) -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    worker = make_worker(source, clock, number, outbox=tmp_path)
    running = asyncio.ensure_future(worker.run())
    await worker.connected()
    address = source.add("number", {"n": 7})
    source.faults["report"] = [Fault(Unreachable("gone"))] * 10_000
    await source.until(lambda: len(source.sent("report")) > 0)
    worker.stop(0)
    while not running.done():
        clock.advance(1)
        await asyncio.sleep(0)
    assert content_of(tmp_path) == [address]
    source.faults.clear()
    async with at_work(make_worker(source, SystemClock(), number, outbox=tmp_path)):
        await source.reported(address)
    assert source.rows[address].reports[0].value == 7
    assert source.rows[address].attempt == 1


@contextmanager
def no_file_grows() -> Iterator[None]:
    """Have every write to a file fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_is_reported_and_the_result_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), number, outbox=tmp_path)):
        with no_file_grows():
            for n in (1, 2):
                await source.reported(source.add("number", {"n": n}))
        await source.reported(source.add("number", {"n": 3}))
    told = [record.getMessage() for record in caplog.records]
    assert sum(line.startswith("outbox.disk ") for line in told) == 1, told
    assert sum(line.startswith("outbox.disk_recovered") for line in told) == 1, told


async def test_a_folder_that_cannot_be_used_is_reported_and_keeps_no_worker_from_working(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    source = MemoryTasks(SystemClock())
    worker = make_worker(source, SystemClock(), number, outbox=tmp_path / "file" / "outbox")
    async with at_work(worker):
        await source.reported(source.add("number", {"n": 1}))
        assert worker.info.lock == ""
    assert any(record.getMessage().startswith("outbox.none") for record in caplog.records)


# Heirs.


def taken(source: MemoryTasks, count: int = 1, **more: object) -> list[str]:
    """Have tasks that a worker leased, and died with."""
    addresses = [source.add("number", {"n": n}, **more) for n in range(count)]
    for address in addresses:
        row = source.rows[address]
        row.state, row.fence, row.attempt, row.lease_until_ms = "leased", 1, 1, 2**60
    return addresses


async def test_a_dead_workers_results_are_delivered_once(tmp_path: Path) -> None:
    source = MemoryTasks(SystemClock())
    addresses = taken(source, 3)
    results = [Kept(source.name, "wrk_dead", Report("exe_1", one, 1, "completed", one)) for one in addresses]
    path = left_by_the_dead(tmp_path, *results)
    with path.open("ab") as file:
        file.write(b"0000abcd 99 {torn")
    async with at_work(make_worker(source, SystemClock(), number, outbox=tmp_path)):
        await source.reported(*addresses)
        await until(lambda: not path.exists())
    assert [source.rows[one].reports[0].value for one in addresses] == addresses
    assert source.sent("report") == [[one.report for one in results]]


async def test_a_damaged_result_is_told_of_and_its_file_put_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What lies before and behind it is delivered; what cannot be read may tell a person what was done."""
    source = MemoryTasks(SystemClock())
    addresses = taken(source, 3)
    results = [Kept(source.name, "wrk_dead", Report("exe_1", one, 1, "completed", one)) for one in addresses]
    path = left_by_the_dead(tmp_path, *results)
    damaged = path.read_bytes().replace(b'"exe_1","address":"%s"' % addresses[1].encode(), b'"exe_1","address":"?"')
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    async with at_work(make_worker(source, SystemClock(), number, outbox=tmp_path)):
        await source.reported(addresses[0], addresses[2])
        await until(lambda: not path.exists())
    aside = path.with_suffix(".damaged")
    assert aside.read_bytes().startswith(damaged)
    assert not source.rows[addresses[1]].reports
    (told,) = [record.getMessage() for record in caplog.records if record.getMessage().startswith("outbox.damaged")]
    assert str(aside) in told


@pytest.mark.parametrize("content", [b"", bytes(4096), b"\xff" * 5000, b"[]\n{}\n"])
async def test_a_file_that_is_none_any_more_keeps_no_worker_from_working(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "wrk_dead.outbox").write_bytes(content)
    (tmp_path / "wrk_folder.outbox").mkdir()
    (tmp_path / "wrk_link.outbox").symlink_to("wrk_link.outbox")
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), number, outbox=tmp_path)):
        await source.reported(source.add("number", {"n": 1}))
        await until(lambda: not (tmp_path / "wrk_dead.outbox").exists())


async def test_a_result_of_other_queues_is_left_alone(tmp_path: Path) -> None:
    source = MemoryTasks(SystemClock())
    (address,) = taken(source)
    report = Report("exe_1", address, 1, "completed", 1)
    path = left_by_the_dead(tmp_path, Kept("str_2/default", "wrk_dead", report))
    before = path.read_bytes()
    other = left_by_the_dead(tmp_path, Kept(source.name, "wrk_b", report), worker="wrk_b")
    async with at_work(make_worker(source, SystemClock(), number, outbox=tmp_path)):
        await source.reported(address)
        await until(lambda: not other.exists())
    assert path.read_bytes() == before
    assert len(source.sent("report")) == 1


async def test_a_living_workers_file_is_left_alone(tmp_path: Path) -> None:
    source = MemoryTasks(SystemClock())
    (address,) = taken(source)
    file = OutboxFile.create(tmp_path, "wrk_alive")
    file.append([record_of(Kept(source.name, "wrk_alive", Report("exe_1", address, 1, "completed", 1)))], sync=True)
    dead = left_by_the_dead(tmp_path, worker="wrk_z")
    async with at_work(make_worker(source, SystemClock(), number, outbox=tmp_path)):
        await until(lambda: not dead.exists())
    assert source.sent("report") == []
    file.close(remove=True)


async def test_an_empty_file_is_left_until_its_server_has_looked_at_it_too(tmp_path: Path) -> None:
    """It is the proof that its worker is dead."""
    clock = FakeClock()
    source = MemoryTasks(clock)
    (address,) = taken(source)
    bare = left_by_the_dead(tmp_path, worker="wrk_a")
    result = Kept(source.name, "wrk_b", Report("exe_1", address, 1, "completed", 1))
    full = left_by_the_dead(tmp_path, result, worker="wrk_b")
    async with at_work(make_worker(source, clock, number, outbox=tmp_path)):
        await until(lambda: not full.exists())
        assert bare.exists()
        while bare.exists():
            clock.advance(0.1)
            await asyncio.sleep(0)


async def test_a_dead_workers_result_that_is_refused_is_evidence(tmp_path: Path) -> None:
    source = MemoryTasks(SystemClock())
    (address,) = taken(source)
    source.rows[address].fence = 2
    path = left_by_the_dead(tmp_path, Kept(source.name, "wrk_dead", Report("exe_1", address, 1, "completed", 1)))
    async with at_work(make_worker(source, SystemClock(), number, outbox=tmp_path)):
        await until(lambda: not path.exists())
    assert [(one.worker, one.answer) for one in refused(tmp_path)] == [("wrk_dead", "lease_lost")]


async def test_a_dead_workers_result_that_cannot_be_stored_is_a_failure_instead(tmp_path: Path) -> None:
    source = MemoryTasks(SystemClock())
    addresses = taken(source, 2)
    refusal = LimitExceeded("8 MB at most", code="too_large")
    source.faults["report"] = [Fault(refusal), Fault(refusal)]
    left_by_the_dead(
        tmp_path, *[Kept(source.name, "wrk_dead", Report("exe_1", one, 1, "completed", 1)) for one in addresses]
    )
    async with at_work(make_worker(source, SystemClock(), number, outbox=tmp_path)):
        await source.reported(*addresses)
    assert [source.outcomes(one) for one in addresses] == [["failed"], ["completed"]]


async def test_an_heir_tries_again_until_the_server_answers(tmp_path: Path) -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    (address,) = taken(source)
    source.faults["report"] = [Fault(Unreachable("gone")), Fault(Unreachable("gone"), after=True)]
    path = left_by_the_dead(tmp_path, Kept(source.name, "wrk_dead", Report("exe_1", address, 1, "completed", 1)))
    async with at_work(make_worker(source, clock, number, outbox=tmp_path)):
        while path.exists():
            clock.advance(0.1)
            await asyncio.sleep(0)
    assert source.outcomes(address) == ["completed"]
    assert len(source.sent("report")) == 3
