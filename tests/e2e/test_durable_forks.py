"""Forks of durable functions on a real worker: a prefix with edits that does nothing again, and acts on a word only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentHandle, AgentRuntime, Conflict, InvalidInput, durable
from perdure.core.events import Event, Kind
from perdure.flow import Retry, StepFailed, run_function, saga, signal, step
from runtimes import runtime_at

done: list[str] = []


def act(what: str) -> str:
    done.append(what)
    return f"did {what}"


def look(what: str) -> str:
    done.append(f"look {what}")
    return what


def pretend(what: str) -> str:
    return f"as if {what}"


@durable(build="b1")
async def order(what: str) -> list[str]:
    """Look, then charge once and mail."""
    found = await step(look, what, delivery="repeatable")
    charged = await step(act, f"charge {found}", name="charge", delivery="at_most_once")
    return [charged, await step(act, f"mail {found}", name="mail")]


@durable(build="b1")
async def rehearsed(what: str) -> list[str]:
    """The same, with stand-ins for a fork."""
    found = await step(look, what, delivery="repeatable")
    charge = await step(act, f"charge {found}", name="charge", delivery="at_most_once", simulate=pretend)
    return [charge, await step(act, f"mail {found}", name="mail", simulate=pretend)]


@durable(build="b1")
async def flaky(what: str) -> str:
    """Fail at the first try."""
    return await step(once_more, what, name="flaky", retries=Retry(retries=1, pause=timedelta(0)))


def once_more(what: str) -> str:
    done.append(what)
    if done.count(what) < 2:
        raise ValueError("not yet")
    return f"{what} at last"


@durable(build="b1")
async def parent(what: str) -> Any:
    """Begin another, then ask for a word."""
    child = await run_function(order, what, name="child")
    return [child.output, await signal("go")]


@durable(build="b1")
async def undoing(what: str) -> Any:
    """Book, then wait; undo the booking if that is cancelled."""
    async with saga() as undo:
        booked = await step(act, f"book {what}", name="book")
        undo.on_failure(act, f"unbook {what}", name="unbook")
        await signal("go")
    return booked


@durable(build="b1")
async def doubtful() -> str:
    """Raise half way."""

    def half() -> None:
        done.append("half")
        raise RuntimeError("half way")

    try:
        await step(half, delivery="at_most_once")
    except StepFailed:
        return "unknown"
    return "known"


FUNCTIONS = (order, rehearsed, flaky, parent, undoing, doubtful)


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[AgentRuntime]:
    done.clear()
    with runtime_at(tmp_path / "p.db") as runtime:
        runtime.serve(*FUNCTIONS, blocking=False)
        yield runtime


def log(runtime: AgentRuntime, handle: AgentHandle) -> list[Event]:
    return runtime.wait(runtime.api.events(handle.execution_id))


def place(runtime: AgentRuntime, handle: AgentHandle, address: str, kind: str) -> int:
    """Return the number of the event of that kind at an address, once it is there."""

    async def found() -> int:
        async for event in runtime.api.follow(handle.execution_id):
            if (event.address, event.kind) == (address, kind):
                return event.seq
        raise AssertionError(f"it ended without {kind} at {address!r}")

    return runtime.wait(asyncio.wait_for(found(), 60))


def test_a_fork_does_nothing_again_that_the_origin_did(runtime: AgentRuntime) -> None:
    origin = runtime.start(order, "tea")
    assert origin.result().output == ["did charge tea", "did mail tea"]
    fork = origin.fork(1)
    assert fork.result().output == ["did charge tea", "did mail tea"]
    assert done == ["look tea", "charge tea", "mail tea", "look tea"]
    [effect] = runtime.wait(runtime.api.effects(execution=fork.execution_id))
    assert (effect.claims, effect.outcome, effect.served) == (0, "done", origin.execution_id)


def test_other_input_runs_what_stands_in_for_the_steps(runtime: AgentRuntime) -> None:
    origin = runtime.start(rehearsed, "tea")
    origin.result()
    fork = origin.fork(1, input="rum")
    assert fork.result().output == ["as if charge rum", "as if mail rum"]
    assert done == ["look tea", "charge tea", "mail tea", "look rum"]
    [effect] = runtime.wait(runtime.api.effects(execution=fork.execution_id, state="simulated"))
    assert (effect.tool, effect.delivery, effect.attempts) == ("charge", "at_most_once", 0)
    [mail] = [event for event in log(runtime, fork) if event.address == "mail"]
    assert mail.data == {"value": "as if mail rum", "simulated": True}


def test_the_edited_result_of_a_step_is_what_the_rest_is_made_of(runtime: AgentRuntime) -> None:
    origin = runtime.start(rehearsed, "tea")
    origin.result()
    seq = place(runtime, origin, "look", Kind.STEP_RECORDED)
    fork = origin.fork(seq, results={"look": "gin"})
    assert fork.result().output == ["as if charge gin", "as if mail gin"]
    assert done == ["look tea", "charge tea", "mail tea"]


def test_an_edit_in_the_prefix_keeps_the_results_behind_it(runtime: AgentRuntime) -> None:
    origin = runtime.start(rehearsed, "tea")
    origin.result()
    seq = place(runtime, origin, "charge", Kind.TASK_COMPLETED)
    fork = origin.fork(seq, input="rum")
    assert fork.result().output == ["did charge tea", "did mail tea"]


def test_without_a_stand_in_it_waits_for_a_person_at_each_step(runtime: AgentRuntime) -> None:
    origin = runtime.start(order, "tea")
    origin.result()
    fork = origin.fork(1, input="rum")
    place(runtime, fork, "charge", Kind.PAUSED)
    assert "charge rum" not in done
    found = fork.diagnose()
    assert "is about to call charge" in found[0].what
    fork.resume()
    place(runtime, fork, "mail", Kind.PAUSED)
    assert done[-1] == "charge rum"
    fork.resume()
    assert fork.result().output == ["did charge rum", "did mail rum"]
    assert done.count("charge rum") == done.count("mail rum") == 1


def test_one_word_of_a_person_is_for_all_tries_of_a_step(runtime: AgentRuntime) -> None:
    origin = runtime.start(flaky, "tea")
    assert origin.result().output == "tea at last"
    assert origin.fork(1).result().output == "tea at last"
    assert done == ["tea", "tea"]
    fork = origin.fork(1, input="rum")
    place(runtime, fork, "flaky", Kind.PAUSED)
    fork.resume()
    assert fork.result().output == "rum at last"
    assert done == ["tea", "tea", "rum", "rum"]
    assert [event.kind for event in log(runtime, fork)].count(Kind.PAUSED) == 1


def test_of_a_step_that_was_tried_again_only_the_last_try_can_be_edited(runtime: AgentRuntime) -> None:
    origin = runtime.start(flaky, "tea")
    origin.result()
    seq = len(log(runtime, origin)) - 1
    with pytest.raises(InvalidInput, match="edit the result of its last try"):
        origin.fork(seq, results={"flaky": "x"})
    last = next(event.address for event in reversed(log(runtime, origin)) if event.kind is Kind.STEP_RECORDED)
    assert origin.fork(seq, results={last: "edited"}).result().output == "edited"


def test_a_child_that_the_origin_began_is_not_begun_again(runtime: AgentRuntime) -> None:
    origin = runtime.start(parent, "tea")
    place(runtime, origin, "child", Kind.CHILD_ENDED)
    fork = origin.fork(1)
    fork.signal("go", "now")
    assert fork.result().output == [["did charge tea", "did mail tea"], "now"]
    assert done.count("charge tea") == 1
    other = origin.fork(1, input="rum")
    place(runtime, other, "child", Kind.PAUSED)
    assert [event.kind for event in log(runtime, other)].count(Kind.CHILD_STARTED) == 0
    other.resume()
    other.signal("go", "now")
    assert other.result().output == [["did charge rum", "did mail rum"], "now"]


def test_a_cancelled_fork_undoes_nothing_that_it_did_not_do(runtime: AgentRuntime) -> None:
    origin = runtime.start(undoing, "room")
    place(runtime, origin, "signal go", Kind.WAIT_OPENED)
    fork = origin.fork(1)
    place(runtime, fork, "signal go", Kind.WAIT_OPENED)
    fork.cancel()
    place(runtime, fork, "", Kind.CANCELLED)
    assert done == ["book room"]
    [refused] = [event for event in log(runtime, fork) if event.address == "unbook"]
    assert refused.data["error"]["code"] == "fork_may_not_act"


def test_a_claim_of_the_prefix_that_nobody_knows_of_is_never_armed_again(runtime: AgentRuntime) -> None:
    origin = runtime.start(doubtful)
    seq = place(runtime, origin, "half", Kind.TASK_UNCERTAIN)
    fork = origin.fork(seq)
    [effect] = runtime.wait(runtime.api.effects(execution=fork.execution_id))
    assert effect.state == "uncertain"
    runtime.wait(runtime.api.rule(fork.execution_id, "half", "happened", by="ann", value=None))
    assert fork.result().output == "known"
    assert done == ["half"]


def test_an_edit_of_what_it_has_not_is_named(runtime: AgentRuntime) -> None:
    origin = runtime.start(order, "tea")
    origin.result()
    with pytest.raises(InvalidInput, match="has no prompt: edit its input"):
        origin.fork(1, prompt="x")
    with pytest.raises(InvalidInput, match="has no model: edit its input"):
        origin.fork(1, model="scripted/x")
    with pytest.raises(InvalidInput, match="there is no result of 'nothing'"):
        origin.fork(1, results={"nothing": 1})


def test_the_end_of_an_execution_is_no_place_to_fork_it(runtime: AgentRuntime) -> None:
    origin = runtime.start(order, "tea")
    origin.result()
    with pytest.raises(Conflict, match="fork it before"):
        origin.fork(len(log(runtime, origin)))
