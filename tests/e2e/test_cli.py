"""The command line against a real server and a real worker: what each verb does, prints and exits with."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import cli_agents
from cli_processes import Home, Running, until
from perdure import AgentRuntime
from which_store import kind


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A user whose server and worker run."""
    home = Home(tmp_path_factory.mktemp("home"))
    server = home.serve("--max-value-mb", "8")
    home.extra["PERDURE_URL"] = server.url  # tests of other states of this machine unset it
    home.work()
    yield home
    home.close()


@pytest.fixture
def server(home: Home) -> Running:
    return home.running[0]


def begin(home: Home, text: str, agent: str = "agent") -> str:
    """Start an execution from a client of the SDK that then goes away."""
    ready = home.running[0].ready
    with AgentRuntime(ready["url"], api_key=ready["key"], serve_tools=False) as runtime:
        return runtime.start(getattr(cli_agents, agent), text).execution_id


def open_approval(home: Home, execution: str) -> str:
    def look() -> str | None:
        items = home.json("approvals", "list", "--execution", execution)["items"]
        return items[0]["id"] if items else None

    return until(look, "an approval")


def state_of(home: Home, execution: str) -> str:
    return home.json("executions", "show", execution)["execution"]["state"]


def test_a_server_that_is_to_run_what_it_cannot_ends_and_keeps_no_store(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for _ in range(2):
        done = home.process("server", "--serve", "cli_agents:unknown_model", "--port", "0", "--json")
        assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "bad_worker")


def test_an_execution_is_watched_to_its_end_through_an_approval(home: Home) -> None:
    execution = begin(home, "pay")
    left = home.process("executions", "watch", execution, "--until-decision")
    assert left.returncode == 4
    approval = open_approval(home, execution)
    assert f"perdure approvals approve {approval}" in left.stdout
    assert home.command("doctor", execution).returncode == 4

    approved = home.process("approvals", "approve", approval, "--reason", "fair price", "--by", "ada")
    assert approved.returncode == 0
    assert r'"Ada \u001b[31m& sons"' in approved.stdout, "shown exactly, and harmless to the terminal"
    assert "approved by ada: fair price" in approved.stdout

    watched = home.process("executions", "watch", execution)
    assert watched.returncode == 0
    assert "It is paid." in watched.stdout
    assert "completed" in watched.stdout

    shown = home.command("executions", "show", execution).stdout
    assert "approved by ada after" in shown
    assert re.search(r"attempt 1: ValueError: not yet after .*, next in (1\.\d|2\.0) s", shown)  # cut by chance
    assert "1,200 in, 85 out · $0.0021" in shown
    assert "at most once" in shown
    assert "\x1b" not in shown

    part = home.json("executions", "show", execution, "--after", "2", "--limit", "3")
    assert [event["seq"] for event in part["events"]] == [3, 4, 5]
    assert part["after"] == 2
    newest = home.command("executions", "show", execution, "--limit", "2").stdout
    assert f"perdure executions show {execution} --after 0" in newest
    assert "--after 3" in home.command("executions", "show", execution, "--after", "0", "--limit", "3").stdout
    whole = home.json("executions", "show", execution)
    assert whole["execution"]["state"] == "completed"
    assert whole["timeline"]["decided_ms"] > 0
    assert [event["seq"] for event in whole["events"]] == list(range(1, len(whole["events"]) + 1))
    assert home.command("doctor", execution).returncode == 0


def test_a_decision_is_made_once(home: Home) -> None:
    execution = begin(home, "pay")
    approval = open_approval(home, execution)
    rejected = home.json("approvals", "reject", execution, "--reason", "too much", "--by", "bob")
    assert (rejected["id"], rejected["decision"], rejected["decided_by"]) == (approval, "reject", "bob")
    again = home.command("approvals", "approve", approval)
    assert again.returncode == 1
    assert "error[already_decided]" in again.stderr
    assert "by bob" in again.stderr
    none = home.command("approvals", "approve", execution, "--json")
    assert none.returncode == 1
    assert json.loads(none.stdout)["error"]["code"] == "not_waiting"
    listed = home.json("approvals", "list", "--execution", execution, "--all")["items"]
    assert [one["id"] for one in listed] == [approval]


