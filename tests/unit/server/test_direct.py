"""The verbs in-process: what is accepted, what is refused, and a log that is followed without gap or repeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvloop

from node_bench import PATIENCE, Hold, NodeBench, Script, node_over, spec, tool
from perdure.core.events import Event
from perdure.core.views import Started, StartRequest
from perdure.errors import Conflict, InvalidInput, LimitExceeded, NotFound
from perdure.models.scripted import call, say

pytestmark = pytest.mark.anyio


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[NodeBench]:
    async with node_over(tmp_path, [call("look"), say("done")]) as opened:
        yield opened


async def test_the_same_key_is_the_same_execution(bench: NodeBench) -> None:
    request = StartRequest(spec(tool("look")), {"order": 7}, idempotency_key="ticket-7")
    first = await bench.api.start(request)
    again = await bench.api.start(request)
    assert again == Started(first.id, created=False)
    with pytest.raises(Conflict) as refused:
        await bench.api.start(StartRequest(spec(tool("look")), {"order": 8}, idempotency_key="ticket-7"))
    assert refused.value.code == "start_key_conflict"


async def test_fifty_starts_at_once_with_one_key_are_one_execution(bench: NodeBench) -> None:
    request = StartRequest(spec(tool("look")), "hi", idempotency_key="ticket-7")
    answers = await asyncio.gather(*(bench.api.start(request) for _ in range(50)))
    assert len({answer.id for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1
    assert len((await bench.api.executions()).items) == 1


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (StartRequest({"name": "clerk"}, "hi"), "bad_agent"),
        (StartRequest({**spec(), "surprise": 1}, "hi"), "bad_agent"),
        (StartRequest(spec(tool("a"), tool("a")), "hi"), "duplicate_tool"),
        (StartRequest(spec(), float("nan")), "unserialisable"),
    ],
)
async def test_a_start_that_cannot_be_is_refused_and_leaves_nothing(
    bench: NodeBench, request_: StartRequest, code: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await bench.api.start(request_)
    assert refused.value.code == code
    assert (await bench.api.executions()).items == ()


async def test_input_over_the_limit_is_refused(bench: NodeBench) -> None:
    with pytest.raises(LimitExceeded):
        await bench.start(input="x" * 9_000_000)


async def test_what_is_unknown_is_not_found_by_any_verb(bench: NodeBench) -> None:
    async def follow() -> None:
        async for _ in bench.api.follow("exe_none"):
            pass

    verbs = [
        bench.api.execution("exe_none"), bench.api.events("exe_none"), bench.api.tasks("exe_none"),
        bench.api.diagnose("exe_none"), bench.api.send("exe_none", "hi"), bench.api.cancel("exe_none"),
        bench.api.rule("exe_none", "a", "run"), bench.api.decide("apr_none", "approve"), follow(),
    ]  # fmt: skip
    for verb in verbs:
        with pytest.raises(NotFound):
            await verb


async def test_what_a_list_may_ask_for_is_bounded(bench: NodeBench) -> None:
    for wrong in ({"limit": 0}, {"limit": 1_001}, {"state": "sleeping"}):
        with pytest.raises(InvalidInput):
            await bench.api.executions(**wrong)  # type: ignore[arg-type]
    execution = await bench.start(tool("look"))
    with pytest.raises(InvalidInput):
        await bench.api.events(execution, limit=0)


async def test_a_message_over_the_limit_is_refused(bench: NodeBench) -> None:
    execution = await bench.start(tool("look"))
    with pytest.raises(LimitExceeded):
        await bench.api.send(execution, "x" * 9_000_000)


async def test_every_message_is_an_operation_that_may_run_twice(bench: NodeBench) -> None:
    """Two sends are two messages, and each can be repeated by the store after a lost answer."""
    execution = await bench.start(tool("look"))
    await bench.until(execution, "task_scheduled")
    await bench.api.send(execution, "a")
    await bench.api.send(execution, "a")
    keys = [event.data["dedupe"] for event in await bench.log(execution) if event.kind == "message"]
    assert len(keys) == len(set(keys)) == 2
    assert all(keys)


async def followed(bench: NodeBench, execution: str, after: int = 0) -> list[Event]:
    return [event async for event in bench.api.follow(execution, after=after)]


async def test_a_log_is_followed_from_anywhere_to_its_end(bench: NodeBench) -> None:
    execution = await bench.start(tool("look"))
    followers = [asyncio.ensure_future(followed(bench, execution, after)) for after in (0, 1, 3)]
    [task] = await bench.lease("look")
    await bench.done(task, "seen")
    seen = await asyncio.gather(*followers)
    log = await bench.log(execution)
    assert seen == [log, log[1:], log[3:]]
    assert log[-1].kind == "completed"
    assert await followed(bench, execution) == log
    assert await followed(bench, execution, after=log[-2].seq) == log[-1:]


async def test_nothing_follows_an_ended_execution_from_its_end_on(
    bench: NodeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.server.following.POLL_SECONDS", 3_600)  # the first look has to tell
    execution = await bench.start(tool("look"))
    [task] = await bench.lease("look")
    await bench.done(task)
    last = (await bench.result(execution)).last_seq
    async with asyncio.timeout(PATIENCE):
        assert await followed(bench, execution, after=last) == []
        assert await followed(bench, execution, after=last + 100) == []


async def test_a_log_of_many_pages_is_followed_without_a_pause(
    bench: NodeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = await bench.start(tool("look"))
    [task] = await bench.lease("look")
    await bench.done(task)
    await bench.result(execution)
    log = await bench.log(execution)
    monkeypatch.setattr("perdure.engine.query.PAGE_BYTES", 1)
    monkeypatch.setattr("perdure.server.following.POLL_SECONDS", 3_600)
    async with asyncio.timeout(PATIENCE):
        assert await followed(bench, execution) == log


async def test_a_slow_follower_misses_nothing(bench: NodeBench) -> None:
    execution = await bench.start(tool("look"))
    seen: list[int] = []
    async for event in bench.api.follow(execution):
        seen.append(event.seq)
        if event.kind == "task_scheduled":
            for number in range(100):
                await bench.api.send(execution, str(number))
            [task] = await bench.lease("look")
            await bench.done(task)
    assert seen == list(range(1, (await bench.api.execution(execution)).last_seq + 1))


async def test_the_end_is_seen_by_a_follower_that_was_looking_away(tmp_path: Path) -> None:
    """The end may be committed between two looks of a follower."""
    hold = Hold("turn 1/model")
    async with node_over(tmp_path, Script([say("done")], gate=hold)) as bench:
        execution = await bench.start()
        await hold.reached()
        follower = bench.api.follow(execution)
        assert (await anext(follower)).kind == "started"
        hold.open()
        await bench.state(execution, "completed")
        assert [event.kind async for event in follower] == ["step_recorded", "completed"]


async def test_a_ruling_returns_the_effect_as_it_stands(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("send"), say("?"), say("done")]) as bench:
        execution = await bench.start(tool("send", delivery="at_most_once", attempts=1))
        task = await bench.uncertain("send")
        effect = await bench.api.rule(execution, task.address, "happened", by="ann", reason="saw it", value={"id": 7})
        assert (effect.state, effect.ruling, effect.value) == ("done", "happened", {"id": 7})
        assert await bench.api.effects(state="uncertain") == []
        await bench.result(execution)


async def test_the_doctor_knows_the_workers_that_are_connected(bench: NodeBench) -> None:
    execution = await bench.start(tool("look"))
    await bench.state(execution, "waiting", ownership="parked")
    [found] = await bench.api.diagnose(execution)
    assert (found.level, found.command) == ("problem", "perdure worker MODULE:AGENT")


async def test_wait_returns_when_it_has_ended_and_at_once_if_it_had(
    bench: NodeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.server.direct.POLL_SECONDS", 3_600)  # it does not look by itself
    execution = await bench.start(tool("look"))
    waiting = asyncio.ensure_future(bench.api.wait(execution))
    [task] = await bench.lease("look")
    assert not waiting.done()
    await bench.done(task)
    async with asyncio.timeout(PATIENCE):
        await waiting
        await bench.api.wait(execution)
    assert (await bench.api.execution(execution)).state == "completed"


def test_looks_that_find_it_going_on_end_no_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the loop that servers run on, whose timers may be early by its own clock."""
    monkeypatch.setattr("perdure.server.direct.POLL_SECONDS", 0.003)

    async def many_looks() -> bool:
        async with node_over(tmp_path, [call("look"), say("done")]) as bench:
            waiting = asyncio.ensure_future(bench.api.wait(await bench.start(tool("look"))))
            done, _ = await asyncio.wait((waiting,), timeout=2)
            waiting.cancel()
            return bool(done)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert not runner.run(many_looks())
