"""Forks of agents' executions, run by a real executor: they go on from the edited prefix, and do nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from node_bench import Script, node_over, tool
from perdure.core.views import ForkEdits
from perdure.models.scripted import call, say

pytestmark = pytest.mark.anyio

PAY = tool("pay", delivery="at_most_once")


async def test_a_fork_shows_the_model_the_edited_result_and_asks_nothing_again(tmp_path: Path) -> None:
    script = Script([call("look"), say("done")])
    async with node_over(tmp_path, script) as bench:
        origin = await bench.start(tool("look"))
        [task] = await bench.lease("look")
        await bench.done(task, "rain")
        await bench.result(origin)
        made = await bench.api.fork(origin, 4, ForkEdits(results={task.address: "sun"}))
        assert (await bench.result(made.id)).state == "completed"
        assert script.calls == ["turn 1/model", "turn 2/model", "turn 2/model"]
        assert ("tool", "sun") in script.shown()


async def test_an_edited_prompt_keeps_the_replies_of_the_prefix(tmp_path: Path) -> None:
    script = Script([call("look"), say("done")])
    async with node_over(tmp_path, script) as bench:
        origin = await bench.start(tool("look"))
        [task] = await bench.lease("look")
        await bench.done(task, "rain")
        await bench.result(origin)
        made = await bench.api.fork(origin, 4, ForkEdits(prompt="in verse"))
        assert (await bench.result(made.id)).state == "completed"
        assert ("user", "in verse") in script.shown()
        assert len(script.calls) == 3


async def test_what_the_origin_did_is_taken_and_not_done_again(tmp_path: Path) -> None:
    script = Script([call("pay", {"cents": 5}), say("done")])
    async with node_over(tmp_path, script) as bench:
        origin = await bench.start(PAY)
        [task] = await bench.lease("pay")
        await bench.begin(task)
        await bench.done(task, "paid")
        await bench.result(origin)
        made = await bench.api.fork(origin, 1, ForkEdits())
        assert (await bench.result(made.id)).state == "completed"
        assert ("tool", "paid") in script.shown()
        assert await bench.none_to_lease("pay")
        [effect] = await bench.api.effects(execution=made.id)
        assert effect.claims == 0


async def test_a_new_act_waits_until_somebody_resumes_the_fork(tmp_path: Path) -> None:
    script = Script([lambda request: call("pay", {"cents": len(request.messages[-1].text)}), say("done")])
    async with node_over(tmp_path, script) as bench:
        origin = await bench.start(PAY, input="four")
        [task] = await bench.lease("pay")
        await bench.begin(task)
        await bench.done(task, "paid")
        await bench.result(origin)
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
