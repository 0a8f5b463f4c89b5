"""The world counts what was done to it, and only that, whatever becomes of the caller."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from perdure.testing.evidence import read_world_log
from perdure.testing.world import Faults, parse_rule
from perdure.testing.world_client import World, WorldRefused, running_world

SCRIPT = f"{Path(__file__).stem}_script:answer"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A script that the world can import: it answers with what the user said last, or refuses."""
    (tmp_path / f"{Path(__file__).stem}_script.py").write_text(
        "class Busy(Exception):\n    status = 429\n"
        "def answer(request):\n"
        "    text = request['messages'][-1]['text']\n"
        "    if text == 'busy':\n        raise Busy(text)\n"
        "    return {'text': text, 'tool_calls': [], 'finish_reason': 'stop', 'usage': {}, 'model': request['model']}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return SCRIPT


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One world for the tests that only act on it."""
    with running_world(tmp_path_factory.mktemp("world")) as world:
        yield world


def named(world: World, name: str) -> list[tuple[bool, str | None]]:
    return [(entry.effect, entry.fault) for entry in world.entries() if entry.name == name]


def test_a_call_is_logged_with_its_origin(shared: World) -> None:
    reply = shared.act("mail", key="k/1", execution="exe_1", step="turn 1/tool/ä\n1", attempt=2, to="eve", n=[1])
    entry = shared.entries()[-1]
    assert reply == {"n": entry.n, "name": "mail"}
    assert (entry.key, entry.execution, entry.step, entry.attempt) == ("k/1", "exe_1", "turn 1/tool/ä\n1", 2)
    assert entry.body == {"to": "eve", "n": [1]}
    assert abs(entry.received_at_ms - time.time() * 1000) < 60_000


def test_a_call_is_on_the_disk_when_its_caller_knows(tmp_path: Path) -> None:
    with running_world(tmp_path) as world:
        world.act("mail", key="a")
        os.kill(world.pid, signal.SIGKILL)
        assert [entry.key for entry in read_world_log(tmp_path / "world.log")] == ["a"]


def test_a_restarted_world_goes_on_counting(tmp_path: Path) -> None:
    with running_world(tmp_path) as world:
        world.act("mail")
    with (tmp_path / "world.log").open("ab") as log:
        log.write(b'{"n": 2, "torn')
    with running_world(tmp_path) as world:
        assert world.act("mail")["n"] == 2
        assert [entry.n for entry in world.entries()] == [1, 2]


def test_simultaneous_calls_are_counted_one_by_one(shared: World) -> None:
    before = len(shared.entries())
    threads = [threading.Thread(target=shared.act, args=("flood",)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [entry.n for entry in shared.entries()] == list(range(1, before + 21))


def test_half_a_request_does_not_count(shared: World) -> None:
    address = urlsplit(shared.url)
    head = b"POST /act/half HTTP/1.1\r\nHost: world\r\nContent-Length: 100\r\n\r\n"
    with socket.create_connection((address.hostname, address.port), timeout=60) as caller:
        caller.sendall(head + b'{"amount": 1')
        caller.shutdown(socket.SHUT_WR)
        assert caller.recv(100) == b""  # the world has looked at it and closed
    assert named(shared, "half") == []


@pytest.mark.parametrize(
    ("fault", "effect", "error"),
    [
        ("error_before", False, WorldRefused),
        ("error_after", True, WorldRefused),
        ("reply_lost", True, ConnectionError),
        ("reset", True, ConnectionResetError),
    ],
)
def test_a_fault_hits_the_call_it_is_planned_for(
    shared: World, fault: str, effect: bool, error: type[Exception]
) -> None:
    name = f"pay-{fault}"
    shared.faults(f"{name}={fault}@2")
    shared.act(name)
    with pytest.raises(error):
        shared.act(name)
    shared.act(name)
    assert named(shared, name) == [(True, None), (effect, fault), (True, None)]


def test_a_hanging_call_counts_and_ends_with_its_caller(shared: World) -> None:
    shared.faults("pay=hang")
    address = urlsplit(shared.url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as caller:
        caller.sendall(b"POST /act/pay HTTP/1.1\r\nHost: world\r\nContent-Length: 2\r\n\r\n{}")
        while not named(shared, "pay"):
            pass
        caller.settimeout(0.2)
        with pytest.raises(TimeoutError):
            caller.recv(1)
    assert named(shared, "pay") == [(True, "hang")]


def test_a_slow_call_counts_before_its_reply(shared: World) -> None:
    shared.faults("pay-slow=slow:0.2")
    started = time.monotonic()
    shared.act("pay-slow")
    assert time.monotonic() - started >= 0.2
    assert named(shared, "pay-slow") == [(True, "slow")]


def test_faults_by_chance_follow_their_seed() -> None:
    def draw(seed: int) -> list[bool]:
        faults = Faults("*=reset@0.5", seed)
        return [faults.choose("pay") is not None for _ in range(40)]

    assert draw(1) == draw(1) != draw(2)
    assert 5 < sum(draw(1)) < 35


def test_an_unreadable_plan_is_refused_and_the_old_one_kept(shared: World) -> None:
    shared.faults("kept=error_after")
    with pytest.raises(WorldRefused, match="expected NAME=FAULT"):
        shared.faults("kept=explode")
    with pytest.raises(WorldRefused, match="at most 64"):
        shared.faults(";".join(["a=reset"] * 65))
    with pytest.raises(WorldRefused, match="error_after"):
        shared.act("kept")


def test_waiting_is_bounded() -> None:
    assert parse_rule("pay=slow:100000").seconds <= 60


def test_what_cannot_be_an_effect_is_refused(shared: World) -> None:
    before = len(shared.entries())
    for path, status in (("/act/model_request", 404), ("/nowhere", 404)):
        with pytest.raises(WorldRefused) as refused:
            shared._request("POST", path, b"{}", {})
        assert refused.value.status == status
    with pytest.raises(WorldRefused, match="not JSON"):
        shared._request("POST", "/act/pay", b"{", {})
    with pytest.raises(WorldRefused, match="no model"):
        shared.model({"call": "exe_1/turn 1/model"})
    assert [entry.name for entry in shared.entries()[before:]] == ["model_request"]


def test_the_model_is_logged_before_and_after_it_thinks(tmp_path: Path, script: str) -> None:
    with running_world(tmp_path, script=script) as world:
        request = {"model": "scripted/x", "messages": [{"role": "user", "text": "hi"}], "call": "exe_1/turn 1/model"}
        assert world.model(request)["text"] == "hi"
        asked, answered = world.entries()
    assert (asked.name, asked.execution, asked.step) == ("model_request", "exe_1", "turn 1/model")
    assert asked.body == request
    assert (answered.name, answered.step, answered.body["text"]) == ("model_reply", "turn 1/model", "hi")


def test_a_caller_killed_in_mid_call_has_been_counted(tmp_path: Path, script: str) -> None:
    with running_world(tmp_path, script=script, model_delay_ms=30_000) as world:
        program = f"from perdure.testing.world_client import World; World({world.url!r}).model({{'call': 'e/m'}})"
        path = os.pathsep.join(filter(None, sys.path))
        with subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}) as caller:
            while not world.entries():
                assert caller.poll() is None
            caller.kill()
        assert [(entry.name, entry.step) for entry in world.entries()] == [("model_request", "m")]


def test_a_script_can_refuse(tmp_path: Path, script: str) -> None:
    with running_world(tmp_path, script=script) as world:
        with pytest.raises(WorldRefused, match="Busy") as refused:
            world.model({"messages": [{"text": "busy"}]})
        assert refused.value.status == 429
        with pytest.raises(WorldRefused, match="KeyError") as refused:
            world.model({})
        assert refused.value.status == 500
        replies = [entry for entry in world.entries() if entry.name == "model_reply"]
        assert [entry.effect for entry in replies] == [False, False]


def test_a_world_that_cannot_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="No module named 'no_such_script'"),
        running_world(tmp_path, script="no_such_script:answer"),
    ):
        pass


def test_a_world_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, sys; from perdure.testing.world_client import running_world\n"
        "with running_world(pathlib.Path(sys.argv[1])) as world:\n"
        "    print(world.pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    path = os.pathsep.join(filter(None, sys.path))
    parent = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, env={**os.environ, "PYTHONPATH": path}
    )
    world = int(parent.stdout)
    deadline = time.monotonic() + 60
    while _alive(world):
        assert time.monotonic() < deadline, "the world outlived its parent"
        os.sched_yield()


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_the_log_is_one_object_a_line(shared: World) -> None:
    assert shared.log
    shared.act("mail", key="lone surrogate \ufffd", text="line\nbreak")
    assert json.loads(shared.log.read_text().splitlines()[-1])["body"] == {"text": "line\nbreak"}
