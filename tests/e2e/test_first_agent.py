"""The example of the README's first minutes, killed where its own README says one may kill it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples" / "first_agent" / "refund.py"


def run_until(words: str, folder: Path, answers: str = "") -> str:
    """Start the example, SIGKILL it as soon as it has said the words and its id, and return what it had said."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(PROGRAM)]
    with subprocess.Popen(command, env=env, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(answers.encode())
        process.stdin.flush()
        said = b""
        while words.encode() not in said or b"exe_" not in said:  # a tool may begin before the id is printed
            more = os.read(process.stdout.fileno(), 4096)
            assert more, said.decode()
            said += more
        process.kill()
    return said.decode()


def execution_in(said: str) -> str:
    return next(word for word in said.split() if word.startswith("exe_"))


@pytest.mark.sqlite_only("a program that is its own server has a file")
def test_killed_at_each_place_it_ends_under_one_id_and_pays_once(tmp_path: Path) -> None:
    reading = run_until("started: read_order", tmp_path)
    asking = run_until("Kill me, or answer", tmp_path)
    paying = run_until("started: send_refund", tmp_path, "y\n")
    ended = run_until("Order 1234: ", tmp_path, "y\n")
    assert "Did the money go?" in ended
    assert len({execution_in(said) for said in (reading, asking, paying, ended)}) == 1
    started = (tmp_path / "started.txt").read_text(encoding="utf-8").splitlines()
    assert started == ["read_order 1234", "read_order 1234", "send_refund 1234 4200"]
