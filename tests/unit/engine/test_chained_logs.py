"""Every row of a log is chained to the one before it, whoever wrote it and in whichever batch."""

from __future__ import annotations

from collections.abc import Sequence

from engine_bench import Bench, ask, request, step
from perdure.core.chain import Checked, Follower
from perdure.core.events import Kind
from perdure.core.ids import shard_of
from perdure.engine.ledger import log_page
from perdure.engine.park import Finish, finish
from perdure.engine.record import Record, record
from perdure.engine.signal import signal
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.tx import Tx


@operation()
def _testify(tx: Tx, rows: Sequence[str]) -> Steps[None]:
    """Say something of ended executions."""
    yield [Ref(shard_of(row), row) for row in rows]
    for row in rows:
        execution = tx.execution(row)
        assert execution is not None
        tx.testify(execution, Kind.EFFECT_CONTRADICTED, "tool", {"value": 1})
        tx.testify(execution, Kind.EFFECT_CONTRADICTED, "tool", {"value": 2})
    return [None] * len(rows)


def followed(bench: Bench, execution: str) -> Checked:
    """Follow a log, a few rows a page."""
    follower = Follower(execution)
    after = 0
    while True:
        page = bench.read(lambda reads: log_page(reads, "default", execution, after=after, limit=2))  # noqa: B023 - read at once
        follower.take(page.links)
        if not page.links:
            return follower.end(page.head, page.last_seq)
        after = page.links[-1].seq


def test_what_one_batch_and_many_append_is_one_chain(bench: Bench) -> None:
    held = bench.owned()
    bench.record(held, step(), ask())
    other = bench.owned()
    bench.together(
        (signal, request(held.ref.execution, "send", text="a")),
        (record, Record(other.ref, other.fence, 1, (step(), ask("x", "apr_2")))),
    )
    bench.signal(held.ref.execution, "pause")
    bench.signal(held.ref.execution, "resume")
    found = followed(bench, held.ref.execution)
    assert found.broken_at is None
    assert followed(bench, other.ref.execution).broken_at is None
    assert (found.links, found.unhashed) == (len(bench.kinds(held.ref.execution)), 0)


def test_what_is_said_after_the_end_is_chained_on(bench: Bench) -> None:
    held = bench.owned()
    bench.do(finish, Finish(held.ref, held.fence, 1, 0, "complete", '{"output":1}'))
    before = bench.kinds(held.ref.execution)
    bench.do(_testify, held.ref.execution)
    bench.do(_testify, held.ref.execution)
    found = followed(bench, held.ref.execution)
    assert (found.broken_at, found.links) == (None, len(before) + 4)
    assert bench.kinds(held.ref.execution) == before
