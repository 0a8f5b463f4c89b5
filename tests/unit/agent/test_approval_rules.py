"""What the author of a tool asks of those who approve: checked at once, and followed to the words that models read."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from node_bench import NodeBench, node_over
from node_bench import tool as entry
from perdure import Approval, tool
from perdure.agent.tool import definition_of
from perdure.core.approval import ApprovalRules
from perdure.core.views import ApprovalView
from perdure.errors import Conflict, InvalidInput
from perdure.models.scripted import call, say

pytestmark = pytest.mark.anyio


def rules_of(**options: Any) -> tuple[bool, ApprovalRules]:
    @tool(**options)
    def pay(cents: int) -> str:
        """Pay."""
        return str(cents)

    found = definition_of(pay).options
    return found.approval_required, found.approval


def test_an_approval_says_who_how_many_and_until_when() -> None:
    asked = Approval(
        quorum=2,
        approvers=("ann", "bob"),
        expires_seconds=timedelta(hours=1),
        escalate_seconds=60,
        escalate_to=("boss",),
        not_by_starter=True,
    )
    assert rules_of(approval=asked) == (
        True,
        ApprovalRules(2, ("ann", "bob"), 3_600_000, 60_000, ("boss",), not_by_starter=True),
    )
    assert rules_of(approval_required=True, approval_timeout_seconds=90) == (True, ApprovalRules(expires_ms=90_000))
    assert rules_of(approval_required=True) == (True, ApprovalRules())
    assert rules_of() == (False, ApprovalRules())


@pytest.mark.parametrize(
    "options",
    [
        {"approval": True},
        {"approval": Approval(), "approval_required": False},
        {"approval_timeout_seconds": 5},
        {"approval": Approval(expires_seconds=5), "approval_timeout_seconds": 5},
        {"approval": Approval(approvers="ann")},  # type: ignore[arg-type]
        {"approval": Approval(quorum=3, approvers=("ann",))},
        {"approval": Approval(expires_seconds=0)},
        {"approval": Approval(escalate_seconds=5)},
    ],
)
def test_rules_that_make_no_sense_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        rules_of(**options)
    assert refused.value.code == "bad_tool"


REFUND = entry("refund", approval_required=True)


async def asked(bench: NodeBench, execution: str) -> ApprovalView:
    await bench.until(execution, "waitpoint_opened")
    [found] = await bench.api.approvals(execution=execution)
    return found


async def test_an_edited_call_runs_with_the_new_arguments_and_the_model_is_told(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("refund", {"order": "7", "cents": 100}), say("done")]) as bench:
        execution = await bench.start(REFUND)
        approval = await asked(bench, execution)
        decided = await bench.api.decide(approval.id, "edit", by="ann", reason="half", args={"order": "7", "cents": 50})
        assert (decided.decision, decided.args, decided.edited) == ("edit", {"order": "7", "cents": 50}, True)
        [task] = await bench.lease("refund")
        assert task.args == {"order": "7", "cents": 50}
        await bench.done(task, "sent")
        await bench.result(execution)
        text = bench.script.shown()[-1][1]
        assert text == 'EDITED by ann: half: the call was made with {"order":"7","cents":50} instead. Its result:\nsent'


async def test_edited_arguments_must_fit_the_tool(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
    async with node_over(tmp_path, [call("refund", {"cents": 1}), say("done")]) as bench:
        execution = await bench.start(entry("refund", approval_required=True, schema=schema))
        approval = await asked(bench, execution)
        with pytest.raises(InvalidInput) as refused:
            await bench.api.decide(approval.id, "edit", args={"cents": "many"})
        assert refused.value.code == "invalid_arguments"
        with pytest.raises(InvalidInput) as refused:
            await bench.api.decide(approval.id, "approve", args={"cents": 2})
        assert refused.value.code == "bad_answer"
        with pytest.raises(InvalidInput):
            await bench.api.decide(approval.id, "respond")
        assert (await asked(bench, execution)).state == "open"
        await bench.api.decide(approval.id, "reject")
        await bench.result(execution)


async def test_an_answer_stands_in_the_tools_place(tmp_path: Path) -> None:
    async with node_over(tmp_path, [call("refund"), say("done")]) as bench:
        execution = await bench.start(REFUND)
        await bench.api.decide((await asked(bench, execution)).id, "respond", by="ann", answer="Not before May.")
        await bench.result(execution)
        assert bench.script.shown()[-1][1] == "ANSWERED by ann; the call was not made: Not before May."
        assert "task_scheduled" not in await bench.kinds(execution)


async def test_an_expired_approval_is_told_to_the_model(tmp_path: Path) -> None:
    refund = entry("refund", approval_required=True, approval=ApprovalRules(expires_ms=300))
    async with node_over(tmp_path, [call("refund"), say("understood")]) as bench:
        execution = await bench.start(refund)
        approval = await asked(bench, execution)
        assert approval.expires_ms == approval.opened_ms + 300
        await bench.result(execution)
        assert bench.script.shown()[-1][1].startswith(
            "NOT APPROVED: nobody decided within 0.3 s. The call was not made."
        )
        with pytest.raises(Conflict) as refused:
            await bench.api.decide(approval.id, "approve")
        assert refused.value.code == "approval_expired"


async def test_two_people_must_agree_before_the_tool_runs(tmp_path: Path) -> None:
    refund = entry("refund", approval_required=True, approval=ApprovalRules(quorum=2, approvers=("ann", "bob")))
    async with node_over(tmp_path, [call("refund"), say("done")]) as bench:
        execution = await bench.start(refund)
        approval = await asked(bench, execution)
        waiting = await bench.api.decide(approval.id, "approve", by="ann")
        assert (waiting.state, waiting.approved, waiting.quorum) == ("open", ("ann",), 2)
        assert await bench.none_to_lease("refund")
        await bench.api.decide(approval.id, "approve", by="bob")
        [task] = await bench.lease("refund")
        await bench.done(task, "sent")
        assert (await bench.result(execution)).state == "completed"
