"""A worker that was stopped past its lease and goes on; workers and servers that are told to leave under work."""

from __future__ import annotations

from collections.abc import Callable

from crash_case import Case, Nudge, Outcome, Strike

LATE = {"late_attempts": True}
"""A stopped process may act after somebody else took over: that is what these runs are about."""
ENDLESS_MS = 600_000
"""Ten times as long as a case may last: one that ends has waited for no such lease."""


def test_the_late_report_of_a_lost_attempt_is_refused(crash: Callable[[Case], Outcome]) -> None:
    """At least once: another worker took the task over and is about to act when the first one reports.

    That one stands still until the first one's second report, which is the late one, has been answered.
    """
    outcome = crash(
        Case(
            "stopped after its body",
            strikes=(
                Strike("tool.after_body", "worker", 2),
                Strike("tool.before_body", "worker2", 1),
                Strike("worker.report.received", "worker", 2),
            ),
            nudges=(
                Nudge("strike:1", "start", "worker2"),
                Nudge("strike:2", "cont", "worker"),
                Nudge("strike:3", "cont", "worker2"),
                Nudge("strike:3", "cont", "worker"),
            ),
            setup={"lease_ms": 5_000},  # so that the second one keeps its lease while it stands still
        )
    )
    assert outcome.ok, outcome
    (lost,) = outcome.of("attempt_lost")
    (done,) = [fact for fact in outcome.of("task_completed") if fact["address"] == lost["address"]]
    assert (lost["attempt"], done["attempt"]) == (1, 2)
    assert lost["worker"] != done["worker"]


def test_the_late_report_of_a_claim_that_nobody_ruled_on_is_accepted(crash: Callable[[Case], Outcome]) -> None:
    """At most once: expiry makes the outcome uncertain, and raises no fence."""
    outcome = crash(
        Case(
            "stopped after its only body",
            strikes=(Strike("tool.after_body", "worker", 3),),
            nudges=(Nudge("event:task_uncertain", "cont", "worker"),),
            setup={"rules": False},
            expect=LATE,
        )
    )
    assert outcome.ok, outcome
    (unknown,) = outcome.of("task_uncertain")
    (done,) = [fact for fact in outcome.of("task_completed") if fact["address"] == unknown["address"]]
    assert done["late"] is True
    assert not outcome.of("effect_ruled")


def test_a_late_report_does_not_undo_a_ruling(crash: Callable[[Case], Outcome]) -> None:
    outcome = crash(
        Case(
            "stopped until it was ruled on",
            strikes=(Strike("tool.after_body", "worker", 3),),
            nudges=(Nudge("strike:1", "start", "worker2"), Nudge("event:effect_ruled", "cont", "worker")),
            expect=LATE,
        )
    )
    assert outcome.ok, outcome
    (ruled,) = outcome.of("effect_ruled")
    assert ruled["ruling"] == "happened"
    assert ruled["address"] not in [fact["address"] for fact in outcome.of("task_completed")]


def test_a_claim_that_was_given_out_anew_is_not_the_first_holders(crash: Callable[[Case], Outcome]) -> None:
    """Ruled "run it" while the first body had not acted: it acts in the end too, and its report is refused."""
    outcome = crash(
        Case(
            "stopped before its body",
            strikes=(Strike("tool.before_body", "worker", 3),),
            nudges=(Nudge("strike:1", "start", "worker2"), Nudge("event:effect_ruled", "cont", "worker", after=0.5)),
            expect=LATE,
        )
    )
    assert outcome.ok, outcome
    (ruled,) = outcome.of("effect_ruled")
    begun = [fact for fact in outcome.of("task_begun") if fact["address"] == ruled["address"]]
    (done,) = [fact for fact in outcome.of("task_completed") if fact["address"] == ruled["address"]]
    assert ruled["ruling"] == "run"
    assert len({fact["worker"] for fact in begun}) == 2
    assert done["worker"] == begun[1]["worker"]


def test_a_worker_that_is_told_to_leave_hands_back(crash: Callable[[Case], Outcome]) -> None:
    outcome = crash(
        Case(
            "terminated worker",
            nudges=(Nudge("world:announce", "term", "worker"),),
            setup={"linger_seconds": ENDLESS_MS / 1000, "lease_ms": ENDLESS_MS},
        )
    )
    assert outcome.ok, outcome
    (lost,) = outcome.of("attempt_lost")
    assert lost["why"] == "handed back by its worker"
    assert any(death.startswith("worker (0)") for death in outcome.deaths), outcome.deaths
    assert outcome.seconds * 1000 < ENDLESS_MS / 2, "nobody waited for a lease"


def test_a_server_that_is_told_to_leave_loses_nothing(crash: Callable[[Case], Outcome]) -> None:
    """In the middle of a model call, which then has to be made again; and nobody waits for its lease."""
    outcome = crash(
        Case(
            "terminated server",
            nudges=(Nudge("world:model_request@2", "term", "server"),),
            setup={"model_faults": "model=slow:1@2", "lease_ms": ENDLESS_MS},
        )
    )
    assert outcome.ok, outcome
    assert any(death.startswith("server (0)") for death in outcome.deaths), outcome.deaths
    assert (outcome.calls_made, outcome.calls_twice) == (6, 1)
    assert len(outcome.of("taken_over")) == 1
    assert outcome.seconds * 1000 < ENDLESS_MS / 2, "nobody waited for a lease"
