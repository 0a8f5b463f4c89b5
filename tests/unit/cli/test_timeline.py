"""The timeline that a log tells: steps, attempts, waits, gaps, and what was possibly paid twice."""

from __future__ import annotations

from typing import Any

from perdure.cli.story import lines_of
from perdure.client.timeline import Gap, ModelStep, News, Timeline, timeline_of
from perdure.client.tool_steps import ToolStep
from perdure.core import states
from perdure.core.events import Event, Kind
from perdure.core.views import TaskView


class Log:
    """Writes a log, one event at each given time."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.add(0, Kind.STARTED, input="go", agent="a", definition="d")

    def add(self, at_ms: int, kind: Kind, address: str = "", /, **data: Any) -> Log:
        self.events.append(Event(len(self.events) + 1, kind, address, "", data, at_ms))
        return self

    def model(self, at_ms: int, turn: int, *calls: str, cost: float | None = 0.5) -> Log:
        reply = {
            "text": "" if calls else "done",
            "tool_calls": [{"id": name, "name": name, "arguments": "{}"} for name in calls],
            "usage": {"input_tokens": 10, "output_tokens": 2},
            "model": "m",
            "cost_usd": cost,
        }
        value = {"outcome": "replied", "reply": reply, "requests": 1, "failures": []}
        return self.add(at_ms, Kind.STEP_RECORDED, f"turn {turn}/model", value=value)

    def scheduled(self, at_ms: int, address: str = "turn 1/tool/x", delivery: str = "at_least_once") -> Log:
        return self.add(at_ms, Kind.TASK_SCHEDULED, address, tool="x", args={"n": 1}, delivery=delivery)

    def ended(self, at_ms: int, kind: Kind, started_ms: int, attempt: int = 1, **data: Any) -> Log:
        facts = {"attempt": attempt, "worker": "w", "started_ms": started_ms, **data}
        return self.add(at_ms, kind, "turn 1/tool/x", **facts)

    def story(self, *tasks: TaskView) -> Timeline:
        return timeline_of(self.events, tasks)

    def tool(self, *tasks: TaskView) -> ToolStep:
        (step,) = [entry for entry in self.story(*tasks).entries if isinstance(entry, ToolStep)]
        return step

    def models(self) -> list[ModelStep]:
        return [entry for entry in self.story().entries if isinstance(entry, ModelStep)]


def test_a_plain_run_is_told_in_order_with_its_times() -> None:
    log = Log().model(10, 1, "x").scheduled(11).ended(50, Kind.TASK_COMPLETED, 20, value=7).model(70, 2)
    log.add(71, Kind.COMPLETED, output={"result": "done"})
    story = log.story()
    assert [type(entry) for entry in story.entries] == [News, ModelStep, ToolStep, ModelStep, News]
    first, second = log.models()
    assert [(one.started_ms, one.ended_ms) for one in (first, second)] == [(0, 10), (50, 70)]
    assert (first.calls, second.text, second.cost_usd) == ((("x", "{}"),), "done", 0.5)
    step = log.tool()
    assert (step.state, step.value, step.queued_ms, step.ran_ms) == (states.Task.DONE, 7, 9, 30)
    assert (story.model_ms, story.queued_ms, story.ran_ms, story.repeated) == (30, 9, 30, 0)


def test_a_model_call_begins_with_the_first_answer_of_the_last_call_however_late_it_is() -> None:
    """Late means: after its lease. Nobody waited for what is said of a call that had an answer."""
    slow = Log().model(10, 1, "x").scheduled(11).ended(90, Kind.TASK_COMPLETED, 20, value=7, late=True).model(95, 2)
    assert slow.models()[1].started_ms == 90
    ruled = Log().model(10, 1, "x").scheduled(11).ended(40, Kind.TASK_UNCERTAIN, 20, why="silent")
    said = {"ruling": "happened", "by": "ada", "reason": "saw it", "value": 7}
    ruled.add(60, Kind.EFFECT_RULED, "turn 1/tool/x", **said).model(95, 2)
    assert ruled.models()[1].started_ms == 40


def test_retries_are_attempts_with_a_pause_between() -> None:
    log = Log().scheduled(0).ended(10, Kind.ATTEMPT_FAILED, 4, error="bad", retry_ms=2_000)
    log.ended(2_030, Kind.TASK_COMPLETED, 2_015, attempt=2, value=1)
    step = log.tool()
    assert [(one.number, one.error) for one in step.attempts] == [(1, "bad"), (2, None)]
    assert (step.queued_ms, step.paused_ms, step.ran_ms) == (4 + 5, 2_000, 6 + 15)


def test_a_lost_attempt_is_no_running_time() -> None:
    log = Log().scheduled(0).ended(900, Kind.ATTEMPT_LOST, 5, why="its lease ran out")
    log.ended(1_000, Kind.TASK_COMPLETED, 950, attempt=2, value=1)
    step = log.tool()
    assert (step.attempts[0].lost, step.attempts[0].error) == (True, "its lease ran out")
    assert step.ran_ms == 50


def test_what_runs_now_is_told_by_the_tasks() -> None:
    log = Log().scheduled(0)
    assert log.tool().state is states.Task.READY
    now = TaskView("e", "turn 1/tool/x", "x", "q", "leased", "at_least_once", "k", {}, 1, 3, "w", 0, 40, None)
    step = log.tool(now)
    assert (step.state, step.attempts[0].started_ms, step.attempts[0].ended_ms) == (states.Task.LEASED, 40, None)
    begun = log.add(5, Kind.TASK_BEGUN, "turn 1/tool/x", claim=1, worker="w", attempt=1)
    assert begun.tool().state is states.Task.BEGUN


def approval(log: Log, decision: str | None = None) -> Log:
    log.add(5, Kind.WAIT_OPENED, "turn 1/tool/x/approval", id="apr_1", kind="approval", tool="x", args={"n": 1})
    if decision:
        facts = {"id": "apr_1", "decision": decision, "by": "ada", "reason": "fine"}
        log.add(605, Kind.WAIT_RESOLVED, "turn 1/tool/x/approval", **facts)
    return log


def test_a_call_stands_with_the_decision_about_it() -> None:
    step = approval(Log()).tool()
    assert (step.state, step.ended_ms, step.scheduled_ms) == (states.Task.READY, None, None)
    log = approval(Log(), "approve").scheduled(606).ended(640, Kind.TASK_COMPLETED, 610, value=1)
    step = log.tool()
    assert step.approval is not None
    assert (step.approval.by, step.approval.reason, step.started_ms, step.queued_ms) == ("ada", "fine", 5, 4)
    assert log.story().decided_ms == 600


def test_a_rejected_call_never_was_a_task() -> None:
    step = approval(Log(), "reject").tool()
    assert (step.state, step.error, step.ended_ms) == (states.Task.DEAD, "rejected", 605)


def uncertain() -> Log:
    return Log().scheduled(0, delivery="at_most_once").ended(9, Kind.TASK_UNCERTAIN, 2, why="silence", error="silence")


def test_an_uncertain_effect_is_what_the_ruling_makes_of_it() -> None:
    assert uncertain().tool().state is states.Task.UNCERTAIN
    for ruling, state in (
        ("happened", states.Task.DONE),
        ("give_up", states.Task.DEAD),
        ("run", states.Task.READY),
    ):
        log = uncertain()
        log.add(20, Kind.EFFECT_RULED, "turn 1/tool/x", ruling=ruling, by="ada", reason="saw it", value=3)
        step = log.tool()
        assert step.state is state
        assert step.ruling is not None
        assert (step.ruling.by, step.ruling.reason) == ("ada", "saw it")
    log.ended(40, Kind.TASK_COMPLETED, 30, attempt=2, value=4)
    assert (log.tool().state, log.tool().value) == (states.Task.DONE, 4)


def test_a_failed_call_says_why() -> None:
    step = Log().scheduled(0).ended(9, Kind.TASK_FAILED, 2, error="no", code="tool_error").tool()
    assert (step.state, step.error, step.ended_ms) == (states.Task.DEAD, "no", 9)


def test_a_model_call_that_a_death_cut_off_was_possibly_paid_twice() -> None:
    log = Log().model(10, 1, "x").scheduled(11).ended(50, Kind.TASK_COMPLETED, 20, value=7)
    log.add(3_050, Kind.TAKEN_OVER, fence=2).model(3_100, 2)
    first, second = log.models()
    assert (first.repeated, second.repeated, second.started_ms) == (0, 1, 3_050)
    (gap,) = [entry for entry in log.story().entries if isinstance(entry, Gap)]
    assert (gap.started_ms, gap.ended_ms) == (50, 3_050)
    assert (log.story().dead_ms, log.story().repeated) == (3_000, 1)


def test_a_takeover_before_the_answer_came_repeats_nothing() -> None:
    log = Log().model(10, 1, "x").scheduled(11).add(500, Kind.TAKEN_OVER, fence=2)
    log.ended(600, Kind.TASK_COMPLETED, 20, value=7).model(610, 2)
    assert [one.repeated for one in log.models()] == [0, 0]


def test_news_of_an_answered_call_does_not_hide_a_repeated_request() -> None:
    log = uncertain()
    log.add(3_000, Kind.TAKEN_OVER, fence=2)
    log.add(3_010, Kind.EFFECT_RULED, "turn 1/tool/x", ruling="give_up", by="ada", reason="", value=None)
    (step,) = log.model(3_100, 2).models()
    assert (step.repeated, step.started_ms) == (1, 3_000)


def test_a_refused_model_call_says_why() -> None:
    refused = {"outcome": "refused", "kind": "key", "message": "no such model", "requests": 1, "failures": []}
    (step,) = Log().add(5, Kind.STEP_RECORDED, "turn 1/model", value=refused).models()
    assert (step.outcome, step.error, step.cost_usd) == ("refused", "no such model", None)


def test_everything_said_about_the_whole_is_news() -> None:
    log = Log().add(1, Kind.MESSAGE, text="hurry", by="ada").add(2, Kind.PAUSED, reason="user", message="", by="ada")
    log.add(3, Kind.RESUMED, by="ada").add(4, Kind.STOP_REQUESTED, by="ada").add(5, Kind.TIMER_SET, "t", due_ms=65)
    log.add(6, Kind.CANCEL_REQUESTED, by="ada", reason="enough").add(7, Kind.CANCELLED)
    news = [entry for entry in log.story().entries if isinstance(entry, News)]
    assert [(one.kind, one.text) for one in news] == [
        (Kind.STARTED, "go"),
        (Kind.MESSAGE, "hurry"),
        (Kind.PAUSED, "user"),
        (Kind.RESUMED, ""),
        (Kind.STOP_REQUESTED, ""),
        (Kind.TIMER_SET, "0.06 s"),
        (Kind.CANCEL_REQUESTED, "enough"),
        (Kind.CANCELLED, ""),
    ]


def test_what_stood_in_for_a_call_in_a_fork_is_told_apart_from_one_that_acted() -> None:
    asked = {"tool": "x", "args": {"n": 1}, "delivery": "at_most_once"}
    meant = Log().add(0, Kind.TASK_SCHEDULED, "turn 1/tool/x", **asked, simulated=True)
    ended = Log().scheduled(0, delivery="at_most_once").ended(9, Kind.TASK_COMPLETED, 2, value=1, simulated=True)
    for log in (meant, ended):
        assert log.tool().simulated
        [shown] = [line.text.plain for line in lines_of(log.tool())]
        assert "simulated: nothing was done" in shown
        assert "at most once" not in shown
    real = Log().scheduled(0, delivery="at_most_once").ended(9, Kind.TASK_COMPLETED, 2, value=1).tool()
    assert (real.simulated, "simulated" in next(lines_of(real)).text.plain) == (False, False)


def test_a_log_of_nothing_is_a_story_of_nothing() -> None:
    assert timeline_of([]).entries == ()


def test_a_part_of_a_log_is_told_by_itself_wherever_it_begins_and_ends() -> None:
    log = Log().model(10, 1, "x")
    log.add(11, Kind.WAIT_OPENED, "turn 1/tool/x/approval", id="apr_1", tool="x", args={}, kind="approval")
    log.add(12, Kind.WAIT_RESOLVED, "turn 1/tool/x/approval", id="apr_1", decision="approve", by="ann", reason="")
    log.scheduled(13, delivery="at_most_once").add(20, Kind.TASK_BEGUN, "turn 1/tool/x", worker="w")
    log.ended(50, Kind.TASK_UNCERTAIN, 20, why="lost").add(
        60, Kind.EFFECT_RULED, "turn 1/tool/x", ruling="happened", by="ann", reason="", value=7
    )
    log.model(70, 2)
    for first in range(len(log.events)):
        for last in range(first, len(log.events) + 1):
            story = timeline_of(log.events[first:last])
            assert all(entry.started_ms >= log.events[first].at_ms for entry in story.entries)
            assert story.model_ms <= 70


def test_how_a_call_ended_behind_a_part_is_told_by_the_tasks() -> None:
    part = Log().model(10, 1, "x").scheduled(11)
    task = TaskView(
        execution="e",
        address="turn 1/tool/x",
        tool="x",
        queue="q",
        state=states.Task.DONE,
        delivery="at_least_once",
        key="k",
        args={},
        attempt=1,
        max_attempts=1,
        worker="w",
        scheduled_ms=11,
        started_ms=20,
        ended_ms=30,
        value=7,
    )
    step = part.tool(task)
    assert (step.state, step.ended_ms, step.value) == (states.Task.DONE, 30, 7)
