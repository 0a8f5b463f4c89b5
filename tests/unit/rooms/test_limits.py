"""Stops and budgets over a node: a wake that meets one is paused, keeps what it has, and goes on when it is lifted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node_bench import Hold, Script, wait_until
from perdure.core.budgets import Budget
from perdure.core.rooms import Post, Stop
from perdure.core.views import ExecutionView
from perdure.errors import Conflict, InvalidInput
from perdure.models.port import ModelError, Usage
from room_node import ACME, GLOBEX, RoomNode, answer, room_over

pytestmark = pytest.mark.anyio

CLERK = f"{GLOBEX}/clerk"


async def paused(room: RoomNode, wake: str) -> ExecutionView:
    """Return a wake once it is paused and nobody has it."""

    async def look() -> ExecutionView | None:
        view = await room.globex.execution(wake)
        return view if view.state == "paused" else None

    return await wait_until(look)


async def stop(room: RoomNode, member: str, by: Any = None) -> None:
    await (by or room.globex).write_in_room(room.room, Stop(member, "it talks too much"), by="bob")


@pytest.mark.parametrize("member", [CLERK, GLOBEX, ""])
async def test_what_is_stopped_makes_no_request_and_goes_on_when_it_may(tmp_path: Path, member: str) -> None:
    script = Script([answer("42")])
    async with room_over(tmp_path, script) as room:
        wake_before = (await room.acme.room_wakes(room.room)) == []
        assert wake_before
        await stop(room, member, room.acme)
        if member:
            wake = await room.post("@clerk?")
            view = await paused(room, wake)
            assert "was stopped by acme/bob: it talks too much" in (view.message or "")
            assert script.requests == []
            assert (await room.acme.start_room(room.room, member)).wakes == 1
            assert (await room.output(wake))["result"] == "42"
        else:
            with pytest.raises(Conflict, match="the room was stopped by acme/bob"):
                await room.post("@clerk?")
            assert (await room.acme.start_room(room.room)).lifted
            await room.ended(await room.post("@clerk?"))


async def test_a_reply_that_comes_after_the_stop_is_kept_and_posted_after_the_start(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    script = Script([answer("42", remember={"text": "kept"})], gate=hold)
    async with room_over(tmp_path, script) as room:
        wake = await room.post("@clerk?")
        await hold.reached()
        await stop(room, CLERK)
        hold.open()
        await paused(room, wake)
        assert await room.texts() == ["@clerk?"]
        assert [one.member for one in await room.acme.room_stops(room.room)] == [CLERK]
    async with room_over(tmp_path, script) as room:
        assert (await room.globex.start_room(room.room, CLERK, by="bob")).wakes == 1
        await room.ended(wake)
        assert await room.texts() == ["@clerk?", "42"]
        assert len(script.requests) == 1
        acts = await room.ledger()
        assert acts[-7:] == ["posted", "stopped", "wake_halted", "started", "posted", "remembered", "wake_ended"]


async def test_who_may_stop_whom(tmp_path: Path) -> None:
    async with room_over(tmp_path, [answer("42")]) as room:
        for member, code in (("", "not_the_host"), (ACME, "not_yours")):
            with pytest.raises(Conflict) as refused:
                await stop(room, member)
            assert refused.value.code == code
        with pytest.raises(InvalidInput, match="is nobody in room"):
            await stop(room, "globex/nobody")
        await stop(room, GLOBEX)
        with pytest.raises(Conflict, match="globex was stopped by globex/bob"):
            await room.globex.write_in_room(room.room, Post("hi"))
        await room.acme.start_room(room.room, GLOBEX)
        assert not (await room.acme.start_room(room.room, GLOBEX)).lifted


async def test_of_two_stops_both_have_to_be_lifted(tmp_path: Path) -> None:
    async with room_over(tmp_path, [answer("42")]) as room:
        await stop(room, CLERK)
        await stop(room, GLOBEX)
        wake = await room.post("@clerk?")
        await paused(room, wake)
        assert (await room.globex.start_room(room.room, GLOBEX)).wakes == 0
        assert (await room.globex.start_room(room.room, CLERK)).wakes == 1
        await room.ended(wake)


async def test_no_further_try_is_made_of_a_request_after_the_stop(tmp_path: Path) -> None:
    hold = Hold("turn 1/model")
    script = Script([ModelError("transient", "busy", retry_after=0.01)], gate=hold)
    async with room_over(tmp_path, script) as room:
        wake = await room.post("@clerk?")
        await hold.reached()
        await stop(room, CLERK)
        hold.open()
        await paused(room, wake)
        assert len(script.requests) == 1


async def test_a_budget_stops_a_run_in_the_middle_and_says_why(tmp_path: Path) -> None:
    bad, good = answer("first", remember={"line": "?"}), answer("second")
    script = Script([bad, good])
    async with room_over(tmp_path, script) as room:
        await room.globex.set_room_budget(Budget(usd=1.5, unpriced_usd=1))
        wake = await room.post("@clerk?")
        view = await paused(room, wake)
        assert view.reason == "quota"
        assert "the budget of globex is used up: $0.5 of $1.5 are left today" in (view.message or "")
        assert len(script.requests) == 1
        [seen] = await room.globex.room_budgets()
        assert (seen.spent_usd, seen.reserved_usd) == (1, 0)
        await room.globex.set_room_budget(Budget(usd=2, unpriced_usd=1))
        await room.ended(wake)
        assert await room.texts() == ["@clerk?", "second"]


async def test_a_request_under_a_budget_asks_for_no_more_than_was_reserved(tmp_path: Path) -> None:
    script = Script([answer("42")])
    async with room_over(tmp_path, script) as room:
        await room.globex.set_room_budget(Budget(tokens=1_000_000))
        await room.ended(await room.post("@clerk?"))
        assert script.requests[0].settings["max_tokens"] == 8_192
        [seen] = await room.globex.room_budgets()
        assert seen.spent_tokens > 8_192  # the script says nothing of tokens
        assert seen.reserved_tokens == 0


@pytest.mark.parametrize("aloud", [False, True])
async def test_a_reply_is_settled_by_what_it_used_however_it_came(tmp_path: Path, aloud: bool) -> None:
    reply = replace(answer("forty two"), usage=Usage(30, 4), cost_usd=0.25)
    async with room_over(tmp_path, Script([reply], aloud=aloud)) as room:
        await room.globex.set_room_budget(Budget(usd=1, unpriced_usd=1, tokens=1_000_000))
        await room.ended(await room.post("@clerk?"))
        [seen] = await room.globex.room_budgets()
        assert (seen.spent_usd, seen.reserved_usd) == (0.25, 0)
        assert (seen.spent_tokens, seen.reserved_tokens) == (34, 0)


@pytest.mark.parametrize("aloud", [False, True])
async def test_a_request_that_surely_cost_nothing_is_given_back(tmp_path: Path, aloud: bool) -> None:
    script = Script([ModelError("rejected", "no", maybe_billed=False)], aloud=aloud)
    async with room_over(tmp_path, script) as room:
        await room.globex.set_room_budget(Budget(usd=1, unpriced_usd=1))
        await room.ended(await room.post("@clerk?"))
        [seen] = await room.globex.room_budgets()
        assert (seen.spent_usd, seen.reserved_usd) == (0, 0)


async def test_twenty_wakes_at_once_never_pass_the_cap(tmp_path: Path) -> None:
    script = Script([answer("42")])
    async with room_over(tmp_path, script) as room:
        await room.globex.set_room_budget(Budget(usd=7, unpriced_usd=1))
        wakes = [await room.post(f"@clerk {n}") for n in range(20)]

        async def settled() -> bool:
            states = [one.state for one in await room.globex.room_wakes(room.room)]
            return states.count("completed") == 7 and states.count("paused") == 13

        await wait_until(settled)
        assert len(script.requests) == 7
        await room.globex.set_room_budget(Budget(usd=20, unpriced_usd=1))
        for wake in wakes:
            assert (await room.ended(wake)).state == "completed"
        assert len(script.requests) == 20


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (Budget(), "a budget has a cap"),
        (Budget(usd=-1), "usd should be 0 to"),
        (Budget(usd=float("nan")), "usd should be 0 to"),
        (Budget(tokens=5, unpriced_usd=1), "goes with usd"),
        (Budget(usd=1, room="\n"), "room should be a name"),
    ],
)
async def test_a_budget_that_cannot_be_is_named(tmp_path: Path, budget: Budget, why: str) -> None:
    async with room_over(tmp_path, [answer("42")]) as room:
        with pytest.raises(InvalidInput, match=why):
            await room.globex.set_room_budget(budget)
