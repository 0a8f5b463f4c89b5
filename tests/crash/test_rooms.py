"""SIGKILL a server anywhere in a wake: what is in the room in the end was done once, and all of it.

A sample of `./dev crash rooms`, which kills at every point, several times in a row.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parents[1] / "support" / "room_kills.py"
SAMPLE = "act_in_room.before_commit@1,act_in_room.after_commit@2"
LIMITS = "reserve.after_commit@1,settle.before_commit@1,halt_wake.after_commit@1"
ONE = "act_in_room.after_commit@1"
WAITING = "park.after_commit@1,decide.after_commit@1"
"""At the wait for somebody's yes, and at the yes."""


def sweep(*arguments: str) -> list[dict[str, Any]]:
    """Return what each rule's runs came to."""
    done = subprocess.run([sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def judge(found: list[dict[str, Any]], kills: int) -> None:
    for tally in found:
        assert tally["kills"] >= kills
        assert (tally["doubled"], tally["broken"], tally["wrong"]) == (0, 0, []), tally
        if tally["on_crash"] == "resume":
            assert (tally["lost"], tally["half"]) == (0, 0), tally


def test_a_wake_whose_servers_die_is_done_once_and_whole_on_sqlite() -> None:
    judge(sweep("", "2", SAMPLE), 3)


def test_a_wake_whose_server_dies_while_it_waits_for_a_yes_goes_on_where_it_stopped() -> None:
    judge(sweep("", "1", WAITING), 2)


def test_a_server_that_dies_with_a_reservation_or_at_a_stop_forgets_neither() -> None:
    judge(sweep("", "1", LIMITS), 3)


def test_twenty_wakes_over_two_servers_never_pass_their_budget(postgres_dsn: str) -> None:
    [found] = sweep(postgres_dsn, "budget")
    assert found == {"completed": 7, "paused": 13, "asked": 7, "spent": 7.0, "reserved": 0.0}


def test_a_wake_whose_server_dies_is_done_once_and_whole_on_postgresql(postgres_dsn: str) -> None:
    judge(sweep(postgres_dsn, "1", ONE), 1)


def test_a_hundred_senders_of_one_message_over_two_servers_are_one_wake(postgres_dsn: str) -> None:
    [found] = sweep(postgres_dsn, "senders")
    assert found == {"messages": 1, "wakes": 1, "replies": 1, "asked": 1, "created": 1}
