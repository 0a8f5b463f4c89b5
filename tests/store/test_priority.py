"""What a priority promises, on both databases: the higher goes first, and the lower is not passed over for ever."""

from __future__ import annotations

from pathlib import Path

from engine_bench import AGENT, COMPANY, Bench, bench_in, task
from perdure.core.functions import ClaimRequest
from perdure.core.items import StartChild
from perdure.core.queues import LEVEL_MS, QueueLimits
from perdure.core.views import ForkEdits
from perdure.core.work import FunctionLane, Lane
from perdure.engine.claim import Claimed
from perdure.engine.fork import Fork, fork
from perdure.engine.lanes import ClaimLanes, claim_lanes
from perdure.engine.queues import ChangeQueue, change_queue
from perdure.engine.start import Start, start
from perdure.engine.sweep import tell_time

POST, MAIL = Lane(AGENT, "post"), Lane(AGENT, "mail")


def begun(bench: Bench, priority: int, lane: str = "") -> str:
    """Start an execution of that priority, a millisecond after all that was started before."""
    tick(bench)
    new = bench.new()
    given = (new.id, new.company, new.agent, new.definition, new.spec, new.input, None)
    bench.do(start, Start(*given, priority=priority, lane=lane))
    return new.id


def tick(bench: Bench) -> None:
    """Let a millisecond go by on the database's own clock."""
    before_ms = bench.do(tell_time, None)
    while bench.do(tell_time, None) == before_ms:
        bench.clock.advance(0.001)


def held(bench: Bench, priority: int) -> Claimed:
    execution = begun(bench, priority)
    return next(one for one in bench.claim() if one.ref.execution == execution)


def waiting(bench: Bench, priority: int, tool: str = "post") -> str:
    """Start an execution that waits for one task."""
    one = held(bench, priority)
    bench.record(one, task(tool=tool))
    bench.park(one)
    return one.ref.execution


def take(bench: Bench, *lanes: Lane, slots: int = 1) -> list[str]:
    return [one.execution for one in bench.lease(lanes=lanes or (POST,), slots=slots)]


def test_the_higher_goes_first_and_of_equals_the_longer_due(bench: Bench) -> None:
    ids = [waiting(bench, priority) for priority in (0, 1, 0, 9, 1)]
    assert [take(bench) for _ in ids] == [[ids[3]], [ids[1]], [ids[4]], [ids[0]], [ids[2]]]


def test_executions_are_claimed_in_that_order_too(bench: Bench) -> None:
    ids = [begun(bench, priority) for priority in (0, 3, 9)]
    assert [one.ref.execution for one in bench.claim(limit=2)] == [ids[2], ids[1]]
    functions = [begun(bench, priority, "onboard") for priority in (0, 3, 9)]
    wish = ClaimRequest("wrk_1", "n", (FunctionLane("onboard", "b1"),), slots=3)
    assert [one.ref.execution for one in bench.do(claim_lanes, ClaimLanes(COMPANY, wish))] == functions[::-1]


def test_a_tool_with_much_to_do_keeps_no_urgent_call_of_another_waiting(bench: Bench) -> None:
    plain = [waiting(bench, 0, tool) for tool in ("post", "post", "post", "mail")]
    urgent = waiting(bench, 1, "mail")
    assert take(bench, POST, MAIL, slots=2) == [urgent, plain[0]]
    assert take(bench, POST, MAIL, slots=4) == [plain[1], plain[2], plain[3]]


def test_a_limit_over_both_tools_lets_the_urgent_call_have_the_room(bench: Bench) -> None:
    bench.do(change_queue, ChangeQueue(COMPANY, "default", "limit", QueueLimits(concurrency=2)))
    plain = [waiting(bench, 0) for _ in range(3)]
    urgent = waiting(bench, 1, "mail")
    assert take(bench, POST, MAIL, slots=2) == [urgent, plain[0]]
    assert take(bench, POST, MAIL, slots=2) == []


def test_a_retry_keeps_its_place_and_comes_no_earlier(bench: Bench) -> None:
    plain, urgent = waiting(bench, 0), waiting(bench, 9)
    [first] = bench.lease(slots=1)
    bench.report(first, "failed")
    assert take(bench, slots=2) == [plain], "the pause is not over"
    assert bench.task(urgent)["state"] == "ready"


def test_what_it_begins_and_what_is_forked_off_it_are_as_urgent(bench: Bench) -> None:
    parent = held(bench, 5)
    spec = {"name": AGENT, "model": "scripted/clerk", "instructions": ""}
    bench.record(parent, StartChild("child", "d", "exe_child", spec, AGENT, "def", '"hi"'))
    bench.do(fork, Fork("exe_fork", COMPANY, parent.ref.execution, 1, ForkEdits(), "eve"))
    assert [bench.execution(one)["priority"] for one in ("exe_child", "exe_fork")] == [5, 5]
    assert bench.log(parent.ref.execution)[0].data["priority"] == 5
    begun(bench, 4)
    assert {one.ref.execution for one in bench.claim(limit=2)} == {"exe_child", "exe_fork"}


def test_who_has_waited_a_week_longer_a_level_goes_first(tmp_path: Path) -> None:
    with bench_in(tmp_path) as bench:
        old = waiting(bench, 0)
        bench.clock.advance(LEVEL_MS / 1000 + 1)
        fresh, urgent = waiting(bench, 1), waiting(bench, 2)
        assert [take(bench) for _ in range(3)] == [[urgent], [old], [fresh]]
