"""The processes of a demo: a signal that comes at a bad moment is put off, and counts."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.demo.processes import START_SECONDS, Process, Processes, undisturbed

SLOW_TO_LEAVE = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("asked to leave", flush=True))
print("here", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
"""


@pytest.fixture(autouse=True)
def _ctrl_c_interrupts() -> Iterator[None]:
    """As in a terminal: whoever runs the tests may have Ctrl-C do something else."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_in_the_middle_of_an_undisturbed_block_counts_behind_it() -> None:
    done: list[str] = []

    def block() -> None:
        with undisturbed():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_was_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with undisturbed():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_ctrl_c_while_processes_are_ended_ends_them_and_the_demo(tmp_path: Path) -> None:
    gone = tmp_path / "gone"

    def interrupt(process: Process) -> None:
        while "asked to leave" not in process.output():
            process.check()
        os.kill(os.getpid(), signal.SIGINT)
        gone.touch()

    def played() -> None:
        with Processes(tmp_path, tmp_path) as processes:
            started = processes.start("server", [sys.executable, "-c", SLOW_TO_LEAVE, str(gone)], "slow", os.environ)
            started.first_line(START_SECONDS)
            lives.append(processes)
            presses.append(threading.Thread(target=interrupt, args=(started,), name="somebody who presses Ctrl-C"))
            presses[0].start()

    lives: list[Processes] = []
    presses: list[threading.Thread] = []
    with pytest.raises(KeyboardInterrupt):
        played()
    presses[0].join()
    (life,) = lives[0].lives
    assert life.ended_ms is not None
    assert not Path(f"/proc/{life.pid}").exists()
