"""Budgets on both databases: what is reserved and spent never passes a cap, and nothing is forgotten. And stops."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import Bench
from perdure.core.budgets import DAY_MS, Budget, BudgetView, Need
from perdure.core.rooms import Actor, Leave, Stop
from perdure.engine.claim import Claimed
from perdure.engine.rooms_budget import (
    OverBudget,
    Reserve,
    SetBudget,
    Settle,
    budgets_view,
    reserve,
    set_budget,
    settle,
)
from perdure.engine.rooms_stops import STOPPED, HaltWake, Start, Started, Whom, halt_wake, start_in_room
from perdure.engine.sweep import Drop, drop
from perdure.errors import LeaseLost, NotFound
from perdure.store.protocol import Reads
from room_bench import ANN, BOB, GLOBEX, RoomBench

USD = 1_000_000


@pytest.fixture
def room(room: RoomBench) -> RoomBench:
    room.agent(BOB, "bot")
    return room


def cap(bench: Bench, actor: Actor = BOB, *, remove: bool = False, **budget: Any) -> int:
    """Set a cap, or remove it; return how many wakes went on."""
    return bench.do(set_budget, SetBudget(actor, Budget(**budget), remove))


def woken(room: RoomBench, key: str = "k") -> Claimed:
    room.post(ANN, "@bot", key=key)
    [held] = room.woken()
    return held


def wish(room: RoomBench, wake: Claimed, nonce: str, *, tokens: int = 100, usd: float | None = 1) -> Reserve:
    micros = None if usd is None else round(usd * USD)
    return Reserve(wake.ref, wake.fence, nonce, (GLOBEX, room.room, "bot"), Need(tokens, micros))


def views(bench: Bench, company: str = GLOBEX) -> list[BudgetView]:
    with bench.store.write() as connection:
        now_ms = connection.now_ms

    def look(reads: Reads) -> list[BudgetView]:
        reads.speak_for(company)
        return budgets_view(reads, company, now_ms)

    return bench.read(look)


@pytest.mark.parametrize("agent", ["", "bot"])
@pytest.mark.parametrize("here", [False, True])
def test_a_request_that_does_not_fit_is_refused_with_the_numbers(room: RoomBench, agent: str, here: bool) -> None:
    room.bench.do(set_budget, SetBudget(BOB, Budget(room.room if here else "", agent, usd=2.5)))
    wake = woken(room)
    said = [room.bench.do(reserve, wish(room, wake, f"n{n}")) for n in range(3)]
    assert said[:2] == [None, None]
    assert isinstance(said[2], OverBudget)
    assert "$0.5 of $2.5 are left today, and the request may cost $1" in said[2].why
    [view] = views(room.bench)
    assert (view.reserved_usd, view.spent_usd) == (2, 0)


def test_other_agents_rooms_and_companies_have_budgets_of_their_own(room: RoomBench) -> None:
    for budget in (Budget(agent="other", usd=0), Budget(room="elsewhere", usd=0)):
        room.bench.do(set_budget, SetBudget(BOB, budget))
    cap(room.bench, ANN, usd=0)
    assert room.bench.do(reserve, wish(room, woken(room), "n")) is None


def test_what_a_request_came_to_takes_the_place_of_what_was_reserved(room: RoomBench) -> None:
    cap(room.bench, usd=10, tokens=1_000)
    wake = woken(room)
    room.bench.do(reserve, wish(room, wake, "n1"))
    room.bench.do(reserve, wish(room, wake, "n2"))
    for _ in range(2):  # the answer was lost
        room.bench.do(settle, Settle(wake.ref, "n1", GLOBEX, USD // 4, 30))
    room.bench.do(settle, Settle(wake.ref, "n2", GLOBEX))
    [view] = views(room.bench)
    assert (view.spent_usd, view.spent_tokens, view.reserved_usd, view.reserved_tokens) == (1.25, 130, 0, 0)


def test_the_same_wish_again_reserves_once(room: RoomBench) -> None:
    cap(room.bench, usd=1)
    wake = woken(room)
    assert room.bench.twice(reserve, wish(room, wake, "n1")) == (None, None)


def test_what_a_dead_holder_reserved_is_spent_and_the_next_one_reserves_anew(room: RoomBench) -> None:
    cap(room.bench, usd=2)
    wake = woken(room)
    room.bench.do(reserve, wish(room, wake, "n1"))
    room.bench.do(drop, Drop("srv_1"))
    [again] = room.woken()
    assert again.ref == wake.ref
    assert isinstance(room.bench.do(reserve, wish(room, wake, "n2")), LeaseLost)
    assert room.bench.do(reserve, wish(room, again, "n3")) is None
    [view] = views(room.bench)
    assert (view.spent_usd, view.reserved_usd) == (1, 1)


def test_a_cap_in_dollars_holds_no_request_of_unknown_price_unless_it_says_what_that_counts_for(
    room: RoomBench,
) -> None:
    cap(room.bench, usd=5)
    wake = woken(room)
    said = room.bench.do(reserve, wish(room, wake, "n1", usd=None))
    assert isinstance(said, OverBudget)
    assert "the price of its model is not known" in said.why
    cap(room.bench, usd=5, unpriced_usd=2)
    assert [room.bench.do(reserve, wish(room, wake, f"u{n}", usd=None)) for n in range(2)] == [None, None]
    assert isinstance(room.bench.do(reserve, wish(room, wake, "u3", usd=None)), OverBudget)


def test_requests_of_one_batch_share_what_is_left(room: RoomBench) -> None:
    cap(room.bench, tokens=250)
    wake = woken(room)
    said = room.bench.together(*((reserve, wish(room, wake, f"n{n}")) for n in range(4)))
    assert [one is None for one in said] == [True, True, False, False]
    assert "50 of 250 tokens are left today" in said[2].why


def test_two_servers_share_what_is_left(servers: tuple[Bench, Bench]) -> None:
    room = RoomBench(servers[0])
    room.agent(BOB, "bot")
    cap(servers[0], usd=3)
    wake = woken(room)
    said = [servers[n % 2].do(reserve, wish(room, wake, f"n{n}")) for n in range(6)]
    assert [one is None for one in said] == [True] * 3 + [False] * 3
    [view] = views(servers[1])
    assert view.reserved_usd == 3


def test_a_wake_that_a_budget_paused_goes_on_when_there_is_a_larger_one(room: RoomBench) -> None:
    wake = woken(room)
    halted = HaltWake(wake.ref, wake.fence, room.room, Whom(GLOBEX, "bot"), "budget", "it is used up")
    room.bench.do(halt_wake, halted)
    assert room.bench.state(wake.ref.execution) == ("paused", "parked")
    assert room.acts()[-1] == "wake_halted"
    assert cap(room.bench, ANN, usd=1) == 0
    assert cap(room.bench, usd=100) == 1
    assert [one.ref for one in room.woken()] == [wake.ref]
    assert cap(room.bench, remove=True) == 0
    assert views(room.bench) == []


def test_a_day_begins_at_midnight_in_utc(room: RoomBench) -> None:
    cap(room.bench, usd=1)
    [view] = views(room.bench)
    assert view.until_ms % DAY_MS == 0


def test_a_stop_holds_the_wake_of_a_company_that_has_left_until_the_host_lets_it_go_on(room: RoomBench) -> None:
    wake = woken(room)
    room.write(ANN, Stop())
    room.write(BOB, Leave())
    room.bench.do(halt_wake, HaltWake(wake.ref, wake.fence, room.room, Whom(GLOBEX, "bot"), STOPPED, "it was stopped"))
    assert room.bench.state(wake.ref.execution) == ("paused", "parked")
    assert isinstance(room.bench.do(start_in_room, Start(room.room, BOB, "")), NotFound)
    started = room.bench.do(start_in_room, Start(room.room, ANN, ""))
    assert isinstance(started, Started)
    assert started.went_on == 1
    assert room.bench.state(wake.ref.execution) == ("ready", "ready")
