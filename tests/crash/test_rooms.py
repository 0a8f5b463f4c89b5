"""SIGKILL servers and workers anywhere in a wake: what is in the room in the end was done once, and all of it.

A sample of `./dev crash matrix --only rooms`, which kills at every point, several times in a row.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).parents[1] / "support"
BETWEEN = "tools server act_in_room.after_commit@1"
"""A call is judged, and not scheduled yet."""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SUPPORT / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def kill(store: str, wake: str, point: str, *, rounds: int = 1, orders: tuple[str, ...] = ("resume",)) -> int:
    """Kill at points, and have promises judged; return how many were killed."""
    ruled = [word for order in orders for word in ("--order", order)]
    where = ("--store", store, "--wake", wake, "--point", point, "--rounds", str(rounds))
    done = run("crash_matrix.py", "--only", "rooms", "--json", *where, *ruled)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    found: dict[str, Any] = json.loads(done.stdout)["rooms"]
    for row in found["rows"]:
        assert (row["doubled"], row["lost"] * (row["order"] == "resume")) == (0, 0), row
    return int(found["killed_wakes"])


def test_a_wake_whose_servers_die_is_done_once_and_whole() -> None:
    assert kill("sqlite", "answers", "act_in_room.before_commit@1", rounds=3) == 3


def test_under_the_other_rule_nothing_is_done_twice() -> None:
    assert kill("sqlite", "answers", "act_in_room.after_commit@1", rounds=2, orders=("abandon",)) == 2


def test_a_wake_whose_server_dies_at_somebodys_yes_goes_on_where_it_stopped() -> None:
    assert kill("sqlite", "answers", "decide.after_commit@1") == 1


@pytest.mark.parametrize("point", ["reserve.after_commit@1", "settle.before_commit@1"])
def test_a_server_that_dies_with_a_reservation_does_not_forget_it(point: str) -> None:
    assert kill("sqlite", "answers", point) == 1


def test_a_server_that_dies_at_a_stop_does_not_forget_it() -> None:
    assert kill("sqlite", "stopped", "halt_wake.after_commit@1") == 1


def test_a_call_that_is_judged_and_not_scheduled_is_made_once() -> None:
    assert kill("sqlite", "tools", BETWEEN, rounds=2) == 2


def test_a_call_that_is_judged_and_not_scheduled_waits_where_its_agent_was_stopped_meanwhile() -> None:
    done = run("room_gap.py")
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert json.loads(done.stdout) == {"stopped": [], "started": ["pay", "stock"]}


def test_a_worker_that_dies_after_it_acted_at_most_once_does_not_act_again() -> None:
    assert kill("sqlite", "tools", "tools worker tool.after_body@2") == 1


def test_a_function_whose_workers_die_three_times_decides_all_the_same() -> None:
    assert kill("sqlite", "function", "function worker tool.before_body@1", rounds=3) == 3


@pytest.mark.parametrize(
    ("wake", "point"), [("answers", "act_in_room.after_commit@1"), ("tools", "finish.before_commit")]
)
def test_a_wake_whose_server_dies_is_done_once_and_whole_on_postgresql(
    postgres_dsn: str, wake: str, point: str
) -> None:
    assert kill(postgres_dsn, wake, f"{wake} server {point}") == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--wake", "dreams"), "invalid choice: 'dreams'"),
        (("--rounds", "some"), "invalid int value: 'some'"),
        (("--store", "sqlite", "--wake", "answers", "--order", "claim", "--point", "nowhere"), "no run in a room has"),
    ],
)
def test_what_the_matrix_cannot_do_is_refused_in_words(arguments: tuple[str, ...], why: str) -> None:
    done = run("crash_matrix.py", "--only", "rooms", *arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert why in done.stderr


def crowd(name: str, address: str) -> dict[str, Any]:
    done = run("room_crowds.py", name, address)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return dict(json.loads(done.stdout))


def test_twenty_wakes_over_two_servers_never_pass_their_budget(postgres_dsn: str) -> None:
    found = crowd("budget", postgres_dsn)
    assert found == {"completed": 7, "paused": 13, "asked": 7, "spent": 7.0, "reserved": 0.0}


def test_a_hundred_senders_of_one_message_over_two_servers_are_one_wake(postgres_dsn: str) -> None:
    found = crowd("senders", postgres_dsn)
    assert found == {"messages": 1, "wakes": 1, "replies": 1, "asked": 1, "created": 1}
