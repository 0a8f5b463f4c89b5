"""Several processes on one file: the first owns it, the others join, and go on without noticing when it is gone."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.errors import StoreInUse
from perdure.models.catalog import Catalog
from perdure.service_loop import ServiceLoop
from perdure.shared_store import SharedStore
from perdure.store.ownership import lock_file, read_hint
from sharing_program import Program, program

pytestmark = pytest.mark.sqlite_only("who owns a file is its lock's to say; a database has no owner")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "perdure.db"


def opened(one: Program) -> str:
    answer = one.ask("open")
    assert "role" in answer, answer
    return answer["role"]


def until(fact: Callable[[], object]) -> None:
    while not fact():
        time.sleep(0.01)


def count(events: list[list[object]], kind: str) -> int:
    return sum(event[1] == kind for event in events)


def test_the_second_process_joins_the_first(store: Path) -> None:
    with program(store) as owner, program(store) as other:
        assert opened(owner) == "owner"
        assert owner.ask("run", "say") == ["completed", "said"]
        assert owner.ask("loaded", "uvicorn") is False, "nobody came: no server was loaded"
        assert opened(other) == "joined"
        execution = other.ask("start", "work")
        assert owner.ask("result", execution) == other.ask("result", execution) == ["completed", "worked"]
        assert owner.ask("executions") == other.ask("executions")
        assert other.ask("run", "work") == ["completed", "worked"], "its tools are run by whoever is free"
        assert stat.S_IMODE(lock_file(store).stat().st_mode) == 0o600


@pytest.mark.parametrize("way", ["kill", "close"])
def test_who_joined_takes_over_and_goes_on(store: Path, way: str) -> None:
    """A run that the owner drove, followed and waited for by the one that joined: same id, no gap, nothing twice."""
    with program(store) as owner, program(store) as other, program(store) as third:
        assert [opened(one) for one in (owner, other, third)] == ["owner", "joined", "joined"]
        (store.parent / "hold").touch()
        execution = owner.ask("start", "work")
        until(lambda: (store.parent / "acts").exists())
        assert other.ask("serve") is None
        other.send("follow", execution)
        third.send("result", execution)
        if way == "kill":
            owner.kill()
        else:
            (store.parent / "hold").unlink()
            assert owner.ask("close") is None
        if way == "kill":
            (store.parent / "hold").unlink()
        seqs = other.answer()
        assert seqs == list(range(1, len(seqs) + 1))
        assert third.answer() == ["completed", "worked"]
        until(lambda: sorted([other.ask("role"), third.ask("role")]) == ["joined", "owner"])
        assert other.ask("run", "work") == ["completed", "worked"]
        assert third.ask("run", "work") == ["completed", "worked"]
        assert len(other.ask("executions")) == 3


VERBS = [
    ("start", "start.after_commit", ()),
    ("start", "start.before_commit", ()),
    ("message", "signal.after_commit", ("pay",)),
    ("message", "signal.before_commit", ("pay",)),
    ("signal", "signal.after_commit", ("pay",)),
    ("signal", "signal.before_commit", ("pay",)),
    ("cancel", "signal.after_commit", ("pay",)),
    ("cancel", "signal.before_commit", ("pay",)),
    ("pause", "signal.after_commit", ("pay",)),
    ("approve", "decide.after_commit", ("pay",)),
    ("approve", "decide.before_commit", ("pay",)),
    ("rule", "rule.after_commit", ("lose",)),
    ("rule", "rule.before_commit", ("lose",)),
]
KIND = {
    "message": "message",
    "signal": "signal",
    "cancel": "cancel_requested",
    "pause": "paused",
    "approve": "waitpoint_resolved",
    "rule": "effect_ruled",
}


@pytest.mark.parametrize(("verb", "point", "agent"), VERBS, ids=[f"{verb} {point}" for verb, point, _ in VERBS])
def test_a_verb_in_flight_when_the_owner_dies_counts_once(
    store: Path, verb: str, point: str, agent: tuple[str, ...]
) -> None:
    nth = 2 if verb == "start" else 1
    with program(store, failpoints=f"{point}=kill@{nth}") as owner, program(store) as other:
        assert [opened(one) for one in (owner, other)] == ["owner", "joined"]
        if verb == "start":
            assert other.ask("run", "say")[0] == "completed"
            execution = other.ask("start", "say")
            assert execution.startswith("exe_")
            assert other.ask("result", execution)[0] == "completed"
            assert len(other.ask("executions")) == 2
        else:
            execution = other.ask("start", *agent)
            given = _ready(other, execution, verb)
            answer = other.ask(verb, execution, *given)
            assert not isinstance(answer, dict), answer
            assert count(other.ask("events", execution), KIND[verb]) == 1, other.ask("events", execution)
        assert other.ask("role") == "owner"
        assert owner.process.wait(10) == -signal.SIGKILL


@pytest.mark.parametrize("point", ["change_schedule.after_commit", "change_schedule.before_commit"])
def test_what_is_taken_away_while_the_owner_dies_was_there(store: Path, point: str) -> None:
    """The next owner is asked again, and does not say that there is none."""
    with program(store, failpoints=f"{point}=kill") as owner, program(store) as other:
        assert [opened(one) for one in (owner, other)] == ["owner", "joined"]
        assert other.ask("schedule") is None
        assert other.ask("unschedule") is None
        assert owner.process.wait(10) == -signal.SIGKILL
        assert other.ask("scheduled") == []
        assert other.ask("unschedule")["code"] == "not_found"


@pytest.mark.parametrize("moment", ["before_commit", "after_commit"])
def test_a_schedule_that_is_triggered_while_the_owner_dies_begins_once(store: Path, moment: str) -> None:
    with program(store, failpoints=f"change_schedule.{moment}=kill") as owner, program(store) as other:
        assert [opened(one) for one in (owner, other)] == ["owner", "joined"]
        other.ask("schedule")
        execution = other.ask("trigger")
        assert owner.process.wait(10) == -signal.SIGKILL
        assert other.ask("executions") == [execution]


@pytest.mark.parametrize("moment", ["before_commit", "after_commit"])
def test_a_file_that_is_put_into_a_room_while_the_owner_dies_is_there_once(store: Path, moment: str) -> None:
    with program(store, failpoints=f"put_file.{moment}=kill") as owner, program(store) as other:
        assert [opened(one) for one in (owner, other)] == ["owner", "joined"]
        room = other.ask("room")
        file = other.ask("put_file", room)
        assert other.ask("files", room) == [file]
        assert owner.process.wait(10) == -signal.SIGKILL


def _ready(other: Program, execution: str, verb: str) -> tuple[str, ...]:
    """Wait until the verb means something."""
    if verb == "rule":
        until(lambda: any(state == "uncertain" for _, state, _ in other.ask("tasks", execution)))
        return (other.ask("tasks", execution)[0][0],)
    until(lambda: other.ask("state", execution) == "waiting")
    return ()


def test_the_command_line_finds_a_program(store: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "PERDURE_STORE": str(store)}
    command = [sys.executable, "-m", "perdure", "executions", "list", "--json"]
    with program(store) as owner:
        assert opened(owner) == "owner"
        execution = owner.ask("start", "say")
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, execution in done.stdout) == (0, True), done
    alone = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert alone.returncode != 0


def test_a_server_on_a_program_s_store_says_whose_it_is(store: Path) -> None:
    command = [sys.executable, "-m", "perdure", "server", "--port", "0", "--store", str(store)]
    with program(store) as owner:
        assert opened(owner) == "owner"
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 1
        assert "store_in_use" in done.stdout
        assert f"process {owner.pid}" in " ".join(done.stdout.split())
        assert "embedded runtime" in " ".join(done.stdout.split())


def test_a_program_joins_a_server_and_leaves_it_its_store(store: Path) -> None:
    command = [sys.executable, "-m", "perdure", "server", "--port", "0", "--store", str(store), "--json"]
    environment = {**os.environ, "XDG_STATE_HOME": str(store.parent / "elsewhere")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("{")
        with program(store) as other:
            assert opened(other) == "joined"
            assert other.ask("executions") == []
            server.terminate()
            assert server.wait(60) == 0
            with program(store, join=False) as owner:
                assert opened(owner) == "owner", "it was not taken over"


def test_a_store_that_is_kept_alone_is_refused(store: Path) -> None:
    with program(store, join=False) as owner, program(store) as other, program(store, join=False) as third:
        assert opened(owner) == "owner"
        assert other.ask("open")["code"] == "store_in_use"
        assert third.ask("open")["code"] == "store_in_use"


def test_who_will_not_join_is_refused(store: Path) -> None:
    with program(store) as owner, program(store, join=False) as other:
        assert opened(owner) == "owner"
        refusal = other.ask("open")
        assert (refusal["code"], str(owner.pid) in refusal["message"]) == ("store_in_use", True)


def test_a_stopped_owner_keeps_the_store(store: Path) -> None:
    loop = ServiceLoop("test")
    loop.start()
    try:
        with program(store) as owner, program(store) as other:
            assert [opened(one) for one in (owner, other)] == ["owner", "joined"]
            os.kill(owner.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, owner.pid, os.WSTOPPED)
            with pytest.raises(StoreInUse) as caught:
                SharedStore(store, Catalog(), loop, answer_seconds=0.3).open()
            assert caught.value.code == "store_owner_not_answering"
            other.send("run", "say")
            os.kill(owner.pid, signal.SIGCONT)
            assert other.answer()[0] == "completed"
            assert (owner.ask("role"), other.ask("role")) == ("owner", "joined")
    finally:
        loop.stop()


def test_the_door_opens_only_for_who_can_read_the_lock_file(store: Path) -> None:
    import httpx2

    with program(store) as owner:
        assert opened(owner) == "owner"
        hint = read_hint(store)
        assert hint is not None
        assert (hint.kind, hint.pid) == ("runtime", owner.pid)
        assert hint.address is not None
        assert hint.key is not None
        for key in ("", "Bearer pdk_guess", f"Bearer {hint.key}x"):
            reply = httpx2.get(f"{hint.address}/v1/executions", headers={"authorization": key} if key else {})
            assert (reply.status_code, json.loads(reply.content)["error"]["code"]) == (401, "unauthorized")
        reply = httpx2.get(f"{hint.address}/v1/executions", headers={"authorization": f"Bearer {hint.key}"})
        assert reply.status_code == 200


def test_a_hint_is_told_without_its_key_in_a_file_that_others_can_read(store: Path) -> None:
    lock_file(store).touch(0o644)
    lock_file(store).chmod(0o644)
    with program(store) as owner:
        assert opened(owner) == "owner"
        hint = read_hint(store)
        assert hint is not None
        assert hint.key is None
