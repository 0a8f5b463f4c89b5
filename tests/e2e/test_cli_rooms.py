"""Rooms from a program and from the command line: the same room, whoever writes in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_processes import Home
from perdure import Agent, AgentRuntime, Conflict
from perdure.models.catalog import Catalog
from perdure.models.scripted import say


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A user whose server runs."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.serve()
    yield home
    home.close()


def test_a_room_is_made_written_in_and_read(home: Home) -> None:
    room = home.json("rooms", "create", "the bridge", "--key", "k")["id"]
    assert home.json("rooms", "create", "the bridge", "--key", "k") == {
        "id": room,
        "seq": 0,
        "created": False,
        "woken": [],
    }
    home.json("rooms", "invite", room, "globex")
    home.json("rooms", "post", room, "hello", "--key", "1", "--by", "ann")
    home.json("rooms", "post", room, "hello", "--key", "1", "--by", "ann")
    task = home.json("rooms", "ask", room, "default", "count the beams")["id"]
    home.json("rooms", "task", room, task, "complete", "--result", "12")
    home.json("rooms", "remember", room, "the river is wide", "--reader", "default")
    [said] = home.json("rooms", "read", room)["items"]
    assert (said["author"], said["text"]) == ("ann", "hello")
    for words, shown in (
        (("read", room), "hello"),
        (("tasks", room), "count the beams"),
        (("memory", room), "the river is wide"),
        (("ledger", room), "task changed"),
        (("show", room), "globex"),
        (("list",), "the bridge"),
        (("wakes", room), "WOKEN BY"),
        (("search", room, "river wide", "--kind", "memory"), "memory of default/"),
        (("search", room, "qqq"), "nothing found"),
    ):
        done = home.command("rooms", *words)
        assert (done.returncode, shown in done.stdout) == (0, True), (words, done.stdout, done.stderr)


def test_a_message_cannot_play_with_the_terminal_or_imitate_another(home: Home) -> None:
    room = home.json("rooms", "create", "tricks", "--key", "t")["id"]
    home.json("rooms", "post", room, "\x1b[2Jall is well\n7 default/ann  msg_1\nI agree")
    home.json("rooms", "remember", room, "river \x1b]0;mine\x07")
    for words in (("read", room), ("search", room, "well"), ("memory", room), ("search", room, "river")):
        said = home.command("rooms", *words).stdout
        assert "\x1b" not in said
        assert r"\x1b" in said, words
    assert "\n  7 default/ann  msg_1\n  I agree\n" in home.command("rooms", "read", room).stdout


def test_a_ledger_is_exported_and_verified_without_the_server(home: Home, tmp_path: Path) -> None:
    room = home.json("rooms", "create", "exported", "--key", "x")["id"]
    for number in range(3):
        home.json("rooms", "post", room, f"line {number}", "--key", str(number))
    done = home.command("rooms", "export", room)
    head = done.stderr.strip().removeprefix("head ")
    file = tmp_path / "ledger.jsonl"
    file.write_text(done.stdout, encoding="utf-8")
    verified = home.command("rooms", "verify", str(file), "--head", head)
    assert (verified.returncode, f"4 events, up to {head}" in verified.stdout) == (0, True), verified
    ready = home.running[0].ready
    with AgentRuntime(ready["url"], api_key=ready["key"], serve_tools=False) as runtime:
        assert runtime.rooms.get(room).export().decode() == done.stdout
    file.write_text(done.stdout.replace('"seq":3', '"seq":4'), encoding="utf-8")
    broken = home.command("rooms", "verify", str(file))
    assert (broken.returncode, "event 3 is missing" in broken.stdout) == (1, True), broken
    assert home.command("rooms", "verify", str(file), "--head", "x").returncode == 2
    assert home.command("rooms", "verify", str(tmp_path / "no")).returncode == 2
    assert home.command("rooms", "export", "room_x").returncode == 3


def test_a_file_is_put_listed_and_taken_out(home: Home, tmp_path: Path) -> None:
    room = home.json("rooms", "create", "files", "--key", "f")["id"]
    plan = tmp_path / "plan.md"
    plan.write_bytes(b"# twelve beams\n")
    home.json("rooms", "upload", room, str(plan), "--key", "1")
    id = home.json("rooms", "upload", room, str(plan), "--key", "2")["id"]
    [shown] = home.json("rooms", "files", room)["items"]
    assert (shown["id"], shown["version"], shown["media"], shown["text_state"]) == (id, 2, "text/markdown", "text")
    assert len(home.json("rooms", "files", room, "--versions", "--name", "plan.md")["items"]) == 2
    assert "plan.md" in home.command("rooms", "files", room).stdout
    out = tmp_path / "out.md"
    assert home.command("rooms", "download", room, "plan.md", "--out", str(out)).returncode == 0
    assert out.read_bytes() == plan.read_bytes()
    done = home.command("rooms", "download", room, id)
    assert done.stdout == "# twelve beams\n", done
    assert home.command("rooms", "download", room, "no.md").returncode == 3
    for words in (("upload", room, str(tmp_path / "none")), ("download", room, id, "--out", str(tmp_path / "x" / "y"))):
        done = home.command("rooms", *words)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done


def test_rights_are_shown_and_said(home: Home, tmp_path: Path) -> None:
    room = home.json("rooms", "create", "rights")["id"]
    said = {"rules": [{"name": "ask", "then": "hold", "acts": ["spend"], "above": 5}], "roles": {"bosses": ["ann"]}}
    (tmp_path / "rights.json").write_text(json.dumps(said), encoding="utf-8")
    assert home.json("rooms", "rights", room, "--set", str(tmp_path / "rights.json"))["created"]
    assert home.json("rooms", "rights", room)["document"] == said
    shown = home.command("rooms", "rights", room).stdout
    assert "above=5" in shown
    assert "bosses: ann" in shown
    (tmp_path / "rights.json").write_text('{"rules": [{"name": "ask"}]}', encoding="utf-8")
    for file, said in ((tmp_path / "rights.json", "then should be allow"), (tmp_path / "none.json", "cannot be read")):
        done = home.command("rooms", "rights", room, "--set", str(file))
        assert (done.returncode != 0, said in done.stderr) == (True, True), done.stderr


def test_a_room_is_stopped_and_started_and_money_capped(home: Home) -> None:
    room = home.json("rooms", "create", "stops")["id"]
    assert home.json("rooms", "stop", room, "--reason", "for tonight")["created"]
    assert "for tonight" in home.command("rooms", "post", room, "hello").stderr
    assert "the room" in home.command("rooms", "stops", room).stdout
    assert home.json("rooms", "start", room) == {"lifted": True, "wakes": 0}
    assert home.command("rooms", "post", room, "hello").returncode == 0
    [cap] = home.json("rooms", "budget", "--usd", "5", "--room", room, "--unpriced-usd", "0.1")["items"]
    assert (cap["usd"], cap["spent_usd"]) == (5.0, 0.0)
    assert room in home.command("rooms", "budget").stdout
    assert "name a cap" in home.command("rooms", "budget", "--agent", "x").stderr
    assert home.json("rooms", "budget", "--room", room, "--remove")["items"] == []


def test_an_agent_is_registered_and_taken_out(home: Home) -> None:
    room = home.json("rooms", "create", "agents")["id"]
    done = home.command("rooms", "add-agent", room, "cli_agents:agent")
    assert done.returncode == 0, done.stderr  # its tools are run by a worker
    assert "there is no room room_x" in home.command("rooms", "read", "room_x").stderr
    assert "has no agent" in home.command("rooms", "remove-agent", room, "nobody").stderr


def test_a_wake_is_shown_and_diagnosed_like_any_execution(home: Home) -> None:
    ready = home.running[0].ready
    with AgentRuntime(ready["url"], api_key=ready["key"], serve_tools=False) as runtime:
        room = runtime.rooms.create("echoes", key="echoes", by="ann")
        room.add_agent(Agent(name="parrot", model="scripted/by-input"), on_crash="abandon")
        [wake] = room.post("@parrot, hello", key="1").woken
        assert runtime.attach(wake).result().status == "completed"
        assert "@parrot, hello" in room.messages()[-1].text
    for words in (("executions", "show", wake), ("doctor", wake), ("prove", wake)):
        done = home.command(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert "parrot" in home.command("executions", "list").stdout
    assert home.command("executions", "fork", wake, "--at", "2").returncode != 0


@pytest.mark.sqlite_only("a program that is its own server has a file")
def test_a_program_lives_with_an_agent_in_a_room(tmp_path: Path) -> None:
    models = Catalog(scripted={"planner": [say("12 beams")]})
    with AgentRuntime(store=tmp_path / "p.db", models=models) as runtime:
        room = runtime.rooms.create("the bridge", key="k", by="ann")
        room.add_agent(Agent(name="planner", model="scripted/planner"))
        [wake] = room.post("@planner, how many?", key="1").woken
        assert runtime.attach(wake).result().status == "completed"
        assert [one.text for one in room.messages()] == ["@planner, how many?", "12 beams"]
        task = room.open_task("buy them", to="default").id
        room.change_task(task, "claim")
        assert [one.state for one in room.tasks()] == ["claimed"]
        room.remember("12 beams", source=task)
        assert [one.source for one in room.memory()] == [task]
        assert [one.agent for one in room.wakes()] == ["planner"]
        assert [one.name for one in room.view().members] == ["", "planner"]
        links, checked = room.ledger()
        assert (checked.broken_at, len(links)) == (None, 8)
        assert [one.id for one in runtime.rooms.list()] == [room.id]
        room.remove_agent("planner")
        assert room.post("@planner?").woken == ()
        with pytest.raises(Conflict):
            room.leave()
