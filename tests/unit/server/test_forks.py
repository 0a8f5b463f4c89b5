"""Forks of agents' executions, run by a real executor: they go on from the edited prefix, and do nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node_bench import NodeBench, Script, node_over, tool
from perdure.core.codec import Json
from perdure.core.views import ForkEdits
from perdure.errors import InvalidInput
from perdure.models.scripted import call, say
from perdure.wire.account import proof_of

pytestmark = pytest.mark.anyio

PAY = tool("pay", delivery="at_most_once")


def said(output: Any) -> str:
    """Return what an agent answered."""
    return output["result"]


async def looked_out(bench: NodeBench) -> tuple[str, str]:
    """Have an execution look once, see rain, and end. Return it and the address of its look."""
    origin = await bench.start(tool("look"))
    [task] = await bench.lease("look")
    await bench.done(task, "rain")
    await bench.result(origin)
    return origin, task.address


async def paid(bench: NodeBench, **given: Any) -> str:
    """Have an execution pay once, and end. Return it."""
    origin = await bench.start(PAY, **given)
    [task] = await bench.lease("pay")
    await bench.begin(task)
    await bench.done(task, "paid")
    await bench.result(origin)
    return origin


async def test_a_fork_shows_the_model_the_edited_result_and_asks_nothing_again(tmp_path: Path) -> None:
    script = Script([call("look"), say("done")])
    async with node_over(tmp_path, script) as bench:
        origin, looked = await looked_out(bench)
        made = await bench.api.fork(origin, 4, ForkEdits(results={looked: "sun"}))
        assert (await bench.result(made.id)).state == "completed"
        assert script.calls == ["turn 1/model", "turn 2/model", "turn 2/model"]
        assert ("tool", "sun") in script.shown()


async def test_an_edited_prompt_keeps_the_replies_of_the_prefix(tmp_path: Path) -> None:
    script = Script([call("look"), say("done")])
    async with node_over(tmp_path, script) as bench:
        origin, _looked = await looked_out(bench)
        made = await bench.api.fork(origin, 4, ForkEdits(prompt="in verse"))
        assert (await bench.result(made.id)).state == "completed"
        assert ("user", "in verse") in script.shown()
        assert len(script.calls) == 3


async def test_another_reply_in_the_models_place_ends_the_fork_and_nobody_is_asked(tmp_path: Path) -> None:
    script = Script([call("look"), say("done")])
    async with node_over(tmp_path, script) as bench:
        origin, _looked = await looked_out(bench)
        made = await bench.api.fork(origin, 2, ForkEdits(results={"turn 1/model": "I need not look."}))
        view = await bench.result(made.id)
        assert (view.state, said(view.output)) == ("completed", "I need not look.")
        assert (view.usage.cost_usd, len(script.calls)) == (0.0, 2)


async def test_another_reply_may_call_tools(tmp_path: Path) -> None:
    script = Script([say("no"), say("it is sunny")])
    async with node_over(tmp_path, script) as bench:
        origin = await bench.start(tool("look", delivery="repeatable"))
        await bench.result(origin)
        reply: Json = {"text": "", "tool_calls": [{"name": "look", "arguments": {}}]}
        made = await bench.api.fork(origin, 2, ForkEdits(results={"turn 1/model": reply}))
        [task] = await bench.lease("look")
        await bench.done(task, "sun")
        assert said((await bench.result(made.id)).output) == "it is sunny"
        assert ("tool", "sun") in script.shown()


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (7, "expected a text"),
        ({"txt": "x"}, "expected a text"),
        ({"text": 7}, "text: expected text"),
        ({"tool_calls": "look"}, "tool_calls: expected a list"),
        ({"tool_calls": ["look"]}, "tool call 1: expected an object"),
        ({"tool_calls": [{"arguments": "{}"}]}, "name: expected text"),
    ],
)
async def test_a_reply_that_is_none_is_named(tmp_path: Path, reply: object, why: str) -> None:
    async with node_over(tmp_path, Script([say("done")])) as bench:
        origin = await bench.start()
        await bench.result(origin)
        with pytest.raises(InvalidInput, match=f"'turn 1/model' cannot be read: .*{why}"):
            await bench.api.fork(origin, 2, ForkEdits(results={"turn 1/model": reply}))  # pyright: ignore[reportArgumentType]


async def test_the_same_key_forks_once(tmp_path: Path) -> None:
    async with node_over(tmp_path, Script([say("done")])) as bench:
        origin = await bench.start()
        await bench.result(origin)
        first, again = [await bench.api.fork(origin, 1, ForkEdits(), idempotency_key="k") for _ in range(2)]
        assert (first.created, again.created, again.id) == (True, False, first.id)


async def test_what_the_origin_did_is_taken_and_not_done_again(tmp_path: Path) -> None:
    script = Script([call("pay", {"cents": 5}), say("done")])
    async with node_over(tmp_path, script) as bench:
        origin = await paid(bench)
        made = await bench.api.fork(origin, 1, ForkEdits())
        assert (await bench.result(made.id)).state == "completed"
        assert ("tool", "paid") in script.shown()
        assert await bench.none_to_lease("pay")
        [effect] = await bench.api.effects(execution=made.id)
        assert effect.claims == 0
        proof = await proof_of(bench.api, made.id)
        theirs = (await bench.api.log(origin, limit=1)).links[0].hash
        assert f"those before 2 are copies of {origin}, up to its hash {theirs}" in proof.verdict


async def test_a_new_act_waits_until_somebody_resumes_the_fork(tmp_path: Path) -> None:
    script = Script([lambda request: call("pay", {"cents": len(request.messages[-1].text)}), say("done")])
    async with node_over(tmp_path, script) as bench:
        origin = await paid(bench, input="four")
        made = await bench.api.fork(origin, 1, ForkEdits(prompt="twelve chars"))
        view = await bench.state(made.id, "paused", ownership="parked")
        assert "is about to call pay" in (view.message or "")
        assert await bench.none_to_lease("pay")
        await bench.api.resume(made.id)
        [task] = await bench.lease("pay")
        await bench.begin(task)
        await bench.done(task, "paid more")
        assert (await bench.result(made.id)).state == "completed"


async def test_another_model_answers_from_there_on(tmp_path: Path) -> None:
    script = Script([say("done")])
    async with node_over(tmp_path, script) as bench:
        origin = await bench.start()
        await bench.result(origin)
        made = await bench.api.fork(origin, 1, ForkEdits(model="scripted:clerk"))
        view = await bench.result(made.id)
        assert (view.state, view.model) == ("completed", "scripted:clerk")
