"""The tables: what is absorbing, what the SQL says, and what no row may contradict."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from pathlib import Path

import pytest

from perdure.core import states
from perdure.core.states import EXECUTION_TABLE, TASK_TABLE, WAITPOINT_TABLE, Execution, Task, Waitpoint


@pytest.mark.parametrize("state", sorted(states.TERMINAL))
def test_nothing_leads_out_of_a_terminal_state(state: str) -> None:
    assert not [event for start, event in EXECUTION_TABLE if start == state]


def test_exactly_the_states_without_an_exit_are_terminal() -> None:
    assert set(Execution) - {start for start, _ in EXECUTION_TABLE} == states.TERMINAL
    leaving = {start for (start, event) in TASK_TABLE if event != "revive"}  # only somebody's word puts a dead one back
    assert set(Task) - leaving == states.TASK_ENDED
    assert {start for start, _ in WAITPOINT_TABLE} == {Waitpoint.OPEN}


def test_a_begun_task_is_given_out_again_only_by_a_ruling_or_its_authors_word() -> None:
    # A dead one may be revived, but none that had begun without that word: `engine/revive.py` and its tests.
    reached, frontier = set[str](), {str(Task.BEGUN)}
    while frontier:
        reached |= frontier
        frontier = {
            end
            for (start, event), end in TASK_TABLE.items()
            if start in frontier and event not in ("rule_run", "take_back", "revive")
        } - reached
    assert reached == {Task.BEGUN, Task.UNCERTAIN, Task.DONE, Task.DEAD}


def test_a_pause_is_left_only_by_a_person_or_an_end() -> None:
    ways = {event: end for (start, event), end in EXECUTION_TABLE.items() if start == Execution.PAUSED}
    assert ways == {
        "park": Execution.PAUSED,
        "resume": Execution.READY,
        "stick": Execution.STUCK,
        "cancel": Execution.CANCELLING,
    }


def test_a_refusal_names_the_state_and_the_event() -> None:
    with pytest.raises(states.Refused, match="no transition 'claim' from state 'completed'"):
        states.move(EXECUTION_TABLE, str(Execution.COMPLETED), "claim")
    with pytest.raises(states.Refused):
        states.move(EXECUTION_TABLE, "no such state", "claim")


@pytest.mark.parametrize("kind", [Execution, states.Ownership, Task, Waitpoint])
def test_the_check_of_a_column_lists_every_state(kind: type[StrEnum]) -> None:
    listed = ", ".join(f"'{state}'" for state in kind)
    assert states.check_clause("state", kind) == f"CHECK (state IN ({listed}))"


def test_asking_first_answers_what_moving_would_do() -> None:
    assert states.allowed(TASK_TABLE, Task.READY, "lease")
    assert not states.allowed(TASK_TABLE, Task.DEAD, "lease")


def test_the_page_of_states_is_the_tables() -> None:
    page = Path(__file__).parents[3] / "tools" / "states_page.py"
    checked = subprocess.run([sys.executable, str(page), "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