def test_what_nobody_knows_is_shown_and_ruled_on_once(home: Home) -> None:
    execution = begin(home, "lose")

    def uncertain() -> list[dict[str, str]]:
        return home.json("effects", "list", "--execution", execution, "--state", "uncertain")["items"]

    (effect,) = until(uncertain, "an uncertain effect")
    assert "outcome unknown" in home.command("executions", "show", execution).stdout
    assert "perdure effects rule" in home.command("effects", "list").stdout
    home.extra["COLUMNS"] = "40"
    command = f"perdure effects rule {execution} '{effect['address']}' happened|run|give-up\n"
    for words in (("effects", "list", "--execution", execution), ("doctor", execution)):
        assert command in home.command(*words).stdout, "it can be copied from a narrow terminal"
    del home.extra["COLUMNS"]
    rule = ("effects", "rule", execution, effect["address"])
    early = home.command(*rule, "run", "--value", "1")
    assert (early.returncode, "--value" in early.stderr) == (2, True)
    ruled = home.json(*rule, "happened", "--value", '{"receipt": 7}', "--reason", "seen in the bank's log")
    assert (ruled["state"], ruled["ruling"], ruled["value"]) == ("done", "happened", {"receipt": 7})
    twice = home.command(*rule, "give-up", "--json")
    assert (twice.returncode, json.loads(twice.stdout)["error"]["code"]) == (1, "not_uncertain")
    unknown = home.command("effects", "rule", execution, "turn 9/tool/x", "happened", "--json")
    assert (unknown.returncode, json.loads(unknown.stdout)["error"]["code"]) == (3, "not_found")


def test_results_that_cannot_be_kept_fail_their_call_and_no_more(home: Home) -> None:
    execution = begin(home, "odd")
    assert home.command("executions", "watch", execution).returncode == 0
    shown = home.command("executions", "show", execution).stdout
    assert "Both failed." in shown
    failures = [task["failure"]["code"] for task in home.json("executions", "show", execution)["tasks"]]
    assert failures == ["unserialisable", "too_large"]


def test_requests_reach_an_execution(home: Home) -> None:
    execution = begin(home, "pay")
    open_approval(home, execution)
    assert home.json("executions", "pause", execution, "--reason", "lunch")["state"] == "paused"
    paused = home.json("executions", "list", "--state", "paused")["items"]
    assert [one["id"] for one in paused] == [execution]
    assert "lunch" in home.command("doctor", execution).stdout
    assert home.json("executions", "resume", execution)["reason"] is None
    again = home.command("executions", "resume", execution)
    assert (again.returncode, "error[not_paused]" in again.stderr) == (1, True)
    first = home.json("executions", "send", execution, "hurry", "--dedupe", "once")["last_seq"]
    second = home.json("executions", "send", execution, "hurry", "--dedupe", "once")["last_seq"]
    assert "hurry" in home.command("executions", "show", execution).stdout
    assert second - first < 2, "the same key again adds no message"
    assert home.json("executions", "stop", execution)["state"] in ("waiting", "ready", "running")
    assert home.json("executions", "cancel", execution)["state"] in ("cancelling", "cancelled")
    assert home.command("executions", "watch", execution).returncode == 1
    late = home.command("executions", "send", execution, "too late", "--json")
    assert (late.returncode, json.loads(late.stdout)["error"]["code"]) == (1, "ended")


def test_the_list_is_paged_and_filtered(home: Home) -> None:
    ids = [begin(home, f"say {number}") for number in range(3)]
    for execution in ids:
        assert home.command("executions", "watch", execution).returncode == 0
    page = home.json("executions", "list", "--limit", "2", "--agent", "clerk", "--state", "completed")
    assert [one["id"] for one in page["items"]] == ids[:0:-1]
    more = home.json("executions", "list", "--limit", "1", "--cursor", page["cursor"])
    assert [one["id"] for one in more["items"]] == ids[:1]
    assert ids[0] in home.command("executions", "list").stdout


