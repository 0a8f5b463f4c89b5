"""Durable functions and forks from the command line: `perdure worker`, `perdure check`, `perdure executions fork`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_processes import Home, until
from perdure.core.functions import function_spec
from perdure.core.views import StartRequest
from perdure.core.work import FunctionLane
from perdure.runtime import AgentRuntime

CODE = """
from perdure.flow import durable, signal, step


@durable(build="b1")
async def patient(who: str) -> str:
    greeting = await step(greet, who)
    await signal("go")
    return greeting


def greet(who: str) -> str:
    return f"hello {who}"
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()


def write(home: Home, name: str, code: str) -> str:
    (home.folder / f"{name}.py").write_text(code, encoding="utf-8")
    return name


def start(home: Home, name: str, input: Any) -> str:
    state = home.server_state()
    with AgentRuntime(state["url"], api_key=state["key"], serve_tools=False) as runtime:
        request = StartRequest(function_spec(FunctionLane(name, "b1")), input)
        return runtime.wait(runtime.api.start(request)).id


def test_a_check_tells_code_that_does_not_go_with_what_lives(home: Home) -> None:
    home.serve()
    home.work(f"{write(home, 'shop_functions', CODE)}:patient")
    execution = start(home, "patient", "ann")
    until(lambda: home.json("executions", "show", execution)["execution"]["state"] == "waiting", "the wait")
    same = home.process("check", "shop_functions", "--json")
    assert same.returncode == 0, same.stdout + same.stderr
    assert json.loads(same.stdout) == {"outside_steps": [], "mismatches": [], "executions": 1}
    write(home, "changed", CODE.replace("step(greet, who)", "step(greet, who, name='welcome')"))
    changed = home.process("check", "changed", "--json")
    assert changed.returncode == 1
    [found] = json.loads(changed.stdout)["mismatches"]
    assert (found["execution"], found["function"]) == (execution, "patient")
    assert "'greet'" in found["why"]
    assert home.json("executions", "show", execution)["execution"]["state"] == "waiting"


def test_slots_hold_for_durable_functions_too(home: Home) -> None:
    home.serve()
    home.work(f"{write(home, 'slots_functions', CODE)}:patient", "--slots", "3")
    state = home.server_state()
    with AgentRuntime(state["url"], api_key=state["key"], serve_tools=False) as runtime:
        assert [info.slots for info in runtime.wait(runtime.api.workers())] == [3]


def test_a_check_names_what_is_outside_steps_with_line_and_cure(home: Home) -> None:
    code = "import time\n" + CODE.replace("    await signal", "    print(time.time())\n    await signal")
    done = home.process("check", write(home, "timely", code), "--no-live")
    assert done.returncode == 1
    assert "timely.py:9: patient uses time.time (time) outside a" in done.stdout
    assert "now()" in done.stdout


def test_a_fork_from_the_command_line_goes_on_with_its_edits(home: Home) -> None:
    home.serve()
    home.work()
    state = home.server_state()
    from cli_agents import agent

    with AgentRuntime(state["url"], api_key=state["key"], serve_tools=False) as runtime:
        origin = runtime.run(agent, "plain")
        assert origin.status == "completed"
    made = home.json("executions", "fork", origin.execution_id, "--at", "1", "--edit", "prompt=plain")["id"]
    until(lambda: home.json("executions", "show", made)["execution"]["state"] == "completed", "the fork's end")
    again = ("executions", "fork", origin.execution_id, "--at", "1", "--idempotency-key", "k")
    first = home.json(*again)
    assert home.json(*again) == {"id": first["id"], "created": False}
    refused = home.command("executions", "fork", origin.execution_id, "--at", "1", "--edit", "colour=red")
    assert refused.returncode != 0
    assert "none of prompt=TEXT" in refused.stderr


def test_a_durable_function_is_forked_with_another_input_and_its_stand_ins_run_in_the_worker(home: Home) -> None:
    code = CODE.replace("step(greet, who)", "step(greet, who, delivery='at_most_once', simulate=pretend)")
    code = code.replace("await signal", "await step(greet, who, name='mail', simulate=pretend)\n    await signal")
    home.serve()
    home.work(f"{write(home, 'forked_functions', code + PRETEND)}:patient")
    execution = start(home, "patient", "ann")
    waiting(home, execution)
    made = home.json("executions", "fork", execution, "--at", "1", "--edit", 'input="bob"')["id"]
    waiting(home, made)
    home.process("executions", "signal", made, "go")
    until(lambda: home.json("executions", "show", made)["execution"]["state"] == "completed", "the fork's end")
    assert home.json("executions", "show", made)["execution"]["output"] == "as if bob"
    [effect] = home.json("effects", "list", "--state", "simulated")["items"]
    assert (effect["execution"], effect["outcome"]) == (made, "simulated")
    for shown in (home.command("executions", "show", made), home.command("tasks", "list", made)):
        assert "simulated" in shown.stdout, shown.stdout + shown.stderr
    proven = home.process("prove", made)
    assert proven.returncode == 0, proven.stdout + proven.stderr
    assert "0 effects, 0 model calls, 2 simulated" in " ".join(proven.stdout.split())


PRETEND = """

def pretend(who: str) -> str:
    return f"as if {who}"
"""


def waiting(home: Home, execution: str) -> None:
    until(lambda: home.json("executions", "show", execution)["execution"]["state"] == "waiting", "the wait")
