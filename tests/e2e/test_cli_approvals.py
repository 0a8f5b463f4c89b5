"""Deciding from the command line: with other arguments, with an answer, among several, and only on what was shown."""

from __future__ import annotations

import json
from collections.abc import Iterator

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


def asked(home: Home, text: str) -> tuple[str, str]:
    """Start an execution that asks for an approval; return both ids."""
    ready = home.running[0].ready
    with AgentRuntime(ready["url"], api_key=ready["key"], serve_tools=False) as runtime:
        execution = runtime.start(cli_agents.agent, text).execution_id

    def look() -> str | None:
        items = home.json("approvals", "list", "--execution", execution)["items"]
        return items[0]["id"] if items else None

    return execution, until(look, "an approval")


def ended(home: Home, execution: str) -> None:
    until(lambda: home.json("executions", "show", execution)["execution"]["state"] == "completed", "the end")


def events(home: Home, execution: str, kind: str) -> list[dict[str, object]]:
    lines = home.command("executions", "watch", execution, "--json").stdout.splitlines()
    return [found["data"] for found in map(json.loads, lines) if found["kind"] == kind]


def test_a_call_is_made_with_the_arguments_that_a_person_gave(home: Home) -> None:
    execution, approval = asked(home, "pay")
    for wrong in ("5", "{"):
        assert home.command("approvals", "edit", approval, wrong).returncode == 2
    misfit = home.command("approvals", "edit", approval, '{"cents": "many"}', "--json")
    assert (misfit.returncode, json.loads(misfit.stdout)["error"]["code"]) == (2, "invalid_arguments")
    done = home.command("approvals", "edit", approval, '{"cents": 3}', "--by", "ada", "--reason", "half")
    assert done.returncode == 0
    assert "approved with other arguments by ada: half" in done.stdout
    ended(home, execution)
    (paid,) = (one for one in home.json("effects", "list", "--execution", execution)["items"] if one["tool"] == "pay")
    assert (paid["args"]["cents"], paid["args"]["to"][:3], paid["outcome"]) == (3, "Ada", "done")


def test_an_answer_stands_in_the_tools_place(home: Home) -> None:
    execution, approval = asked(home, "pay")
    done = home.command("approvals", "respond", approval, "Ada was paid yesterday.", "--by", "bob")
    assert (done.returncode, "answered by bob" in done.stdout) == (0, True)
    ended(home, execution)
    assert all(one["tool"] != "pay" for one in home.json("effects", "list", "--execution", execution)["items"])
    late = home.command("approvals", "approve", approval, "--json")
    told = json.loads(late.stdout)["error"]
    assert (late.returncode, told["code"], told["details"]["decided_by"]) == (1, "already_decided", "bob")


def test_several_who_must_agree_are_counted(home: Home) -> None:
    execution, approval = asked(home, "transfer")
    (listed,) = home.json("approvals", "list", "--execution", execution)["items"]
    assert (listed["quorum"], listed["approvers"], listed["approved"]) == (2, ["ann", "bob"], [])
    assert "0 of 2; ann, bob" in home.command("approvals", "list", "--execution", execution).stdout
    other = home.command("approvals", "approve", approval, "--by", "carl", "--json")
    assert (other.returncode, json.loads(other.stdout)["error"]["code"]) == (1, "not_an_approver")
    first = home.command("approvals", "approve", approval, "--by", "ann")
    assert (first.returncode, "1 more approval needed (so far: ann)" in first.stdout) == (0, True)
    second = home.command("approvals", "approve", approval, "--by", "bob")
    assert "approved by ann, bob" in second.stdout
    ended(home, execution)
