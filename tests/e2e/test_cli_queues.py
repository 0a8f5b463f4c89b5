"""Queues from the command line: see what waits, limit it, pause it and let it go on."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import cli_agents
from cli_processes import Home, until
from perdure import AgentRuntime, InvalidInput
from perdure.cli.queues import rate_of, rate_text
from perdure.core.queues import QueueView


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A user whose server and worker run."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.serve()
    home.work()
    yield home
    home.close()


def test_a_paused_queue_holds_an_agent_until_it_goes_on(home: Home) -> None:
    ready = home.running[0].ready
    paused = home.command("queues", "pause", "default", "--by", "ada")
    assert (paused.returncode, "paused" in paused.stdout) == (0, True)
    with AgentRuntime(ready["url"], api_key=ready["key"], serve_tools=False) as runtime:
        execution = runtime.start(cli_agents.agent, "add").execution_id
        until(lambda: runtime.queues.get("default").backlog, "a task that waits")
        assert runtime.queues.list()[0].changed_by == "ada"
        doctor = home.command("doctor", execution)
        assert "queue default is paused, by ada" in doctor.stdout
        assert "perdure queues resume default" in doctor.stdout
        (listed,) = home.json("queues", "list")["items"]
        assert (listed["name"], listed["paused"], listed["backlog"], listed["leased"]) == ("default", True, 1, 0)
        assert home.command("queues", "resume", "default").returncode == 0
        assert runtime.attach(execution).result().status == "completed"
        assert not runtime.queues.get("default").paused


def test_limits_are_set_shown_and_lifted(home: Home) -> None:
    done = home.command("queues", "set", "mail", "--concurrency", "5", "--rate", "100/m", "--per-key", "2")
    assert done.returncode == 0
    shown = home.command("queues", "list").stdout
    assert "100/m" in shown
    last = home.json("queues", "list")["items"][-1]
    assert (last["concurrency"], last["per_key"]) == (5, 2)
    home.command("queues", "set", "mail", "--rate", "3/10s", "--by", "ada")
    last = home.json("queues", "list")["items"][-1]
    assert (last["concurrency"], last["rate"], last["per_seconds"]) == (None, 3, 10.0)
    assert "by ada" in home.command("queues", "list").stdout
    ready = home.running[0].ready
    with AgentRuntime(ready["url"], api_key=ready["key"], serve_tools=False) as runtime:
        assert runtime.queues.set("mail", concurrency=1, by="bob").changed_by == "bob"
        assert runtime.queues.pause("mail", by="eve").changed_by == "eve"
        assert runtime.queues.resume("mail", by="ann").changed_by == "ann"


def test_a_value_that_cannot_be_is_named(home: Home) -> None:
    for args, said in (
        (("--rate", "fast"), "--rate 'fast' cannot be read"),
        (("--concurrency", "0"), "concurrency should be 1 to 1,000,000, or nothing for no limit; found 0"),
        (("--rate", "1/400d"), "per_seconds should be"),
    ):
        wrong = home.command("queues", "set", "mail", *args, "--json")
        error = json.loads(wrong.stdout)["error"]
        assert (wrong.returncode, error["code"]) == (2, "bad_queue")
        assert said in error["message"]


@pytest.mark.parametrize(
    ("text", "number", "seconds"),
    [("100/s", 100, 1.0), ("10/30s", 10, 30.0), ("5/m", 5, 60.0), ("1/500ms", 1, 0.5), ("7/2h", 7, 7200.0)],
)
def test_a_rate_is_shown_as_it_was_typed(text: str, number: int, seconds: float) -> None:
    assert rate_of(text) == (number, seconds)
    assert rate_text(QueueView("q", False, None, number, seconds, 0, 0, None)) == text


@pytest.mark.parametrize("text", ["", "5", "5/", "/s", "-1/s", "5/week", "5 / s", "1e3/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        rate_of(text)
