"""One contract for both ways to durable functions' executions: in-process, and over HTTP through a real server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from http_server import Server, serving
from perdure import failpoints
from perdure.client.functions import HttpFunctionSource
from perdure.core import codec
from perdure.core.functions import ClaimedExecution, ClaimRequest, Claims, Entry, HeldExecution, function_spec
from perdure.core.items import OpenApproval, ScheduleTask, SetTimer, StartChild, StepDone
from perdure.core.views import StartRequest
from perdure.core.work import Answer, FunctionLane
from perdure.errors import LeaseLost, LimitExceeded, UserError
from perdure.server.functions import DirectFunctionSource
from perdure.wire.items import TYPES, items_to_json
from perdure.wire.strict import MAX_CONTAINERS

pytestmark = pytest.mark.anyio

ONBOARD = FunctionLane("onboard", "b1")
PATIENCE = 60.0


@dataclass
class Hall:
    """A server, and a worker's way to it."""

    server: Server
    source: DirectFunctionSource | HttpFunctionSource
    nonces: Any

    async def start(self, input: Any = "hi") -> str:
        return (await self.server.node.api("default").start(StartRequest(function_spec(ONBOARD), input))).id

    async def ask(self, *, wait_seconds: float = 0.0, nonce: str = "", **options: Any) -> Claims:
        given = {"slots": 10, **options}
        request = ClaimRequest("wrk_1", nonce or f"n{next(self.nonces)}", (ONBOARD,), **given)
        return await self.source.claim(request, wait_seconds=wait_seconds)

    async def claimed(self, **options: Any) -> ClaimedExecution:
        """Start an execution and claim it."""
        execution = await self.start()
        [one] = (await self.ask(**options)).executions
        assert one.execution == execution
        return one

    def journal(self, one: ClaimedExecution) -> Any:
        return self.source.opened("wrk_1", one)

    async def send(self, execution: str) -> None:
        await self.server.node.api("default").send(execution, "news")

    async def state(self, execution: str) -> str:
        return (await self.server.node.api("default").execution(execution)).state


@pytest.fixture(params=["direct", "http"])
async def hall(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Hall]:
    async with serving(tmp_path / "p.db") as server:
        http = HttpFunctionSource(server.url, server.key)
        source = http if request.param == "http" else server.node.functions("default")
        yield Hall(server, source, itertools.count(1))
        await http.aclose()


def step(address: str, value: Any = 1) -> StepDone:
    return StepDone(address, codec.digest(address), codec.encode({"value": value}))


ITEMS = (
    step("look"),
    ScheduleTask("post", "d", "onboard", "post", "default", {"n": 1, "s": "\ud800"}, "at_least_once", 3, 0),
    OpenApproval("ask", "d", "apr_1", "post", {"n": 1}),
    SetTimer("nap", "d", 60_000),
)


async def test_a_claim_brings_the_log_and_the_fence(hall: Hall) -> None:
    one = await hall.claimed()
    assert (one.name, one.build, one.fence, one.last_seq) == ("onboard", "b1", 1, 1)
    assert [(event.seq, event.kind, event.data["input"]) for event in one.events] == [(1, "started", "hi")]


async def test_a_claim_waits_for_the_first_one(hall: Hall) -> None:
    asking = asyncio.create_task(hall.ask(wait_seconds=PATIENCE))
    execution = await hall.start()
    async with asyncio.timeout(PATIENCE):
        assert [one.execution for one in (await asking).executions] == [execution]


async def test_steps_of_others_do_not_send_a_waiting_claim_to_the_store(hall: Hall, tmp_path: Path) -> None:
    one = await hall.claimed()
    journal = hall.journal(one)
    failpoints.arm("", str(tmp_path / "passed"))
    asking = asyncio.create_task(hall.ask(wait_seconds=PATIENCE, watch={one.execution: 1}))
    for number in range(30):
        await journal.record(1 + number, [step(f"a{number}")])
    execution = await hall.start()
    async with asyncio.timeout(PATIENCE):
        assert [one.execution for one in (await asking).executions] == [execution]
    assert failpoints.passes()["record.before_commit"] >= 30
    assert failpoints.passes()["claim_lanes.before_commit"] <= 3


