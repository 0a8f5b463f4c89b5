"""What A2A shows of a task, told from logs alone: the same story whoever begins to listen, and wherever."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.core.a2a import A2aTask
from perdure.core.events import Event, Kind
from perdure.doors.a2a_story import (
    INPUT_REQUIRED,
    SUBMITTED,
    WORKING,
    Object,
    Story,
    story_of,
)

ASKED = {"id": "apr_1", "kind": "approval", "tool": "pay", "args": {"cents": 5}}
DONE = {"output": {"result": "paid", "finish_reason": "completed"}}
LOG: list[tuple[Kind, str, dict[str, Any]]] = [
    (Kind.STARTED, "", {"input": "go", "agent": "tester", "definition": "d"}),
    (Kind.STEP_RECORDED, "turn 1/model", {"value": {}}),
    (Kind.WAIT_OPENED, "turn 1/tool/a", ASKED),
    (Kind.WAIT_OPENED, "turn 1/tool/b", {**ASKED, "id": "apr_2"}),
    (Kind.MESSAGE, "", {"text": "hurry", "by": "ann", "dedupe": "msg-2"}),
    (Kind.WAIT_RESOLVED, "turn 1/tool/a", {"id": "apr_1", "decision": "approve", "by": "ann", "reason": ""}),
    (Kind.WAIT_RESOLVED, "turn 1/tool/b", {"id": "apr_2", "decision": "reject", "by": "ann", "reason": ""}),
    (Kind.PAUSED, "", {"reason": "user", "message": "lunch", "by": "ann"}),
    (Kind.RESUMED, "", {"by": "ann"}),
    (Kind.COMPLETED, "", DONE),
]
CANCEL: tuple[Kind, str, dict[str, Any]] = (Kind.CANCEL_REQUESTED, "", {"by": "", "reason": ""})


def events(log: list[tuple[Kind, str, dict[str, Any]]]) -> list[Event]:
    return [Event(seq, kind, address, "", data, seq * 1000) for seq, (kind, address, data) in enumerate(log, 1)]


def told(story: Story, log: list[Event]) -> list[Object]:
    return [update for event in log for update in story.feed(event)]


def new() -> Story:
    return Story("exe_1", "ctx_1", "msg-1")


def states(updates: list[Object]) -> list[str]:
    return [one["statusUpdate"]["status"]["state"] for one in updates if "statusUpdate" in one]


def test_each_change_of_how_it_stands_is_one_update() -> None:
    updates = told(new(), events(LOG))
    done = "TASK_STATE_COMPLETED"
    wanted = [SUBMITTED, WORKING, INPUT_REQUIRED, INPUT_REQUIRED, INPUT_REQUIRED, WORKING, INPUT_REQUIRED, WORKING]
    assert states(updates) == [*wanted[1:], done]
    [result] = [one["artifactUpdate"] for one in updates if "artifactUpdate" in one]
    assert result["artifact"]["parts"] == [{"text": "paid"}]
    assert "artifactUpdate" in updates[-2], "the result comes before the word that it is done"


def test_what_it_waits_for_is_named() -> None:
    story = new()
    told(story, events(LOG)[:3])
    message = story.task()["status"]["message"]
    assert (message["role"], message["taskId"]) == ("ROLE_AGENT", "exe_1")
    text, data = message["parts"]
    assert 'pay({"cents":5})' in text["text"].replace(": ", ":")
    assert data == {"data": {"approval": "apr_1", "tool": "pay"}}


def test_the_history_is_what_was_said_to_it_under_the_ids_of_its_authors() -> None:
    story = new()
    told(story, events(LOG))
    whole = story.task()
    assert [(one["messageId"], one["parts"]) for one in whole["history"]] == [
        ("msg-1", [{"text": "go"}]),
        ("msg-2", [{"text": "hurry"}]),
    ]
    assert [one["messageId"] for one in story.task(1)["history"]] == ["msg-2"]
    assert "history" not in story.task(0)
    assert "artifacts" not in story.task(artifacts=False)
    assert whole["status"]["timestamp"] == "1970-01-01T00:00:10.000Z"


@pytest.mark.parametrize("cut", range(1, len(LOG) + 1))
def test_whoever_begins_late_stands_where_the_others_do_and_is_told_the_rest(cut: int) -> None:
    log = events(LOG)
    whole = new()
    updates = told(whole, log)
    kept = tuple(event for event in log[:cut] if event.kind is not Kind.STEP_RECORDED)
    late = story_of(A2aTask("exe_1", "tester", "ctx_1", "msg-1", cut, cut * 1000, kept))
    early = new()
    told(early, log[:cut])
    assert late.task() == early.task()
    rest = [one for one in updates if next(iter(one.values()))["metadata"]["seq"] > cut]
    assert told(late, log[cut:]) == rest
    assert late.task() == whole.task()


@pytest.mark.parametrize(
    ("kind", "data", "state", "words"),
    [
        (Kind.FAILED, {"code": "key", "error": "no key"}, "TASK_STATE_FAILED", [{"text": "key: no key"}]),
        (Kind.CANCELLED, {}, "TASK_STATE_CANCELED", None),
    ],
)
def test_how_it_ends_otherwise(kind: Kind, data: dict[str, Any], state: str, words: list[Object] | None) -> None:
    story = new()
    [*_, last] = told(story, events([*LOG[:4], CANCEL, (kind, "", data)]))
    assert story.ended
    assert last["statusUpdate"]["status"]["state"] == state
    assert last["statusUpdate"]["status"].get("message", {}).get("parts") == words


def test_a_cancel_ends_what_it_waits_for() -> None:
    story = new()
    told(story, events([*LOG[:4], CANCEL]))
    assert (story.state, story.settled) == (WORKING, False)


def test_a_stuck_task_says_what_to_do() -> None:
    story = new()
    told(story, events([LOG[0], (Kind.STUCK, "", {"reason": "poison", "explanation": "look at it"})]))
    assert story.state == INPUT_REQUIRED
    assert story.task()["status"]["message"]["parts"] == [{"text": "Stuck (poison). look at it"}]


def test_a_result_that_is_no_text_is_data() -> None:
    story = new()
    told(story, events([LOG[0], (Kind.COMPLETED, "", {"output": {"result": {"n": 1}, "finish_reason": "completed"}})]))
    assert story.task()["artifacts"][0]["parts"] == [{"data": {"n": 1}}]
