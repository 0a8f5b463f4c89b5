"""The ledger on the command line: listed, taken out, checked, proven; and found changed when somebody changed it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import cli_agents
from cli_processes import Home, until
from perdure import AgentRuntime
from which_store import rows_of


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A user whose server and worker run."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.serve()
    home.work()
    yield home
    home.close()


def ended(home: Home, text: str) -> str:
    """Run an execution to its end and return its id."""
    ready = home.running[0].ready
    with AgentRuntime(ready["url"], api_key=ready["key"], serve_tools=False) as runtime:
        execution = runtime.start(cli_agents.agent, text).execution_id
    until(lambda: home.json("executions", "show", execution)["execution"]["state"] == "completed", f"the end of {text}")
    return execution


def test_effects_are_listed_and_filtered(home: Home) -> None:
    execution = ended(home, "add")
    listed = home.json("effects", "list", "--execution", execution)["items"]
    assert [(one["tool"], one["outcome"], one["attempts"], one["doubt"]) for one in listed] == [("add", "done", 1, "")]
    assert home.json("effects", "list", "--tool", "none")["items"] == []
    assert home.json("effects", "list", "--agent", "none")["items"] == []
    assert home.json("effects", "list", "--state", "contradicted")["items"] == []
    assert home.json("effects", "list", "--since", "1h", "--execution", execution)["items"] == listed
    assert "add(a=" in home.command("effects", "list").stdout
    odd = home.command("effects", "list", "--since", "soon")
    assert (odd.returncode, "no time" in odd.stderr) == (2, True)


def test_what_an_effect_cost_is_listed_proven_and_taken_out(home: Home, tmp_path: Path) -> None:
    execution = ended(home, "add")
    assert home.json("effects", "list", "--execution", execution)["items"][0]["cost"] == {"USD": "0.02"}
    assert "0.02 USD" in home.command("effects", "list").stdout
    assert "cost 0.02 USD" in home.command("prove", execution).stdout
    written = home.command("effects", "list", "--execution", execution, "--jsonl").stdout
    [taken] = [line for line in map(json.loads, written.splitlines()) if line["record"] == "effect"]
    assert taken["cost"] == {"USD": "0.02"}
    (tmp_path / "export.jsonl").write_text(written, encoding="utf-8")
    assert home.command("effects", "verify", str(tmp_path / "export.jsonl")).returncode == 0


def test_a_clean_run_is_proven_and_a_second_try_is_said(home: Home) -> None:
    clean = home.command("prove", ended(home, "add"))
    assert (clean.returncode, clean.stdout.splitlines()[-1][:45]) == (
        0,
        "No: nothing was done or paid twice (1 effect,",
    )
    retried = ended(home, "flaky")
    doubted = home.command("prove", retried)
    assert doubted.returncode == 1
    assert "tried 2 times with the same key" in doubted.stdout
    assert doubted.stdout.splitlines()[-1].startswith("Possibly: 1 effect possibly done more than once")
    told = json.loads(home.command("prove", retried, "--json").stdout)
    assert (told["twice"], told["log"]["broken_at"], told["effects"][0]["attempts"]) == (True, None, 2)
    unknown = home.command("prove", "exe_none")
    assert unknown.returncode == 3


def test_an_export_is_verified_and_what_was_changed_in_it_is_named(home: Home, tmp_path: Path) -> None:
    execution = ended(home, "add")
    done = home.command("effects", "list", "--jsonl", "--execution", execution)
    assert done.returncode == 0
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["record"] for one in records[-2:]] == ["effect", "log"]
    file = tmp_path / "ledger.jsonl"

    def verified(changed: list[dict[str, object]]) -> tuple[int, str, object]:
        file.write_text("".join(json.dumps(one) + "\n" for one in changed))
        result = home.command("effects", "verify", str(file), "--json")
        (found,) = json.loads(result.stdout)["items"]
        return result.returncode, found["why"], found["broken_at"]

    assert verified(records) == (0, "", None)
    paid = [
        {**one, "data": one["data"].replace("2", "3")} if one.get("kind") == "task_completed" else one
        for one in records
    ]
    (at,) = [one["seq"] for one in records if one.get("kind") == "task_completed"]
    code, why, found = verified(paid)
    assert (code, found) == (1, at)
    assert f"event {at} was changed" in why
    told = [{**one, "value": 9} if one["record"] == "effect" else one for one in records]
    code, why, _ = verified(told)
    assert (code, "is not what the log says" in why) == (1, True)
    code, why, _ = verified(records[:-1])
    assert (code, why) == (1, "the file ends before its log does")
    code, why, found = verified(records[:2] + records[3:])
    assert (code, found) == (1, 3)
    everything = home.command("effects", "list", "--jsonl").stdout
    file.write_text(everything)
    assert home.command("effects", "verify", str(file)).returncode == 0
    assert home.command("effects", "verify", str(tmp_path / "none")).returncode == 2


def test_a_row_changed_by_hand_in_the_store_is_found(home: Home) -> None:
    whole, other = ended(home, "add"), ended(home, "add")
    assert home.command("effects", "verify", whole).returncode == 0
    home.running[0].end()
    ((seq,),) = rows_of(
        home.store_address,
        "SELECT seq FROM events WHERE execution = :execution AND kind = 'task_completed'",
        {"execution": whole},
    )
    rows_of(
        home.store_address,
        "UPDATE events SET data = replace(data, '\"worker\"', '\"Worker\"') "
        "WHERE execution = :execution AND seq = :seq",
        {"execution": whole, "seq": seq},
    )
    home.serve()
    found = home.command("effects", "verify")
    assert found.returncode == 1
    assert f"✗ {whole}  event {seq} was changed" in found.stdout
    assert f"✓ {other}" in found.stdout
    assert found.stdout.splitlines()[-1].startswith("1 log of ")
    proof = home.command("prove", whole)
    assert (proof.returncode, proof.stdout.startswith(f"Nothing is proven: event {seq} was changed")) == (1, True)