async def test_the_same_nonce_gets_the_same_executions(hall: Hall) -> None:
    one = await hall.claimed(nonce="again")
    await hall.start()
    assert (await hall.ask(nonce="again")).executions == (one,)


async def test_what_is_recorded_comes_back_as_a_later_run_would_read_it(hall: Hall) -> None:
    one = await hall.claimed()
    journal = hall.journal(one)
    events = await journal.record(1, ITEMS)
    assert [(event.seq, event.kind, event.address) for event in events] == [
        (2, "step_recorded", "look"),
        (3, "task_scheduled", "post"),
        (4, "waitpoint_opened", "ask"),
        (5, "timer_set", "nap"),
    ]
    assert events[1].data["args"] == {"n": 1, "s": "\ud800"}
    assert await journal.events(1) == events
    assert await journal.events(3) == events[2:]


async def test_a_value_of_more_lists_than_a_request_may_hold_is_recorded_and_read_again(hall: Hall) -> None:
    """It travels to the log as text, and back as what it is."""
    one = await hall.claimed()
    value: list[Any] = [[]] * (MAX_CONTAINERS + 1)
    [event] = await hall.journal(one).record(1, [step("many", value)])
    assert event.data["value"] == value
    await hall.journal(one).park(2, 0)
    await hall.send(one.execution)
    [again] = (await hall.ask()).executions
    assert [event.seq for event in again.events] == [1, 2, 3]
    assert (await hall.journal(again).events(1))[0].data["value"] == value


async def test_recording_again_changes_nothing(hall: Hall) -> None:
    journal = hall.journal(await hall.claimed())
    first = await journal.record(1, [step("a")])
    assert await journal.record(1, [step("a"), step("b")]) == [*first, *await journal.events(2)]
    assert [event.address for event in await journal.events(1)] == ["a", "b"]


async def test_an_append_brings_the_news_of_others_in_order(hall: Hall) -> None:
    one = await hall.claimed()
    await hall.send(one.execution)
    events = await hall.journal(one).record(1, [step("a")])
    assert [(event.seq, event.kind) for event in events] == [(2, "message"), (3, "step_recorded")]


async def test_nothing_parks_or_ends_over_news(hall: Hall) -> None:
    one = await hall.claimed()
    await hall.send(one.execution)
    journal = hall.journal(one)
    assert [event.kind for event in await journal.park(1, 5)] == ["message"]
    assert [event.kind for event in await journal.finish(1, 5, "complete", '{"output":1}')] == ["message"]
    assert await journal.park(2, 5) == []
    assert await hall.state(one.execution) == "waiting"


async def test_letting_go_again_is_answered_as_before(hall: Hall) -> None:
    parked, ended, halted = [await hall.claimed() for _ in range(3)]
    for _ in range(2):
        assert await hall.journal(parked).park(1, 5) == []
        assert await hall.journal(ended).finish(1, 5, "complete", '{"output":1}') == "ended"
        await hall.journal(halted).halt("stick", "poison", "it broke")
    states = [await hall.state(one.execution) for one in (parked, ended, halted)]
    assert states == ["waiting", "completed", "stuck"]


async def test_a_parked_execution_comes_back_with_what_is_new(hall: Hall) -> None:
    one = await hall.claimed()
    await hall.journal(one).park(1, 5)
    await hall.send(one.execution)
    [again] = (await hall.ask(known={one.execution: 1})).executions
    assert (again.fence, [event.kind for event in again.events]) == (2, ["message"])


