"""Companies take turns where they share servers, on both databases: none waits behind another's backlog."""

from __future__ import annotations

from engine_bench import AGENT, COMPANY, Bench, task
from perdure.core.work import SERVER_QUEUE
from perdure.engine.claim import Claim, Claimed, claim
from perdure.engine.keys import AddKey, add_key
from perdure.engine.look import Wanted, look
from perdure.engine.start import Start, start
from perdure.engine.sweep import tell_time


def begun(bench: Bench, *companies: str, priority: int = 0) -> list[str]:
    """Start an execution of each."""
    ids: list[str] = []
    for company in companies:
        new = bench.new(company=company)
        given = (new.id, company, new.agent, new.definition, new.spec, new.input, None)
        bench.do(start, Start(*given, priority=priority))
        ids.append(new.id)
    return ids


def take(bench: Bench, limit: int = 1, after: str = "") -> list[Claimed]:
    return bench.do(claim, Claim("srv_1", limit, 30_000, {}, after))


def whose(given: list[Claimed]) -> str:
    return " ".join(one.company for one in given)


def test_a_company_with_little_to_do_waits_for_one_of_each_other(bench: Bench) -> None:
    begun(bench, *["big"] * 9, "small")
    assert whose(take(bench, 1, "big")) == "small"
    assert whose(take(bench, 3, "small")) == "big big big"
    begun(bench, "small", "tiny", "tiny")
    assert whose(take(bench, 4, "big")) == "small tiny big tiny"
    assert whose(take(bench, 9)) == "big big big big big"


def test_who_asks_for_one_at_a_time_goes_round(bench: Bench) -> None:
    begun(bench, *["a"] * 3, *["b"] * 3, *["c"] * 3)
    last, seen = "", []
    for _ in range(9):
        [one] = take(bench, 1, last)
        last = one.company
        seen.append(last)
    assert seen == ["a", "b", "c"] * 3
    assert take(bench, 1, last) == []


def test_the_urgent_of_one_company_keep_no_other_waiting(bench: Bench) -> None:
    plain = begun(bench, "big")
    urgent = begun(bench, "big", "big", priority=9)
    begun(bench, "small")
    given = take(bench, 4, "small")
    assert whose(given) == "big small big big"
    assert {given[0].ref.execution, given[2].ref.execution} == set(urgent)
    assert given[3].ref.execution == plain[0]


def test_two_claimers_of_one_batch_share_the_turns(bench: Bench) -> None:
    begun(bench, "a", "a", "b")
    first, second = bench.together((claim, Claim("srv_1", 2, 1_000)), (claim, Claim("srv_2", 2, 1_000)))
    assert (whose(first), whose(second)) == ("a b", "a")


def test_a_look_tells_of_the_ready_of_one_company_and_of_several(bench: Bench) -> None:
    def seen() -> tuple[int, int] | None:
        now_ms = bench.do(tell_time, None)
        return bench.read(lambda reads: look(reads, Wanted([""]), now_ms)).ready.get("")

    assert seen() is None
    begun(bench, "a")
    one = seen()
    assert one is not None
    assert one[0] == one[1] > 0
    begun(bench, "b")
    assert seen() is not None


def test_tools_that_servers_call_are_found_of_each_company_first(bench: Bench) -> None:
    for company, tool in (("big", "x"), ("big", "x"), ("big", "y"), ("small", "z"), (COMPANY, "x")):
        bench.do(add_key, AddKey(company, "k", f"key of {company} {tool}"))
        held = bench.owned(company=company)
        bench.record(held, task(tool=tool, queue=SERVER_QUEUE))
        bench.park(held)
    paused = bench.owned(company="small")
    bench.record(paused, task(tool="zz", queue=SERVER_QUEUE))
    bench.park(paused)
    bench.signal(paused.ref.execution, "pause", company="small")

    def lanes(limit: int) -> list[tuple[str, ...]]:
        found = bench.read(lambda reads: reads.rows("server_lanes", own=COMPANY, queue=SERVER_QUEUE, limit=limit))
        assert {row["agent"] for row in found} == {AGENT}
        return [(row["company"], row["tool"]) for row in found]

    assert sorted(lanes(3)) == [("big", "x"), (COMPANY, "x"), ("small", "z")]
    assert sorted(lanes(9)) == [("big", "x"), ("big", "y"), (COMPANY, "x"), ("small", "z")]
