"""`perdure demo`, played with real processes: what it claims is so, it asks before it spends, and it leaves nothing."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from chat_endpoint import chat_endpoint
from perdure.testing.evidence import MODEL_REQUEST, read_world_log

pytestmark = pytest.mark.sqlite_only("the command makes its store itself, a file")

SRC = Path(__file__).parents[2] / "src"
MOST_SECONDS = 100


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "perdure", "demo", *arguments]


def environ(**own: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SRC), **own}


def play(*arguments: str, **own: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        env=environ(**own),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    assert (done.returncode, found["ok"]) == (0, True), [claim for claim in found["claims"] if not claim["holds"]]
    return found


def left_by(folder: Path) -> list[str]:
    """Return the processes that have to do with a demo's folder and are still there."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in text:
            found.append(process.name)
    return found


def attempts_of(found: dict[str, Any]) -> dict[str, list[int]]:
    tries: dict[str, list[int]] = {}
    for one in found["attempts"]:
        tries.setdefault(one["what"], []).append(one["attempts"])
    return tries


def test_the_run_ends_under_its_id_and_pays_for_no_call_twice(tmp_path: Path) -> None:
    folder = tmp_path / "my demo"
    found = document(play("--yes", "--json", "--keep", str(folder)))
    assert found["status"] == "completed"
    assert [kill["role"] for kill in found["kills"]] == ["client", "server"]
    assert attempts_of(found) == {
        "model call": [1, 1, 1, 1],
        "read-csv": [2],
        "pdf-generate": [1],
        "pdf-to-markdown": [1],
    }
    calls = found["model_calls"]
    assert (calls["made"], calls["recorded"], calls["reused"], calls["paid_twice"]) == (4, 4, 2, 0)
    asked = [entry for entry in read_world_log(folder / "logs" / "world.log") if entry.name == MODEL_REQUEST]
    assert [entry.execution for entry in asked] == [found["execution"]] * 4
    assert found["nothing_alive"]["seconds"] > 0
    (report,) = found["artifacts"]
    assert len(PdfReader(report["path"]).pages) == report["pages"] == 1
    assert "325 incidents" in " ".join(report["first_lines"])
    assert left_by(folder) == []


def test_a_call_in_flight_is_honestly_paid_twice(tmp_path: Path) -> None:
    found = document(play("--yes", "--json", "--kill", "mid-call", "--keep", str(tmp_path / "demo")))
    calls = found["model_calls"]
    assert (calls["made"], calls["recorded"], calls["reused"], calls["paid_twice"]) == (5, 4, 1, 1)
    assert attempts_of(found)["model call"] == [1, 2, 1, 1]
    assert "taken_over" in [line.get("event") for line in found["timeline"]]


def test_nothing_is_approved_where_nobody_can_be_asked(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = play("--keep", str(folder))
    assert done.returncode == 4
    assert "--yes" in done.stderr
    assert "pdf-to-markdown" in done.stderr
    assert left_by(folder) == []
    assert not [entry for entry in read_world_log(folder / "logs" / "world.log") if entry.step == "turn 4/model"]


def test_a_question_outlives_its_server_and_a_person_may_say_no(tmp_path: Path) -> None:
    """With a model behind a provider's protocol, too."""
    folder = tmp_path / "demo"
    with chat_endpoint() as provider:
        real = {"OPENAI_API_KEY": "sk-nobody", "OPENAI_BASE_URL": provider.url}
        arguments = ("--kill", "while-waiting", "--model", "openai/gpt-5.5")
        code, shown = in_terminal(folder, arguments, b"Approve?", b"n\n", **real)
        assert (code, provider.asked) == (0, 4)
    assert shown.index("while a person was asked") < shown.index("Approve?")
    assert "run_premium_skill" in shown
    assert "rejected by" in shown
    assert "counted by the execution's log" in shown
    assert "\x1b[" in shown
    assert not list((folder / "made").rglob("*.md"))  # what the paid skill makes


@pytest.mark.parametrize("shown", [b"$ perdure server", b"exe_", b"$ python resume.py", b"Approve?"])
def test_ctrl_c_ends_everything_that_was_started(shown: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    code, screen = in_terminal(folder, (), shown, b"\x03")
    assert code == 130
    assert "Nothing was done" not in screen
    assert left_by(folder) == []


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--model", "openai/gpt-5.5"), "key", "OPENAI_API_KEY"),
        (("--model", "opnai/gpt-5.5"), "unknown_model", "openai/gpt-5.5"),
        (("--keep", str(SRC)), "demo_folder", "not empty"),
    ],
)
def test_what_is_missing_is_told_before_anything_starts(arguments: tuple[str, ...], code: str, told: str) -> None:
    done = play("--json", *arguments)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"]) == (2, code)
    assert told in error["message"]


def in_terminal(folder: Path, arguments: tuple[str, ...], awaited: bytes, typed: bytes, **own: str) -> tuple[int, str]:
    """Play in a terminal, type something once a text is on the screen, and return exit code and screen."""
    pid, screen = pty.fork()
    if pid == 0:
        own |= {"TERM": "xterm-256color", "COLUMNS": "100"}
        os.execve(sys.executable, command("--keep", str(folder), *arguments), environ(**own))
    shown, deadline = b"", time.monotonic() + MOST_SECONDS
    try:
        while time.monotonic() < deadline:
            if not select.select([screen], [], [], 1.0)[0]:
                continue
            try:
                shown += os.read(screen, 65536)
            except OSError:  # the other side has closed it
                break
            if typed and awaited in shown:
                os.write(screen, typed)
                typed = b""
    finally:
        os.close(screen)
        if time.monotonic() >= deadline:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), shown.decode(errors="replace")
