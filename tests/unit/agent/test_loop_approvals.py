"""Approvals: per call, on the exact arguments, with who and why, and none without."""

from __future__ import annotations

from pathlib import Path

import pytest

from node_bench import NodeBench, node_over, tool
from perdure.core.views import ApprovalView
from perdure.core.work import Answer
from perdure.errors import Conflict, NotFound
from perdure.models.scripted import call, say, together

pytestmark = pytest.mark.anyio

REFUND = tool("refund", approval_required=True, delivery="at_most_once", attempts=1)


async def asked(bench: NodeBench, execution: str, count: int = 1) -> list[ApprovalView]:
    seen = 0
    for _ in range(count):
        seen = (await bench.until(execution, "waitpoint_opened", after=seen)).seq
    return await bench.api.approvals(execution=execution)


async def test_nothing_is_scheduled_before_the_yes(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("refund", {"order": "7", "cents": 100}), say("done")]) as bench:
        execution = await bench.start(REFUND)
        [approval] = await asked(bench, execution)
        assert (approval.tool, approval.args) == ("refund", {"order": "7", "cents": 100})
        assert await bench.none_to_lease("refund")
        await bench.state(execution, "waiting")
        decided = await bench.api.decide(approval.id, "approve", by="ann", reason="fine")
        assert (decided.decision, decided.decided_by, decided.reason) == ("approve", "ann", "fine")
        [task] = await bench.lease("refund")
        assert task.args == approval.args
        assert await bench.begin(task) is Answer.ACCEPTED
        await bench.done(task, "sent")
        assert (await bench.result(execution)).state == "completed"
        assert await bench.api.approvals(execution=execution) == []


async def test_a_no_is_told_to_the_model_with_who_and_why(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("refund"), say("understood")]) as bench:
        execution = await bench.start(REFUND)
        [approval] = await asked(bench, execution)
        await bench.api.decide(approval.id, "reject", by="ann", reason="over budget")
        assert (await bench.result(execution)).output == {"result": "understood", "finish_reason": "stop"}
        role, text = bench.script.shown()[-1]
        assert role == "tool"
        assert text.startswith("REJECTED by ann: over budget. The call was not made.")
        assert "task_scheduled" not in await bench.kinds(execution)


async def test_a_no_without_a_name_or_reason_reads_well(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("refund"), say("understood")]) as bench:
        execution = await bench.start(REFUND)
        [approval] = await asked(bench, execution)
        await bench.api.decide(approval.id, "reject")
        await bench.result(execution)
        assert bench.script.shown()[-1][1].startswith("REJECTED by a person. The call was not made.")


async def test_each_call_has_an_approval_of_its_own(tmp_path: Path) -> None:
    replies = [together(call("refund", {"order": "1"}), call("refund", {"order": "2"})), say("done")]
    async with node_over(tmp_path, replies) as bench:
        execution = await bench.start(REFUND)
        first, second = await asked(bench, execution, 2)
        assert [first.args, second.args] == [{"order": "1"}, {"order": "2"}]
        assert first.digest != second.digest
        await bench.api.decide(second.id, "approve", by="ann")
        [task] = await bench.lease("refund")
        assert task.args == second.args
        await bench.api.decide(first.id, "reject", by="ann")
        await bench.begin(task)
        await bench.done(task, "sent")
        await bench.result(execution)
        texts = [text for role, text in bench.script.shown() if role == "tool"]
        assert texts[0].startswith("REJECTED")
        assert texts[1] == "sent"


async def test_a_call_without_approval_does_not_wait_for_one_beside_it(tmp_path: Path) -> None:
    async with node_over(tmp_path, [together(call("refund"), call("look")), say("done")]) as bench:
        execution = await bench.start(REFUND, tool("look"))
        [approval] = await asked(bench, execution)
        [task] = await bench.lease("look")
        await bench.done(task, "seen")
        await bench.api.decide(approval.id, "reject")
        assert (await bench.result(execution)).state == "completed"


async def test_a_decision_is_final(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("refund"), say("done")]) as bench:
        execution = await bench.start(REFUND)
        [approval] = await asked(bench, execution)
        await bench.api.decide(approval.id, "reject", by="ann")
        await bench.api.decide(approval.id, "reject", by="ann")
        with pytest.raises(Conflict) as refused:
            await bench.api.decide(approval.id, "approve", by="bob")
        assert refused.value.code == "already_decided"
        with pytest.raises(NotFound):
            await bench.api.decide("apr_none", "approve")
        await bench.result(execution)


async def test_a_cancelled_execution_waits_for_no_approval(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("refund"), say("done")]) as bench:
        execution = await bench.start(REFUND)
        [approval] = await asked(bench, execution)
        await bench.api.cancel(execution)
        with pytest.raises(Conflict) as refused:
            await bench.api.decide(approval.id, "approve")
        assert refused.value.code == "not_waiting"
        assert (await bench.result(execution)).state == "cancelled"


async def test_a_yes_given_while_paused_counts_after_the_resume(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("refund"), say("done")]) as bench:
        execution = await bench.start(REFUND)
        [approval] = await asked(bench, execution)
        await bench.api.pause(execution)
        await bench.api.decide(approval.id, "approve")
        await bench.state(execution, "paused", ownership="parked")
        assert await bench.none_to_lease("refund")
        await bench.api.resume(execution)
        [task] = await bench.lease("refund")
        await bench.begin(task)
        await bench.done(task)
        assert (await bench.result(execution)).state == "completed"


async def test_an_effect_that_was_approved_may_begin_once_only(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("refund"), say("done")]) as bench:
        execution = await bench.start(REFUND)
        [approval] = await asked(bench, execution)
        await bench.api.decide(approval.id, "approve")
        [task] = await bench.lease("refund")
        assert await bench.begin(task, "b1") is Answer.ACCEPTED
        assert await bench.begin(task, "b1") is Answer.ALREADY_ACCEPTED
        assert await bench.begin(task, "b2") is Answer.CONFLICT
        await bench.done(task)
        await bench.result(execution)
