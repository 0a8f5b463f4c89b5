"""Values too large for a log, on both databases: what a log refers to is there, and what nobody refers to goes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import upkept
from engine_bench import COMPANY, Bench, completion, ref, task
from perdure.core.blobs import BlobRef, hash_of, reference
from perdure.core.views import ForkEdits
from perdure.engine.blobs import (
    FIRST,
    GRACE_MS,
    BlobName,
    DropBlobs,
    OfferBlob,
    chunk_of,
    drop_blobs,
    finish_blob,
    look_for_unused,
    offer_blob,
    size_of_used,
    state_of,
    values_of,
)
from perdure.engine.complete import complete
from perdure.engine.due import Sweep
from perdure.engine.fork import Fork, fork
from perdure.engine.park import Finish, Released, finish
from perdure.engine.retention import forget, set_retention
from perdure.errors import InvalidInput, NotFound
from perdure.upkeep.backup import back_up
from perdure.upkeep.checking import check_store
from perdure.upkeep.copying import copy
from stored_values import offered, stored


def referred(bench: Bench, found: BlobRef) -> str:
    """Report a result that stands for content; return the execution."""
    held = bench.leased(task())
    bench.report(held, value=reference(found.hash, found.bytes))
    return held.execution


def there(bench: Bench, found: BlobRef, company: str = COMPANY) -> bool:
    try:
        return bench.read(lambda reads: state_of(reads, BlobName(company, found.hash)))[0].whole
    except NotFound:
        return False


def test_what_a_result_refers_to_is_read_through_its_execution_and_no_other(bench: Bench) -> None:
    found = stored(bench, b"large")
    execution, other = referred(bench, found), bench.started()
    name = BlobName(COMPANY, found.hash)
    assert bench.read(lambda reads: size_of_used(reads, name, execution)) == 5
    assert bench.read(lambda reads: values_of(reads, COMPANY, execution)) == [found]
    assert bench.read(lambda reads: values_of(reads, COMPANY, other)) == []
    for whose, where in ((name, other), (BlobName("acme", found.hash), execution)):
        with pytest.raises(NotFound):
            bench.read(lambda reads, whose=whose, where=where: size_of_used(reads, whose, where))
    with pytest.raises(NotFound):
        bench.read(lambda reads: values_of(reads, "acme", execution))


@pytest.mark.parametrize("what", ["nothing", "half of it", "another company's"])
def test_a_result_that_refers_to_what_is_not_there_is_refused(bench: Bench, what: str) -> None:
    found = BlobRef(hash_of(b"large"), 5)
    if what == "half of it":
        offered(bench, b"large")
    elif what == "another company's":
        stored(bench, b"large", "acme")
    held = bench.leased(task())
    with pytest.raises(InvalidInput) as refused:
        bench.do(complete, completion(held, value=reference(found.hash, 5)))
    assert refused.value.code == "blob_missing"
    assert bench.kinds(held.execution)[-1] == "task_scheduled"
    assert str(bench.report(held, value={"text": reference(found.hash, 5)})) == "accepted"  # somebody's own words
    assert bench.read(lambda reads: values_of(reads, COMPANY, held.execution)) == []


def test_a_fork_uses_the_content_that_its_origin_uses(bench: Bench) -> None:
    found = stored(bench, b"large")
    origin = referred(bench, found)
    bench.do(fork, Fork("exe_fork", COMPANY, origin, bench.execution(origin)["next_seq"] - 1, ForkEdits(), "ann"))
    assert bench.read(lambda reads: values_of(reads, COMPANY, "exe_fork")) == [found]
    assert bench.read(lambda reads: values_of(reads, COMPANY, origin)) == [found]


def test_content_is_whole_only_with_all_of_its_pieces(bench: Bench) -> None:
    name = BlobName(COMPANY, hash_of(b"large"))
    bench.do(offer_blob, OfferBlob(name, 5))
    assert bench.read(lambda reads: state_of(reads, name))[0].missing == (0,)
    assert not bench.do(finish_blob, OfferBlob(name, 5))
    stored(bench, b"large")
    assert not bench.do(finish_blob, OfferBlob(name, 6))


def test_what_nobody_refers_to_goes_after_a_grace_and_what_somebody_does_stays(bench: Bench) -> None:
    used, unused, half = stored(bench, b"used"), stored(bench, b"unused"), offered(bench, b"half")
    execution = referred(bench, used)
    assert bench.do(drop_blobs, DropBlobs()) == 0
    assert bench.read(lambda reads: look_for_unused(reads, GRACE_MS * 10**5)) == (True, FIRST)
    assert bench.do(drop_blobs, DropBlobs(grace_ms=0)) == 2
    assert (there(bench, used), there(bench, unused), there(bench, half)) == (True, False, False)
    with pytest.raises(NotFound):
        bench.read(lambda reads: chunk_of(reads, BlobName(COMPANY, unused.hash), 0))
    bench.do(set_retention, 0)
    [held] = bench.claim()
    seen = bench.execution(execution)["next_seq"] - 1
    assert bench.do(finish, Finish(held.ref, held.fence, seen, 0, "complete", '{"output":1}')) == Released()
    assert bench.do(forget, Sweep(50)) == 1
    assert bench.do(drop_blobs, DropBlobs(grace_ms=0)) == 1
    assert not there(bench, used)


def test_a_pass_is_bounded(bench: Bench) -> None:
    for number in range(6):
        stored(bench, b"%d" % number)
    assert [bench.do(drop_blobs, DropBlobs(0)) for _ in range(3)] == [4, 2, 0]


def test_a_look_costs_the_same_however_many_are_in_use_and_a_round_of_looks_sees_all(bench: Bench) -> None:
    for number in range(5):
        referred(bench, stored(bench, b"used %d" % number))
    unused = stored(bench, b"unused")
    later_ms, place, looks = GRACE_MS * 10**5, FIRST, 0
    while not (seen := bench.read(lambda reads, after=place: look_for_unused(reads, later_ms, after, 2)))[0]:
        place, looks = seen[1], looks + 1
        assert place != FIRST, "all were looked at, and it was not among them"
        assert bench.do(drop_blobs, DropBlobs(0, after=FIRST, look=2 * looks)) == 0, "a pass looks no further"
    assert looks <= 2
    assert bench.do(drop_blobs, DropBlobs(0, after=place, look=2)) == 1
    assert not there(bench, unused)
    place, looks = FIRST, 0
    while looks == 0 or place != FIRST:
        found, place = bench.read(lambda reads, after=place: look_for_unused(reads, later_ms, after, 2))
        looks += 1
        assert not found
    assert looks == 3


def test_what_is_referred_to_this_moment_is_not_forgotten(servers: tuple[Bench, Bench]) -> None:
    """Whoever forgets has seen that nobody refers to it, and waits for the transaction that does."""
    first, second = servers
    found = stored(first, b"large")
    execution = first.started()
    name = {"company": COMPANY, "hash": found.hash}
    dropped: list[int] = []
    with first.store.write() as connection:
        connection.run("touch_blob", **name, now_ms=connection.now_ms - 10 * GRACE_MS)
    with first.store.write() as connection:
        assert connection.run("touch_whole_blob", **name, now_ms=connection.now_ms)
        dropping = threading.Thread(target=lambda: dropped.append(second.do(drop_blobs, DropBlobs())))
        dropping.start()
        connection.run("use_blob", **name, shard=ref(execution).shard, execution=execution)
    dropping.join()
    assert there(first, found)
    assert dropped == [0]


@pytest.mark.parametrize("moment", ["before_commit", "after_commit"])
@pytest.mark.parametrize("operation", ["offer_blob", "put_chunk", "finish_blob", "drop_blobs"])
def test_what_is_broken_off_is_done_again(bench: Bench, operation: str, moment: str) -> None:
    def store_and_drop() -> None:
        stored(bench, b"large")
        bench.do(drop_blobs, DropBlobs(0))

    with upkept.dying(f"{operation}.{moment}"):
        store_and_drop()
    if operation != "drop_blobs" or moment == "before_commit":
        assert there(bench, stored(bench, b"large"))
        assert bench.do(drop_blobs, DropBlobs(0)) == 1
    assert not there(bench, BlobRef(hash_of(b"large"), 5))


def test_a_check_reads_all_content(tmp_path: Path) -> None:
    kept = upkept.kept_store(tmp_path)
    assert (check_store(kept.path).problems, check_store(kept.path).values) == ([], 1)
    for statement, table, word in (
        ("UPDATE blob_chunks SET data = 'bGlhcg=='", "blobs", "not what its hash says"),
        ("UPDATE blob_chunks SET data = '?'", "blobs", "writes"),
        ("DELETE FROM blob_chunks", "blobs", "piece 0 of 1 is missing"),
        ("DELETE FROM blobs", "blob_uses", "not there whole"),
    ):
        upkept.spoil(kept.path, statement)
        [problem] = check_store(kept.path).problems
        assert (problem.table, word in problem.what) == (table, True), problem


def test_a_backup_and_a_copy_hold_all_content(tmp_path: Path, postgres_database: str) -> None:
    kept = upkept.kept_store(tmp_path)
    assert back_up(kept.path, tmp_path / "backup.db").report.values == 1
    copy(kept.path, postgres_database)
    after = check_store(postgres_database)
    assert (after.problems, after.values, after.rows["blob_chunks"]) == ([], 1, 1)