def test_watching_as_json_is_one_event_a_line_from_where_it_is_asked(home: Home) -> None:
    execution = begin(home, "hello")
    done = home.command("executions", "watch", execution, "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, [event["seq"] for event in events]) == (0, list(range(1, len(events) + 1)))
    rest = home.command("executions", "watch", execution, "--json", "--after", str(len(events) - 1))
    assert [json.loads(line)["kind"] for line in rest.stdout.splitlines()] == ["completed"]


def test_an_unknown_model_fails_and_names_the_near_one(home: Home) -> None:
    execution = begin(home, "hello", agent="unknown_model")
    watched = home.command("executions", "watch", execution)
    assert watched.returncode == 1
    assert "openai" in watched.stdout


def test_a_missing_key_pauses_and_names_the_variable(home: Home) -> None:
    execution = begin(home, "hello", agent="no_key")
    until(lambda: state_of(home, execution) == "paused", "the pause")
    asked = home.command("doctor", execution)
    assert asked.returncode == 1
    assert "OPENAI_API_KEY" in asked.stdout
    assert f"perdure executions resume {execution}" in asked.stdout


def test_unknown_ids_end_with_3_and_a_wrong_key_with_1(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (
        ["executions", "show", "exe_nope"],
        ["executions", "watch", "exe_nope"],
        ["executions", "cancel", "exe_nope"],
        ["approvals", "approve", "apr_nope"],
        ["approvals", "reject", "exe_nope"],
        ["doctor", "exe_nope"],
    ):
        done = home.command(*command, "--json")
        assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (3, "not_found"), command
    monkeypatch.setenv("PERDURE_API_KEY", "pdk_wrong_wrong_wrong_wrong_wrong")
    for command in (["executions", "list"], ["worker", "cli_agents:agent"], ["doctor"]):
        done = home.process(*command)
        assert done.returncode == 1, command
        assert "PERDURE_API_KEY" in done.stdout + done.stderr


def test_what_is_copied_is_on_one_line_in_a_narrow_terminal(tmp_path: Path) -> None:
    process = Home(tmp_path, extra={"COLUMNS": "40"}).spawn("server", "--port", "0")
    assert process.stdout is not None
    said: list[str] = []
    try:
        while not said or "executions list" not in said[-1]:
            said.append(process.stdout.readline())
            assert said[-1], "it ended"
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()
    (link,) = (line.split()[-1] for line in said if "/login#" in line)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/login#\S{47}", link)
    (key,) = (line.split()[-1] for line in said if line.startswith("key"))
    assert re.fullmatch(r"pdk_\S{43}", key)


@pytest.mark.sqlite_only("who owns a file is its lock's to say; a database has no owner")
def test_a_second_server_is_sent_to_the_first(home: Home, server: Running) -> None:
    done = home.process("server", "--port", "0")
    assert done.returncode == 1
    assert "error[store_in_use]" in done.stderr
    assert server.url in done.stderr
    taken = home.process("server", "--port", server.port, "--store", "other.db")
    assert (taken.returncode, "error[port_in_use]" in taken.stderr) == (1, True)


@pytest.mark.sqlite_only("who owns a file is its lock's to say; a database has no owner")
def test_a_server_that_is_stopped_keeps_its_store(home: Home, server: Running) -> None:
    server.send(signal.SIGSTOP)
    try:
        done = home.process("server", "--port", "0")
    finally:
        server.send(signal.SIGCONT)
    assert done.returncode == 1
    assert "error[store_owner_not_answering]" in done.stderr
    assert f"kill -CONT {server.process.pid}" in done.stderr


def test_the_doctor_finds_a_sound_installation(home: Home, server: Running) -> None:
    done = home.command("doctor")
    assert done.returncode == 0, done.stdout
    store = ("SQLite", "owned by process") if kind() == "sqlite" else ("PostgreSQL",)
    for what in (*store, server.url, "1 worker", "clock"):
        assert what in done.stdout


def test_the_server_is_found_and_its_key_too(home: Home, server: Running, tmp_path: Path) -> None:
    begin(home, "pay")
    url = home.extra.pop("PERDURE_URL")
    try:
        assert home.json("executions", "list", "--limit", "1")["items"]
        port = url.rpartition(":")[2]
        assert home.json("executions", "list", "--limit", "1", "--server", f"localhost:{port}/api")["items"]
        stranger = Home(tmp_path)
        refused = stranger.command("executions", "list", "--server", url)
        assert (refused.returncode, "error[unauthorized]" in refused.stderr) == (1, True)
    finally:
        home.extra["PERDURE_URL"] = url
