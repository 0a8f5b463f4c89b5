"""`http_tool` through real processes: the world counts what a server did that was killed in the middle of a call."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import http_agents
from cli_processes import Home, Running, until
from perdure import AgentRuntime
from perdure.models.catalog import Catalog
from perdure.testing.evidence import Entry
from perdure.testing.world_client import World, running_world


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    home.extra["SHOP_NAME"] = "acme"
    yield home
    home.close()


def serve(home: Home, *args: str, port: str = "0") -> Running:
    lease = ("--lease-ms", "1500")  # where no lock proves a server's death, it is waited for
    return home.serve("--script", "payer=http_agents:script", "--tool-env", "SHOP_NAME", *lease, *args, port=port)


def begin(server: Running, world: World, delivery: str) -> str:
    with AgentRuntime(server.url, api_key=server.ready["key"]) as runtime:
        return runtime.start(http_agents.payer(f"{world.url}/act/pay", delivery), "pay").execution_id


def story(home: Home, execution: str) -> str:
    """Wait for the end and return all that is told of an execution."""
    assert home.process("executions", "watch", execution).returncode == 0
    return str(home.json("executions", "show", execution))


def payments(world: World) -> list[Entry]:
    return [entry for entry in world.entries() if entry.name == "pay"]


@pytest.mark.parametrize("delivery", ["repeatable", "at_least_once"])
def test_killed_in_the_middle_of_a_call_it_is_made_again_with_the_same_key(
    delivery: str, home: Home, tmp_path: Path
) -> None:
    with running_world(tmp_path, faults="pay=hang@1") as world:
        server = serve(home, "--allow-private-http")
        execution = begin(server, world, delivery)
        until(lambda: payments(world), "the first request")
        server.end(signal.SIGKILL)
        serve(home, "--allow-private-http", port=server.port)
        assert "'name': 'pay'" in story(home, execution)
        paid = payments(world)
        assert len(paid) == 2
        assert len({entry.key for entry in paid}) == 1
        assert {entry.company for entry in paid} == {"acme"}  # the header that refers to a variable


def test_killed_in_the_middle_of_an_at_most_once_call_it_is_uncertain_and_never_made_again(
    home: Home, tmp_path: Path
) -> None:
    with running_world(tmp_path, faults="pay=hang@1") as world:
        server = serve(home, "--allow-private-http")
        execution = begin(server, world, "at_most_once")
        until(lambda: payments(world), "the first request")
        server.end(signal.SIGKILL)
        serve(home, "--allow-private-http", port=server.port)
        [effect] = until(lambda: home.json("effects", "list", "--state", "uncertain")["items"], "the doubt")
        done = home.command("effects", "rule", execution, effect["address"], "happened", "--reason", "the bank says so")
        assert done.returncode == 0, done.stdout + done.stderr
        story(home, execution)
        assert len(payments(world)) == 1


@pytest.mark.sqlite_only("a program that is its own server has a file")
def test_an_embedded_runtime_calls_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ALLOW_PRIVATE_HTTP", "1"), ("TOOL_ENV", "OTHER, SHOP_NAME")):
        monkeypatch.setenv(f"PERDURE_{name}", value)
    monkeypatch.setenv("SHOP_NAME", "acme")
    models = Catalog(scripted={"payer": http_agents.script})
    with running_world(tmp_path) as world, AgentRuntime(store=tmp_path / "perdure.db", models=models) as runtime:
        result = runtime.run(http_agents.payer(f"{world.url}/act/pay", "at_most_once"), "pay")
        assert "'name': 'pay'" in str(result.output) or '"name":"pay"' in str(result.output)
        assert [entry.company for entry in payments(world)] == ["acme"]


def test_a_server_reaches_nothing_private_unless_its_operator_allows_it(home: Home, tmp_path: Path) -> None:
    with running_world(tmp_path) as world:
        execution = begin(serve(home), world, "at_least_once")
        assert "no public address" in story(home, execution)
        assert payments(world) == []
