"""Several servers on one PostgreSQL: a sample of the long run's storms, and servers that stop at the worst moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import crash_net
from crash_case import Case, Outcome, Storm, Strike
from crash_case import Nudge as N

LATE = {"late_attempts": True}
CUT_OFF = (N("strike:1", "cut both", "server"), N("nudge:1", "cont", "server"), N("event:completed", "heal", "server"))
STOPPED = (N("event:completed", "cont", "server"),)
LEFT = N("strike:1", "kill", "client")
"""The client's next life asks another server."""


def test_a_storm_over_a_cluster_breaks_no_promise(on_postgres: Callable[[Case], Outcome]) -> None:
    storm = Storm(4, blows=6, mean_seconds=0.25, stop_seconds=1.5)
    case = Case("storm (cluster)", storm=storm, layout="cluster", setup={"linger_seconds": 0.25}, expect=LATE)
    outcome = on_postgres(case)
    assert outcome.ok, outcome
    assert outcome.kills + outcome.stops > 0


@pytest.mark.parametrize("befalls", [STOPPED, CUT_OFF], ids=["stopped", "cut_off"])
def test_a_server_that_stays_in_a_transaction_keeps_nobody_from_going_on(
    befalls: tuple[N, ...], on_postgres: Callable[[Case], Outcome]
) -> None:
    """It has locked the execution that it holds, and is let go on only when the others have brought that to its end."""
    if befalls != STOPPED and (why := crash_net.why_not()):
        pytest.skip(why)
    strike = Strike("record.before_commit", "server", 2)
    outcome = on_postgres(Case("in a transaction", (strike,), (*befalls, LEFT), layout="cluster", expect=LATE))
    assert outcome.ok, outcome
    assert outcome.of("taken_over")
