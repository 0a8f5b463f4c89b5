"""Durable code that waits for the outside, whole: through a restart, from programs and from the command line."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import cli_agents
from cli_processes import Home, until
from perdure import Agent, AgentRuntime, Conflict
from perdure.flow import durable, run_agent, signal, step, token
from perdure.models.catalog import Catalog
from perdure.models.scripted import say
from runtimes import runtime_at

PATIENCE = 60
reporter = Agent(name="reporter", model="scripted/reporter", instructions="Report.")
handed_out: queue.Queue[tuple[str, str]] = queue.Queue()


def hand_out(url: str, secret: str) -> None:
    handed_out.put((url, secret))


@durable
async def onboard(customer: str) -> list[object]:
    """Wait for a manager's yes, for somebody's go, and for a report."""
    yes = await token("manager-yes", timeout=timedelta(days=7))
    await step(hand_out, yes.url, yes.secret)
    answer = await yes
    go = await signal("go")
    report = await run_agent(reporter, f"{customer}: {answer}, {go}")
    return [answer, go, report.output]


@durable
async def ask_manager(customer: str) -> list[object]:
    """Wait for a manager's yes and for somebody's go."""
    yes = await token("manager-yes", timeout=timedelta(days=7))
    await step(hand_out, yes.url, yes.secret)
    return [customer, await yes, await signal("go")]


def runtime_on(folder: Path) -> AgentRuntime:
    return runtime_at(folder / "p.db", models=Catalog(scripted={"reporter": [say("all is well")]}, environ={}))


def test_a_token_a_signal_and_a_child_are_waited_for_through_a_restart(tmp_path: Path) -> None:
    with runtime_on(tmp_path) as runtime:
        handle = runtime.start(onboard, "bob")
        _, secret = handed_out.get(timeout=PATIENCE)
        assert handle.signal("go", 7, dedupe="once") == handle.signal("go", 7, dedupe="once")
    with runtime_on(tmp_path) as runtime:
        runtime.serve(onboard, blocking=False)
        handle = runtime.attach(handle.execution_id)
        [wait] = [one for one in handle.get_status().waits if one.kind == "token"]
        assert "manager-yes" in wait.detail
        runtime.complete_token(secret, {"ok": True})
        assert handle.result().output == [{"ok": True}, 7, "all is well"]
        runtime.complete_token(secret, {"ok": True})
        with pytest.raises(Conflict) as refused:
            runtime.fail_token(secret, "too late")
        assert refused.value.code == "token_used"
        [child] = runtime.wait(runtime.api.execution(handle.execution_id)).children
        assert (child.agent, child.state) == ("reporter", "completed")
    assert handed_out.empty(), "the step ran twice"


def test_a_schedule_begins_an_agent_by_hand_from_a_program(tmp_path: Path) -> None:
    with runtime_on(tmp_path) as runtime:
        made = runtime.schedules.create("nightly", reporter, "go", cron="0 3 * * *", zone="Europe/Berlin")
        assert runtime.schedules.list() == [made]
        assert runtime.schedules.run_now("nightly").result().status == "completed"
        assert runtime.schedules.pause("nightly").paused
        assert not runtime.schedules.resume("nightly").paused
        runtime.schedules.delete("nightly")
        assert runtime.schedules.list() == []


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A user whose server runs."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.serve("--public-url", "https://perdure.example/base/")
    yield home
    home.close()


def test_the_command_line_ends_tokens_and_signals(home: Home) -> None:
    ready = home.running[0].ready
    with AgentRuntime(ready["url"], api_key=ready["key"]) as runtime:
        handle = runtime.start(ask_manager, "eve")
        url, secret = handed_out.get(timeout=PATIENCE)
        assert url == f"https://perdure.example/base/v1/tokens/{secret}"

        def waits() -> str | None:
            shown = home.process("executions", "show", handle.execution_id).stdout
            return shown if "perdure tokens complete tok_" in shown else None

        assert secret not in until(waits, "a token that is waited for")
        assert home.json("tokens", "complete", url, "--value", '{"ok": true}') == {"decision": "complete"}
        assert home.command("tokens", "complete", url, "--value", '{"ok": true}').returncode == 0
        refused = home.command("tokens", "fail", secret, "--error", "no")
        assert refused.returncode != 0
        assert "already completed" in refused.stderr
        assert home.command("executions", "signal", handle.execution_id, "go", "--value", "now").returncode == 0
        assert handle.result().output == ["eve", {"ok": True}, "now"]


def test_the_command_line_keeps_schedules(home: Home) -> None:
    target = f"{cli_agents.__name__}:agent"
    pattern = ("--cron", "30 2 * * *", "--zone", "Europe/Berlin")
    made = home.json("schedules", "create", "nightly", target, *pattern, "--value", "hello")
    assert (made["agent"], made["input"], made["missed"]) == (cli_agents.agent.name, "hello", "one")
    assert "nightly" in home.process("schedules", "list").stdout
    assert home.json("schedules", "trigger", "nightly")["id"].startswith("exe_")
    assert home.json("schedules", "pause", "nightly")["paused"]
    assert "paused" in home.process("schedules", "list").stdout
    assert not home.json("schedules", "resume", "nightly")["paused"]
    wrong = home.command("schedules", "create", "x", target, "--cron", "never")
    assert "five are expected" in wrong.stderr
    assert home.command("schedules", "delete", "nightly").returncode == 0
    assert home.json("schedules", "list") == {"items": []}
