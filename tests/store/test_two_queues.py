"""The limits of a queue under two servers on one PostgreSQL: they hold together, and nobody locks the other out."""

from __future__ import annotations

from collections.abc import Sequence

from at_once import at_once
from engine_bench import AGENT, COMPANY, Bench, completion, task, wish
from perdure.core.queues import QueueLimits
from perdure.core.work import Lane, LeasedTask
from perdure.engine.allowances import BUSY_MS
from perdure.engine.complete import complete
from perdure.engine.lease import lease
from perdure.engine.queues import ChangeQueue, change_queue
from perdure.engine.start import Start, start
from perdure.store.batch import Entry

ROUNDS = 20
MAIL, POST = Lane(AGENT, "post", "mail"), Lane(AGENT, "post", "post")


def limit(bench: Bench, queue: str, *limits: int | None) -> None:
    bench.do(change_queue, ChangeQueue(COMPANY, queue, "limit", QueueLimits(*limits)))


def held(bench: Bench, queue: str = "mail") -> int:
    found = bench.row("count_held", company=COMPANY, queue=queue)
    return found["held"] if found else 0


def take(bench: Bench, worker: str, n: int, *lanes: Lane) -> list[LeasedTask]:
    return bench.do(lease, wish(worker, f"{worker} {n}", slots=5, lanes=lanes or (MAIL,)))


def test_two_that_lease_at_once_keep_the_limit_together(servers: tuple[Bench, Bench]) -> None:
    first, second = servers
    first.waiting(*(task(f"t{n}", queue="mail") for n in range(200)))
    limit(first, "mail", 3)
    for n in range(ROUNDS):
        taken = at_once(lambda n=n: take(first, "wrk_1", n), lambda n=n: take(second, "wrk_2", n))
        assert sum(map(len, taken)) == 3 == held(first)
        given = [(bench, one) for bench, some in zip(servers, taken, strict=True) for one in some]
        for bench, one in given:
            assert bench.report(one) == "accepted"


def test_two_that_lease_at_once_keep_the_rate_together(servers: tuple[Bench, Bench]) -> None:
    first, second = servers
    first.waiting(*(task(f"t{n}", queue="mail") for n in range(100)))
    limit(first, "mail", None, 7, 100_000)
    taken = [at_once(lambda n=n: take(first, "wrk_1", n), lambda n=n: take(second, "wrk_2", n)) for n in range(ROUNDS)]
    assert sum(len(tasks) for both in taken for tasks in both) == 7


def test_queues_asked_for_in_any_order_and_set_meanwhile_lock_nobody_out(servers: tuple[Bench, Bench]) -> None:
    first, second = servers
    first.waiting(*(task(f"{queue}{n}", queue=queue) for n in range(200) for queue in ("mail", "post")))
    limit(first, "mail", 2)
    limit(first, "post", 2)
    for n in range(ROUNDS):
        a, b = at_once(
            lambda n=n: take(first, "wrk_1", n, MAIL, POST), lambda n=n: take(second, "wrk_2", n, POST, MAIL)
        )
        assert held(first) <= 2
        assert held(first, "post") <= 2
        done = [(complete, completion(one)) for one in a], [(complete, completion(one)) for one in b]
        verb = "pause" if n % 3 == 0 else "resume"
        ends = at_once(
            lambda n=n, done=done: first.together(*done[0], (lease, wish("wrk_1", f"more {n}", lanes=(MAIL,)))),
            lambda verb=verb, done=done: second.together(*done[1], (change_queue, ChangeQueue(COMPANY, "mail", verb))),
        )
        for one in ends[0][-1]:
            first.report(one)


class Waiting:
    """Whoever waits for a wish."""

    def __init__(self) -> None:
        self.given: list[LeasedTask] = []

    def settle(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.given += entry.result or []


def test_a_grant_waits_for_no_queue_that_another_server_has_locked(servers: tuple[Bench, Bench]) -> None:
    """It holds executions by then, so it would wait the wrong way round. It comes again a moment later."""
    first, second = servers
    limit(first, "mail", 1)
    waiting = Waiting()
    first.writer.submit(lease, wish("wrk_1", "w", lanes=(MAIL,)), waiting, wants=(("tasks", f"{COMPANY}/mail"),))
    first.writer.drain()
    with second.store.write() as connection:
        assert connection.rows("lock_queues", wanted=f'{{"{COMPANY}":{{"mail":0}}}}')
        first.waiting(task(queue="mail"))
    assert waiting.given == []
    assert BUSY_MS in [note.after_ms for note in first.notes if note.topic == "tasks"]
    assert len(take(first, "wrk_1", 1)) == 1


def of_keys(bench: Bench, count: int, *keys: str) -> None:
    """Have tasks of each of these keys waiting."""
    for key in keys:
        new = bench.new()
        bench.do(start, Start(new.id, COMPANY, AGENT, new.definition, new.spec, new.input, None, limit_key=key))
        [one] = bench.claim()
        bench.record(one, *(task(f"t{n}", queue="mail") for n in range(count)))
        bench.park(one)


def held_of_keys(bench: Bench) -> dict[str, int]:
    rows = bench.read(lambda reads: reads.rows("keys_held", company=COMPANY, queue="mail"))
    return {row["limit_key"]: row["held"] for row in rows}


def test_two_that_lease_at_once_keep_the_limit_of_each_key_together(servers: tuple[Bench, Bench]) -> None:
    first, second = servers
    of_keys(first, 40, "a", "b")
    first.do(change_queue, ChangeQueue(COMPANY, "mail", "limit", QueueLimits(per_key=2)))
    for n in range(ROUNDS):
        taken = at_once(lambda n=n: take(first, "wrk_1", n), lambda n=n: take(second, "wrk_2", n))
        assert held_of_keys(first) == {"a": 2, "b": 2}
        given = [(bench, one) for bench, some in zip(servers, taken, strict=True) for one in some]
        assert len(given) == 4
        for bench, one in given:
            assert bench.report(one) == "accepted"


def test_two_that_lease_first_from_a_queue_with_keys_lock_nobody_out(servers: tuple[Bench, Bench]) -> None:
    """No row says yet whose turn it is, and both make it."""
    first, second = servers
    of_keys(first, 4, "a", "b")
    taken = at_once(lambda: take(first, "wrk_1", 1), lambda: take(second, "wrk_2", 1))
    places = {(one.execution, one.address) for some in taken for one in some}
    assert len(places) == sum(map(len, taken)) >= 5, "each was given its slots, of what the other was not"


def test_a_grant_waits_for_no_turn_that_another_server_is_taking(servers: tuple[Bench, Bench]) -> None:
    first, second = servers
    of_keys(first, 2, "a")
    assert len(take(first, "wrk_1", 0)) == 2  # so there is a row
    waiting = Waiting()
    first.writer.submit(lease, wish("wrk_1", "w", lanes=(MAIL,)), waiting, wants=(("tasks", f"{COMPANY}/mail"),))
    first.writer.drain()
    with second.store.write() as connection:
        assert connection.rows("lock_queues", wanted=f'{{"{COMPANY}":{{"mail":0}}}}')
        of_keys(first, 1, "b")
    assert waiting.given == []
    assert BUSY_MS in [note.after_ms for note in first.notes if note.topic == "tasks"]
    assert len(take(first, "wrk_1", 1)) == 1
