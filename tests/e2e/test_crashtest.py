"""`perdure crashtest` as users meet it: a planted fault is found and explained, its healthy twin holds.

Each test is one process of the command, which forks, kills and stops processes of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from perdure.models.recorded import reply_to_json
from perdure.models.scripted import call, say

pytestmark = pytest.mark.sqlite_only("the command makes its store itself, a file")

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
PATIENCE = 100.0


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A copy of the example, as somebody would have it."""
    return Path(shutil.copytree(ROOT / "examples" / "crashtest", tmp_path / "shop"))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "perdure", "crashtest", *arguments]


def environ(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "XDG_STATE_HOME": str(folder / "state")}


def crashtest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environ(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    return {run["strike"]: run["outcome"] for run in found["runs"]}


def left_by(folder: Path) -> list[str]:
    """Return the processes whose environment or command names a folder and that are still there."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in text:
            found.append(process.name)
    return found


def test_a_charge_that_says_it_changes_nothing_is_found_and_explained(example: Path) -> None:
    junit = example / "junit.xml"
    done = crashtest(example, "shop_fault.py", "--only", "body.after@2", "--junit", str(junit))
    assert done.returncode == 1, done.stderr
    said = " ".join(done.stdout.split())
    assert "'charge for order-17' was done 2 times; once was meant." in said
    assert "the worker was killed after the body of a call of charge" in said
    assert "`repeatable` allows: it says that a call changes nothing" in said
    assert "idempotency_key" in said
    assert 'delivery="at_most_once"' in said
    assert "perdure crashtest shop_fault.py --only body.after@2" in said
    suite = ElementTree.parse(junit).getroot()[0]
    (case,) = suite.findall("testcase")
    failure = case.find("failure")
    assert (suite.get("tests"), suite.get("failures"), case.get("name")) == ("1", "1", "body.after@2 (charge)")
    assert failure is not None
    assert "done 2 times" in (failure.get("message") or "")
    assert "--only body.after@2" in (failure.text or "")


def test_the_healthy_twin_keeps_every_promise(example: Path) -> None:
    at = ("body.after@2", "stop.after@2", "body.after@3", "model.during@1", "begin.after")
    done = crashtest(example, "shop.py", "--json", *(word for one in at for word in ("--only", one)))
    found = document(done)
    assert done.returncode == 0, found
    assert found["ok"]
    held = ("body.after@2", "stop.after@2", "model.during@1", "begin.after@1")
    assert outcomes(found) == {**dict.fromkeys(held, "held"), "body.after@3": "waits"}
    states = {run["strike"]: run["state"] for run in found["runs"]}
    assert states.pop("body.after@3") == "waiting", "what may have been sent is not sent again: somebody is asked"
    assert set(states.values()) == {"completed"}
    assert all(promise["held"] for promise in found["promises"])
    assert found["undisturbed"]["effects"] == {"charge for order-17": 1, "mail to ann@example.com": 1}
    assert left_by(example) == []


def test_effects_that_tools_tell_resolve_what_is_uncertain(tmp_path: Path) -> None:
    target = str(SUPPORT / "crashtest_agents.py")
    done = crashtest(tmp_path, target, "--json", "--only", "body.after")
    found = document(done)
    assert done.returncode == 0, found
    pay, note = found["runs"]
    assert (pay["call"], pay["outcome"], pay["state"]) == ("pay", "held", "completed")
    assert pay["resolved"] == ["pay was uncertain: ruled 'happened' by crashtest-person"]
    assert (note["call"], note["outcome"]) == ("note", "doubt"), "it ran twice, and nobody counted what it did"
    assert "may be done twice" in note["findings"][0]["what"]


def test_the_replies_of_an_execution_stand_in_for_a_script(example: Path) -> None:
    replies = {
        "turn 1/model": call("charge", {"order_id": "o-1", "cents": 5}, id="call_1"),
        "turn 2/model": say("Charged."),
    }
    started = {"seq": 1, "kind": "started", "address": "", "data": {"input": "Charge order o-1."}, "at_ms": 1}
    recorded = [
        {"seq": n, "kind": "step_recorded", "address": step, "data": {"value": {"reply": reply_to_json(reply)}}}
        for n, (step, reply) in enumerate(replies.items(), start=2)
    ]
    (example / "run.jsonl").write_text("\n".join(map(json.dumps, [started, *recorded])))
    done = crashtest(example, "shop_fault.py", "--replies", "run.jsonl", "--json", "--only", "body.after@1")
    found = document(done)
    assert done.returncode == 1, found
    (run,) = found["runs"]
    assert (run["call"], run["outcome"]) == ("charge", "broken")
    assert found["undisturbed"]["calls"] == ["charge"]
    assert run["again"] == "perdure crashtest shop_fault.py --replies run.jsonl --only body.after@1"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("nowhere.py",), "bad_target", "no file here"),
        (("stand_ins.py",), "bad_target", "no agent"),
        (("shop.py", "--script", "shop:agent"), "bad_script", "expected a list or a function"),
        (("shop.py", "--replies", "shop.py"), "bad_replies", "cannot be read"),
    ],
)
def test_a_mistake_is_told_with_what_was_expected(
    example: Path, arguments: tuple[str, ...], code: str, told: str
) -> None:
    done = crashtest(example, *arguments, "--json")
    error = document(done)["error"]
    assert (done.returncode, error["code"]) == (2, code), error
    assert told in error["message"]


def test_ctrl_c_leaves_nothing_running(example: Path) -> None:
    kept = example / "kept"
    began = subprocess.Popen(
        command("shop.py", "--keep", str(kept)),
        cwd=example,
        env=environ(example),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + PATIENCE
    while not list(kept.glob("01-*/server.url")):
        assert began.poll() is None, "it ended before it was interrupted"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(began.pid, signal.SIGINT)
    assert began.wait(PATIENCE) == 130
    assert left_by(example) == []
