"""The demo's claims hold for a right run, and each one fails when its witness says something else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reportlab.pdfgen.canvas import Canvas

from perdure.core.events import Event, Kind
from perdure.core.views import ExecutionView, UsageView
from perdure.demo.document import document
from perdure.demo.evidence import judge
from perdure.demo.plan import Kill, Plan
from perdure.demo.processes import Life
from perdure.demo.story import Story
from perdure.testing.evidence import Entry

ID = "exe_1"
CALL, PAID = "turn 1/tool/a", "turn 2/tool/b"


def reply(text: str, *calls: str) -> dict[str, Any]:
    made = [{"id": call, "name": "run_skill", "arguments": "{}"} for call in calls]
    usage = {"input_tokens": 1, "output_tokens": 1}
    said = {"text": text, "tool_calls": made, "finish_reason": "stop", "usage": usage, "model": "m", "cost_usd": 0.0}
    return {"value": {"outcome": "replied", "requests": 1, "reply": said}}


def request(step: str, at_ms: int, *before: str) -> list[Entry]:
    """A request of one step, with the calls of earlier replies in its history, and its answer."""
    history = [{"role": "assistant", "text": "…", "tool_calls": [{"id": call}]} for call in before]
    asked = Entry(1, at_ms, "model_request", ID, step, body={"messages": history})
    return [asked, Entry(2, at_ms + 1, "model_reply", ID, step)]


def pdf(folder: Path) -> dict[str, Any]:
    path = folder / "report.pdf"
    canvas = Canvas(str(path))
    for line in range(6):
        canvas.drawString(72, 700 - 20 * line, f"Line {line}")
    canvas.save()
    content = path.read_bytes()
    return {"path": str(path), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def right(folder: Path) -> Story:
    """A run in which everything is as the demo says."""
    scheduled = {"tool": "run_skill", "delivery": "at_least_once", "args": {"skill": "read-csv"}}
    made = {"attempt": 2, "worker": "w2", "started_ms": 40, "value": {"artifacts": [pdf(folder)]}}
    asked = {"id": "apr_1", "kind": "approval", "tool": "run_premium_skill", "args": {}}
    log = [
        (Kind.STARTED, "", {"input": "go"}, 1),
        (Kind.STEP_RECORDED, "turn 1/model", reply("…", "a"), 10),
        (Kind.TASK_SCHEDULED, CALL, {**scheduled, "key": "k1"}, 11),
        (Kind.ATTEMPT_LOST, CALL, {"attempt": 1, "worker": "w1", "why": "silent", "started_ms": 12}, 30),
        (Kind.TASK_COMPLETED, CALL, made, 50),
        (Kind.STEP_RECORDED, "turn 2/model", reply("…", "b"), 80),
        (Kind.WAIT_OPENED, f"{PAID}/approval", asked, 81),
        (Kind.WAIT_RESOLVED, f"{PAID}/approval", {"id": "apr_1", "decision": "approve", "by": "me", "reason": ""}, 82),
        (Kind.TASK_SCHEDULED, PAID, {**scheduled, "tool": "run_premium_skill", "key": "k2"}, 83),
        (Kind.TASK_COMPLETED, PAID, {"attempt": 1, "worker": "w2", "started_ms": 84, "value": 1}, 85),
        (Kind.STEP_RECORDED, "turn 3/model", reply("The report is ready"), 90),
        (Kind.COMPLETED, "", {"output": {"result": "The report is ready"}}, 91),
    ]
    return Story(
        plan=Plan(folder),
        execution=ID,
        view=view(),
        events=tuple(Event(seq, kind, at, "", data, ms) for seq, (kind, at, data, ms) in enumerate(log, 1)),
        lives=(
            Life("server", 1, "perdure server", 0, 1, 60, killed=True, during="a tool"),
            Life("client", 2, "python start.py", 1, 2, 20, killed=True, during="a tool"),
            Life("client", 3, "python resume.py", 31, 35, 95),
            Life("server", 4, "perdure server", 61, 70),
        ),
        asked=(*request("turn 1/model", 5), *request("turn 2/model", 75, "a"), *request("turn 3/model", 86, "a", "b")),
        executions=1,
        printed="completed\nThe report is ready\n",
        began_ms=0,
        ended_ms=100,
    )


def view() -> ExecutionView:
    return ExecutionView(
        id=ID,
        agent="reporter",
        model="m",
        state="completed",
        reason=None,
        message=None,
        input="go",
        output={"result": "The report is ready"},
        failure=None,
        waits=(),
        approvals=(),
        usage=UsageView(),
        last_seq=12,
        active_ms=0,
        created_ms=0,
        updated_ms=91,
        finished_ms=91,
    )


def without(kind: Kind) -> Callable[[Story], Story]:
    def change(story: Story) -> Story:
        left = [event for event in story.events if event.kind is not kind]
        return replace(story, events=tuple(replace(event, seq=seq) for seq, event in enumerate(left, 1)))

    return change


def spoil_the_pdf(story: Story) -> Story:
    (story.plan.folder / "report.pdf").write_bytes(b"%PDF-1.4 another one")
    return story


def paid_again(story: Story) -> Story:
    assert story.asked is not None
    return replace(story, asked=(*story.asked, *request("turn 2/model", 76, "a")))


def asked_anew(story: Story) -> Story:
    """The second server asked for everything again."""
    return replace(story, asked=tuple(replace(entry, received_at_ms=75) for entry in story.asked or ()))


def test_a_right_run_holds_in_every_claim(tmp_path: Path) -> None:
    evidence = judge(right(tmp_path))
    assert [claim for claim in evidence.claims if not claim.holds] == []
    assert (evidence.calls.made, evidence.calls.recorded) == (3, 3)
    assert (evidence.calls.reused, evidence.calls.paid_twice) == (1, 0)
    assert [count for _, _, count in evidence.attempts] == [1, 2, 1, 1, 1]


def test_dark_times_last_from_a_kill_until_somebody_works_again(tmp_path: Path) -> None:
    evidence = judge(right(tmp_path))
    assert [(one.role, one.from_ms, one.to_ms) for one in evidence.dark] == [("client", 20, 35), ("server", 60, 70)]
    assert evidence.dark_ms == 25


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        (lambda story: replace(story, lives=(replace(story.lives[0], killed=False), *story.lives[1:])), "killed"),
        (lambda story: replace(story, execution="exe_2"), "under the id"),
        (lambda story: replace(story, executions=2), "under the id"),
        (lambda story: replace(story, view=replace(story.view, state="failed")), "under the id"),
        (lambda story: replace(story, printed="Traceback"), "printed"),
        (without(Kind.ATTEMPT_LOST), "done by another"),
        (paid_again, "paid twice"),
        (lambda story: replace(story, plan=replace(story.plan, kill=Kill.MID_CALL)), "paid twice"),
        (asked_anew, "used again"),
        (without(Kind.STARTED), "promise"),
        (without(Kind.WAIT_RESOLVED), "said yes"),
        (spoil_the_pdf, "report"),
    ],
)
def test_a_claim_fails_with_its_witness(tmp_path: Path, change: Callable[[Story], Story], claim: str) -> None:
    evidence = judge(change(right(tmp_path)))
    assert not evidence.holds
    assert any(claim in one.says for one in evidence.claims if not one.holds)


def test_the_document_tells_it_in_the_order_of_time(tmp_path: Path) -> None:
    story = right(tmp_path)
    told = document(story, judge(story))
    times = [line["at_seconds"] for line in told["timeline"]]
    assert times == sorted(times)
    assert [kill["role"] for kill in told["kills"]] == ["client", "server"]
    assert told["nothing_alive"]["seconds"] == 0.025
