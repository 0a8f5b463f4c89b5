"""Unknown outcomes in real processes: a world counts what was done to it, workers die and stand still, and who rules
is on record."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import effect_agents
from cli_processes import Home, until
from perdure import AgentRuntime
from perdure.testing.world_client import World, running_world

ROLE = "effect_agents:agent"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path) as world:
        yield world


@pytest.fixture
def home(tmp_path: Path, world: World) -> Iterator[Home]:
    home = Home(tmp_path, extra={"EFFECT_FOLDER": str(tmp_path), "EFFECT_WORLD": world.url})
    yield home
    home.close()


def serve(home: Home, *args: str) -> None:
    home.extra["PERDURE_URL"] = home.serve("--script", "effects=effect_agents:script", *args).url


def begin(home: Home, text: str) -> str:
    ready = home.running[0].ready
    with AgentRuntime(ready["url"], api_key=ready["key"], serve_tools=False) as runtime:
        return runtime.start(effect_agents.agent, text).execution_id


def effect(home: Home, execution: str) -> dict[str, Any]:
    return home.json("effects", "list", "--execution", execution)["items"][0]


def uncertain(home: Home, execution: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        items = home.json("effects", "list", "--execution", execution, "--state", "uncertain")["items"]
        return items[0] if items else None

    return until(look, "an uncertain effect")


def ends(home: Home, execution: str) -> None:
    state = lambda: home.json("executions", "show", execution)["execution"]["state"]  # noqa: E731 - read at each look
    until(lambda: state() == "completed", "the end of the run")


def dies(home: Home, point: str) -> None:
    (home.folder / f"kill-{point}").touch()
    home.work(ROLE)
    until(lambda: home.running[-1].process.poll() is not None, "the death of the worker")
    home.work(ROLE)


@pytest.mark.parametrize(("point", "claims", "rulings"), [("after", 1, "happened"), ("before", 2, "run")])
def test_a_probe_finds_out_what_a_dead_worker_did(
    home: Home, world: World, point: str, claims: int, rulings: str
) -> None:
    """Killed after the act, it is not done again; killed before it, it is. Once, either way, and nobody was asked."""
    serve(home)
    execution = begin(home, "pay")
    dies(home, point)
    ends(home, execution)
    (paid,) = world.entries()
    found = effect(home, execution)
    assert (found["ruling"], found["ruled_by"], found["claims"]) == (rulings, "probe", claims)
    assert (found["state"], found["value"]) == ("done", f"receipt {paid.n}")


def test_a_body_that_says_nothing_happened_leaves_no_doubt(home: Home, world: World) -> None:
    world.faults("pay=error_before@1")
    serve(home)
    home.work(ROLE)
    execution = begin(home, "pay")
    ends(home, execution)
    assert [entry.effect for entry in world.entries()] == [False, True]
    assert (effect(home, execution)["claims"], effect(home, execution)["ruling"]) == (2, None)


def test_the_same_act_under_another_name_is_done_once(home: Home, world: World) -> None:
    serve(home)
    home.work(ROLE)
    execution = begin(home, "refund")
    ends(home, execution)
    (refunded,) = world.entries()
    values = {item["value"] for item in home.json("effects", "list", "--execution", execution)["items"]}
    assert values == {f"receipt {refunded.n}"}


def test_a_policy_rules_when_nobody_does(home: Home, world: World) -> None:
    serve(home)
    home.work(ROLE)
    execution = begin(home, "ship")
    ends(home, execution)
    assert len(world.entries()) == 1
    found = effect(home, execution)
    assert (found["ruling"], found["ruled_by"], found["state"]) == ("give_up", "policy", "dead")


def test_nobody_can_say_too_early_that_it_did_not_happen(home: Home) -> None:
    serve(home)
    home.work(ROLE)
    execution = begin(home, "lose")
    rule = ("effects", "rule", execution, uncertain(home, execution)["address"])
    early = home.command(*rule, "run", "--json")
    refusal = json.loads(early.stdout)["error"]
    assert (early.returncode, refusal["code"]) == (1, "not_settled")
    assert 0 < refusal["details"]["after_ms"] <= 30_000
    assert "can be said from" in home.command("doctor", execution).stdout
    assert home.json(*rule, "happened", "--value", '"seen"')["state"] == "done"


def test_a_holder_that_was_ruled_over_and_acts_after_all_is_on_record(home: Home, world: World) -> None:
    """Ruled "run it" while the first worker stood still before its act: both act, and the effect says so."""
    serve(home)
    first = home.work(ROLE, "--lease-ms", "1000")
    execution = begin(home, "crawl")
    until((home.folder / "begun-1").exists, "the start of the body")
    first.send(signal.SIGSTOP)
    address = uncertain(home, execution)["address"]
    home.json("effects", "rule", execution, address, "run", "--reason", "nothing arrived")
    (home.folder / "go").touch()
    home.work(ROLE)
    ends(home, execution)
    assert len(world.entries()) == 1
    first.send(signal.SIGCONT)
    until(lambda: effect(home, execution)["outcome"] == "contradicted", "the contradiction")
    assert len(world.entries()) == 2
    assert effect(home, execution)["value"] == "receipt 1", "what was recorded stays"


def test_a_servers_floor_keeps_what_could_act_again_from_doing_so(home: Home, world: World) -> None:
    serve(home, "--delivery-floor", "at_most_once")
    execution = begin(home, "announce")
    dies(home, "announced")
    found = uncertain(home, execution)
    assert (found["delivery"], found["claims"]) == ("at_most_once", 1)
    home.json("effects", "rule", execution, found["address"], "happened")
    ends(home, execution)
    assert len(world.entries()) == 1