Verb = Callable[[Any], Any]
VERBS: dict[str, Verb] = {
    "record": lambda journal: journal.record(1, [step("a")]),
    "events": lambda journal: journal.events(0),
    "park": lambda journal: journal.park(1, 0),
    "finish": lambda journal: journal.finish(1, 0, "complete", '{"output":1}'),
    "halt": lambda journal: journal.halt("stick", "poison", ""),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_an_old_fence_is_refused(hall: Hall, verb: str) -> None:
    one = await hall.claimed()
    await hall.source.release("wrk_1", [HeldExecution(one.execution, one.fence)])
    await hall.ask()
    before = await hall.server.node.api("default").events(one.execution)
    with pytest.raises(LeaseLost):
        await VERBS[verb](hall.journal(one))
    assert await hall.server.node.api("default").events(one.execution) == before


async def test_what_a_lost_holder_reads_late_hides_no_news_from_the_one_after_it(hall: Hall) -> None:
    """What a holder has been told is no news to whoever waits; that one has not been told."""
    one = await hall.claimed()
    await hall.source.release("wrk_1", [HeldExecution(one.execution, one.fence)])
    [again] = (await hall.ask()).executions
    await hall.send(one.execution)
    with pytest.raises(LeaseLost):
        await hall.journal(one).events(0)
    waiting = await hall.ask(slots=0, watch={one.execution: again.last_seq})
    assert waiting.news == {one.execution: again.last_seq + 1}


async def test_what_no_log_takes_is_the_authors_error_and_touches_no_other(hall: Hall) -> None:
    one, two = await hall.claimed(), await hall.claimed()
    huge = StepDone("a", "d", '{"value":"%s"}' % ("x" * 12_000_000))
    good = asyncio.create_task(hall.journal(two).record(1, [step("b")]))
    with pytest.raises(UserError) as caught:
        await hall.journal(one).record(1, [huge, StepDone("nul\0", "d", '{"value":1}')])
    assert isinstance(caught.value, LimitExceeded) or caught.value.code == "unstorable"
    assert [event.address for event in await good] == ["b"]


async def test_a_renewal_is_answered_one_by_one(hall: Hall) -> None:
    one, two = await hall.claimed(), await hall.claimed()
    held = [HeldExecution(one.execution, one.fence), HeldExecution(two.execution, two.fence)]
    assert await hall.source.release("wrk_1", held[:1]) == [Answer.ACCEPTED]
    assert await hall.source.renew("wrk_1", held, 30_000) == [Answer.LEASE_LOST, Answer.ACCEPTED]


async def test_news_of_a_watched_execution_ends_a_wait_and_ones_own_words_do_not(hall: Hall) -> None:
    one = await hall.claimed()
    asking = asyncio.create_task(hall.ask(wait_seconds=PATIENCE, slots=0, watch={one.execution: 1}))
    await asyncio.sleep(0)
    await hall.journal(one).record(1, [step("a")])
    await hall.send(one.execution)
    async with asyncio.timeout(PATIENCE):
        assert (await asking).news == {one.execution: 3}


async def test_news_from_before_the_wait_is_told_at_once(hall: Hall) -> None:
    one = await hall.claimed()
    await hall.send(one.execution)
    async with asyncio.timeout(PATIENCE):
        assert (await hall.ask(wait_seconds=PATIENCE, watch={one.execution: 1})).news == {one.execution: 2}


async def test_a_long_log_is_read_page_by_page(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.engine.claim.CLAIM_BYTES", 10)
    monkeypatch.setattr("perdure.server.functions.REPLY_BYTES", 100)
    monkeypatch.setattr("perdure.engine.query.PAGE_BYTES", 100)
    one = await hall.claimed()
    events = await hall.journal(one).record(1, [step(f"s{n}", "x" * 40) for n in range(9)])
    assert [event.seq for event in events] == list(range(2, 11))
    await hall.journal(one).park(10, 0)
    await hall.send(one.execution)
    [again] = (await hall.ask()).executions
    assert (again.last_seq, len(again.events)) == (11, 1)
    assert [event.seq for event in await hall.journal(again).events(1)] == list(range(2, 12))


async def test_entries_of_one_request_are_answered_one_by_one(hall: Hall) -> None:
    one = await hall.claimed()
    words: list[Entry] = [
        Entry(one.execution, one.fence, "record", 1, items=({"type": "Nonsense", "address": "x"},)),
        Entry(one.execution, one.fence + 1, "park", 1),
        Entry("exe_nobody", 1, "events", 0),
        Entry(one.execution, one.fence, "finish", 1, event="pause"),
        Entry(one.execution, one.fence, "events", 0),
    ]
    replies = await hall.source.journal("wrk_1", words)
    assert [reply.answer for reply in replies] == ["conflict", "lease_lost", "lease_lost", "conflict", "accepted"]
    assert replies[0].refusal is not None
    assert replies[0].refusal.code == "unknown_item"
    assert [event.kind for event in replies[-1].events] == ["started"]


async def test_a_worker_begins_what_it_says_and_nothing_that_is_the_servers(hall: Hall) -> None:
    """Under another fingerprint, a definition might be a wake's, or one that is to be registered under it later."""
    one = await hall.claimed()
    agent = {"name": "clerk", "model": "scripted/plain", "instructions": ""}
    wake = {"kind": "wake", "on_crash": "resume", "agent": agent}
    notice = {"kind": "notice", "room": "room_1", "to": "default", "text": "hi"}
    fine = StartChild("child", "d", "exe_child", agent, "clerk", codec.digest(agent), '"hi"')
    wrong = [
        replace(fine, spec=wake, definition=codec.digest(wake)),
        replace(fine, definition=codec.digest(wake)),
        replace(fine, spec=notice, agent="notice/default", definition=codec.digest(notice)),
        replace(fine, agent="another"),
        replace(fine, lane="onboard"),
        replace(fine, id="room_of_somebody"),
    ]
    words = [Entry(one.execution, one.fence, "record", 1, items=items_to_json([item])) for item in wrong]
    replies = await hall.source.journal("wrk_1", words)
    assert [reply.answer for reply in replies] == ["conflict"] * len(wrong)
    [taken] = await hall.source.journal("wrk_1", [replace(words[0], items=items_to_json([fine]))])
    assert [event.kind for event in taken.events] == ["child_started"]


async def test_nothing_of_another_company_is_seen_or_touched(hall: Hall) -> None:
    one = await hall.claimed()
    await hall.server.node.add_key("other", "theirs", "pdk_" + "o" * 40)
    theirs = hall.server.node.functions("other")
    if isinstance(hall.source, HttpFunctionSource):
        theirs = HttpFunctionSource(hall.server.url, "pdk_" + "o" * 40)
    held = [HeldExecution(one.execution, one.fence)]
    assert await theirs.renew("wrk_1", held, 1_000) == [Answer.LEASE_LOST]
    assert await theirs.release("wrk_1", held) == [Answer.LEASE_LOST]
    await hall.start()
    watching = ClaimRequest("wrk_1", "n", (ONBOARD,), 5, watch={one.execution: 0})
    assert await theirs.claim(watching, wait_seconds=0) == Claims()
    for verb in VERBS.values():
        with pytest.raises(LeaseLost):
            await verb(theirs.opened("wrk_1", one))
    [reply] = await theirs.journal("wrk_1", [Entry(one.execution, one.fence, "events")])
    assert (reply.answer, reply.events) == (Answer.LEASE_LOST, ())
    if isinstance(theirs, HttpFunctionSource):
        await theirs.aclose()


def test_the_names_of_items_that_travel_are_these() -> None:
    """A release that renames one cannot speak to workers of another."""
    assert {"StepDone", "ScheduleTask", "OpenApproval", "SetTimer"} <= TYPES.keys()
