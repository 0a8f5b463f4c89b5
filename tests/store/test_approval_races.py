"""Answers to one approval that race: exactly one counts, in the log and in the row, and the others are told of it.

On SQLite through one writer, on PostgreSQL through two servers' writers at once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine_bench import AGENT, COMPANY, SPEC, request
from perdure.core import codec
from perdure.core.approval import ApprovalRules
from perdure.core.chain import Follower
from perdure.core.ids import new_id, shard_of
from perdure.core.items import OpenApproval
from perdure.engine.claim import Claim, Claimed, claim
from perdure.engine.due import Sweep
from perdure.engine.expire import expire_approvals
from perdure.engine.ledger import log_page
from perdure.engine.park import Park, park
from perdure.engine.query import events_between
from perdure.engine.record import News, Record, record
from perdure.engine.resolve import Decide, Decided, decide
from perdure.engine.signal import signal
from perdure.engine.start import Start, start
from perdure.errors import Conflict
from perdure.store.postgres import open_postgres
from perdure.store.protocol import Store
from perdure.store.sqlite import open_sqlite
from perdure.store.writer import ThreadedWriter
from perdure.system import SystemClock, SystemRandom

ROUNDS = 12
"""Of each pair."""
SOON_MS = 3

Side = Callable[[ThreadedWriter, str, str], Any]
"""Does one thing about an execution and its approval; returns the answer."""


def says(decision: Any, by: str, **more: Any) -> Side:
    row = {"company": COMPANY, "decision": decision, "by": by, "reason": "", **more}
    return lambda writer, _execution, approval: writer.call(decide, Decide(approval=approval, **row))


def cancels(writer: ThreadedWriter, execution: str, _approval: str) -> Any:
    return writer.call(signal, request(execution, "cancel", by="carl"))


def sweeps(writer: ThreadedWriter, _execution: str, _approval: str) -> Any:
    return writer.call(expire_approvals, Sweep(100))


APPROVE, REJECT = says("approve", "ann"), says("reject", "bob")
EDIT, RESPOND = says("edit", "ed", args={"n": 2}), says("respond", "rob", answer="no need")
PAIRS: dict[str, tuple[Side, Side]] = {
    "approve-reject": (APPROVE, REJECT),
    "approve-approve": (APPROVE, says("approve", "amy")),
    "approve-edit": (APPROVE, EDIT),
    "reject-respond": (REJECT, RESPOND),
    "approve-cancel": (APPROVE, cancels),
    "edit-cancel": (EDIT, cancels),
    "approve-timeout": (APPROVE, sweeps),
    "reject-timeout": (REJECT, sweeps),
}


@contextmanager
def writers(*stores: Store) -> Iterator[list[ThreadedWriter]]:
    made = [ThreadedWriter(store) for store in stores]
    try:
        yield made
    finally:
        for writer in made:
            writer.stop()
        for store in stores:
            store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def racing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, list[ThreadedWriter]]]:
    """A store, and the writers that race on it."""
    if request.param == "sqlite":
        store: Store = open_sqlite(tmp_path / "p.db", clock=SystemClock(), random=SystemRandom())
        with writers(store) as made:
            yield store, made * 2
        return
    dsn = request.getfixturevalue("store_database")
    first, second = (open_postgres(dsn, random=SystemRandom()) for _ in range(2))
    with writers(first, second) as made:
        yield first, made


def waiting(writer: ThreadedWriter, expires_ms: int) -> tuple[str, str]:
    """Start an execution that waits for an approval; return both ids."""
    clock, random = SystemClock(), SystemRandom()
    execution, approval = new_id("exe", clock, random), new_id("apr", clock, random)
    spec = codec.encode(dict(SPEC))
    writer.call(start, Start(execution, COMPANY, AGENT, codec.digest(dict(SPEC)), spec, '"hi"', None))
    held: list[Claimed] = writer.call(claim, Claim("srv", 100, 30_000))
    [mine] = [one for one in held if one.ref.execution == execution]
    rules = ApprovalRules(expires_ms=expires_ms)
    item = OpenApproval("tool/approval", "d", approval, "post", {"n": 1}, rules)
    news = writer.call(record, Record(mine.ref, mine.fence, 1, (item,)))
    assert isinstance(news, News)
    writer.call(park, Park(mine.ref, mine.fence, 2, 0))
    return execution, approval


def race(sides: tuple[Side, Side], made: list[ThreadedWriter], execution: str, approval: str) -> list[Any]:
    gate = threading.Barrier(2)
    answers: list[Any] = [None, None]

    def run(number: int) -> None:
        gate.wait()
        answers[number] = sides[number](made[number], execution, approval)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def winner(store: Store, execution: str) -> dict[str, Any] | None:
    """Return what the log says was decided, having seen that it says so once, and that the row agrees."""
    with store.read() as reads:
        log = events_between(reads, execution, 0, 100)
        scope = {"shard": shard_of(execution), "execution": execution, "address": "tool/approval"}
        row = reads.row("waitpoint", **scope)
        page = log_page(reads, COMPANY, execution, after=0, limit=100)
    chain = Follower(execution)
    chain.take(page.links)
    assert chain.end(page.head, page.last_seq).broken_at is None, "several writers, one chain"
    ends = [event.data for event in log if event.kind == "waitpoint_resolved"]
    assert len(ends) <= 1, "decided twice"
    assert row is not None
    if not ends:
        assert row["state"] == "cancelled"
        return None
    assert (row["decision"], row["decided_by"]) == (ends[0]["decision"], ends[0]["by"])
    return ends[0]


@pytest.mark.parametrize("pair", PAIRS)
def test_of_two_answers_one_counts_and_the_other_is_told(racing: tuple[Store, list[ThreadedWriter]], pair: str) -> None:
    store, made = racing
    won: Counter[str] = Counter()
    for number in range(ROUNDS):
        execution, approval = waiting(made[0], SOON_MS if pair.endswith("timeout") else 0)
        one, other = PAIRS[pair]
        answers = race((one, other) if number % 2 else (other, one), made, execution, approval)
        if pair.endswith("timeout"):  # a sweep that came too early finds it the next time
            while winner_is_open(store, execution):
                sweeps(made[0], execution, approval)
        end = winner(store, execution)
        won[end["decision"] if end else "cancel"] += 1
        judge(end, answers)
    assert sum(won.values()) == ROUNDS


def winner_is_open(store: Store, execution: str) -> bool:
    with store.read() as reads:
        row = reads.row("waitpoint", shard=shard_of(execution), execution=execution, address="tool/approval")
    return row is not None and row["state"] == "open"


def judge(end: dict[str, Any] | None, answers: list[Any]) -> None:
    """Whoever was told that it is decided was first; whoever was not is told by whom, and how."""
    first = [answer for answer in answers if isinstance(answer, Decided)]
    refused = [answer for answer in answers if isinstance(answer, Conflict)]
    assert len(first) <= 1
    assert bool(first) == (end is not None and end["decision"] != "expired")
    for conflict in refused:
        assert conflict.details["decided_by"] == (end["by"] if end else "carl")
        assert end is None or conflict.details["decision"] == end["decision"]
        assert conflict.code in {"already_decided", "not_waiting", "approval_expired"}
