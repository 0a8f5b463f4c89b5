"""One command for many: counted, asked about once, and what is refused is counted and left as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import cli_agents
from cli_processes import Home, until
from perdure import AgentRuntime


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A user whose server and worker run."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.serve()
    home.work()
    yield home
    home.close()


def half_done(home: Home, count: int) -> list[str]:
    """Begin executions with a call that has failed for good and one that waits for a person."""
    ready = home.running[0].ready
    with AgentRuntime(ready["url"], api_key=ready["key"], serve_tools=False) as runtime:
        begun = [runtime.start(cli_agents.agent, "half").execution_id for _ in range(count)]
    for execution in begun:
        until(lambda execution=execution: execution in dead(home), "a call that failed for good")
    return begun


def dead(home: Home, *options: str) -> list[str]:
    return [one["execution"] for one in home.json("tasks", "dead", *options)["items"]]


def refused(home: Home, *args: str) -> str:
    """Return the code of a refusal, having seen that it was one of the command line."""
    done = home.command(*args, "--json")
    assert done.returncode == 2, done.stdout
    return json.loads(done.stdout)["error"]["code"]


def state(home: Home, execution: str) -> Any:
    return home.json("executions", "show", execution)["execution"]["state"]


def test_all_that_failed_for_good_is_tried_anew_with_one_command(home: Home) -> None:
    begun = half_done(home, 3)
    listed = home.command("tasks", "dead").stdout
    assert "odd" in listed
    assert "perdure tasks retry --all" in listed
    assert dead(home, "--tool", "pay") == dead(home, "--agent", "nobody") == dead(home, "--queue", "mail") == []
    assert refused(home, "tasks", "retry", "--all") == "not_agreed"
    assert home.json("tasks", "retry", "--all", "--tool", "pay", "--yes") == {"done": [], "refused": {}}
    outcome = home.json("tasks", "retry", "--all", "--agent", "clerk", "--yes", "--reason", "mended")
    assert sorted(one["execution"] for one in outcome["done"]) == sorted(begun)
    for execution in begun:
        until(lambda execution=execution: execution in dead(home), "the end of the retry, which fails again")
        events = home.command("executions", "watch", execution, "--json", "--until-decision").stdout
        assert events.count("task_revived") == 1


def test_all_that_run_are_cancelled_with_one_command(home: Home) -> None:
    begun = half_done(home, 3)
    assert refused(home, "executions", "cancel", "--all") == "not_agreed"
    assert home.json("executions", "cancel", "--all", "--agent", "nobody", "--yes") == {"done": [], "refused": {}}
    outcome = home.json("executions", "cancel", "--all", "--agent", "clerk", "--yes")
    assert set(begun) <= set(outcome["done"])
    for execution in begun:
        until(lambda execution=execution: state(home, execution) == "cancelled", "the end")
    again = home.command("executions", "cancel", "--all", "--yes")
    assert again.stdout.startswith("0 executions are being cancelled")
    assert dead(home) == [], "nothing of what has ended can be tried anew"


def test_what_is_meant_must_be_clear(home: Home) -> None:
    assert refused(home, "executions", "cancel") == "bad_choice"
    assert refused(home, "executions", "cancel", "exe_1", "--all", "--yes") == "bad_choice"
    assert refused(home, "executions", "cancel", "exe_1", "--agent", "clerk") == "bad_choice"
    assert refused(home, "executions", "cancel", "--all", "--state", "completed", "--yes") == "bad_choice"
    assert refused(home, "tasks", "retry", "--tool", "odd") == "bad_choice"
    assert home.command("tasks", "retry", "exe_1").returncode == 2
