"""A worker as a process: signals stop it in order, and it does not outlive its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "support" / "worker_program.py"


@contextmanager
def working(tool: str, *, parent: int = 0, drain_seconds: float = 10) -> Iterator[subprocess.Popen[str]]:
    """Have a worker process whose tool has started."""
    command = [sys.executable, str(PROGRAM), tool, str(parent), str(drain_seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as popen:
        try:
            assert popen.stdout is not None
            assert popen.stdout.readline() == "started\n"
            yield popen
        finally:
            popen.kill()


def rest_of(popen: subprocess.Popen[str]) -> list[str]:
    return popen.communicate(timeout=60)[0].split("\n")[:-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_bodies_finish(number: signal.Signals) -> None:
    with working("brief") as popen:
        popen.send_signal(number)
        assert rest_of(popen) == ["finished", "done 0"]
        assert popen.returncode == 0


def test_a_signal_hands_back_what_does_not_finish_in_time() -> None:
    with working("patient", drain_seconds=0.2) as popen:
        popen.send_signal(signal.SIGTERM)
        assert rest_of(popen) == ["cancelled", "ready 0"]


def test_a_second_signal_hands_back_at_once() -> None:
    with working("patient", drain_seconds=3_600) as popen:
        popen.send_signal(signal.SIGTERM)
        popen.send_signal(signal.SIGINT)
        assert rest_of(popen) == ["cancelled", "ready 0"]


@pytest.mark.parametrize("tool", ["deaf", "busy"])
def test_a_thread_that_cannot_be_stopped_does_not_keep_the_process(tool: str) -> None:
    with working(tool, drain_seconds=0) as popen:
        popen.send_signal(signal.SIGTERM)
        assert rest_of(popen) == ["ready 1"]
        assert popen.returncode == 7


def test_more_signals_end_it_whatever_its_bodies_do() -> None:
    with working("deaf", drain_seconds=3_600) as popen:
        while popen.poll() is None:  # signals of one kind that arrive together are one
            popen.send_signal(signal.SIGTERM)
    assert popen.returncode in (7, 128 + signal.SIGTERM), "left behind in order, or ended by the third"


def test_a_dead_parent_stops_it() -> None:
    program = (
        "import os, subprocess, sys\n"
        f"command = [sys.executable, {str(PROGRAM)!r}, 'patient', str(os.getpid()), '3600']\n"
        "subprocess.Popen(command, stdout=2).wait()\n"
    )
    read, write = os.pipe()
    with subprocess.Popen([sys.executable, "-c", program], stderr=write) as parent, os.fdopen(read) as told:
        os.close(write)
        assert told.readline() == "started\n"
        parent.kill()
        # Read to the end, which comes when the last process that holds the pipe is gone.
        assert told.read() == "cancelled\nready 0\n"
