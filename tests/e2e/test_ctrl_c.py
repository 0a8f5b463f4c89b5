"""Ctrl-C at any moment of a runtime's opening and closing leaves no thread behind: one would keep the program for ever.

The moments are those at which Python lets a signal in, in the code of runtime, loop and shared store: where a function
begins, and where a call of C returns. Each is tried in turn, until one passes in which nothing was cut off.
"""

from __future__ import annotations

import concurrent.futures
import gc
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import perdure.runtime
import perdure.service_loop
import perdure.shared_store
from perdure import AgentRuntime

pytestmark = [
    pytest.mark.sqlite_only("an embedded runtime has a file"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited"),  # it was cut off before it began
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # the end of a program closes its sockets
]

OURS = {module.__file__ for module in (perdure.runtime, perdure.service_loop, perdure.shared_store)}
WAITS: set[CodeType] = {
    wait.__code__
    for wait in (threading.Thread.start, threading.Thread.join, threading.Event.wait, concurrent.futures.Future.result)
}
LONGEST_SECONDS = 20


def cut_off(work: Callable[[], object], moment: int) -> bool:
    """Do it, press Ctrl-C at a moment of it, and say whether there was such a moment."""
    passed = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal passed
        ours = frame.f_code.co_filename in OURS and event in ("call", "c_return")
        if ours or (frame.f_code in WAITS and event == "call"):
            passed += 1
            if passed == moment:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def left(before: set[threading.Thread]) -> list[str]:
    """Return what would keep the program: threads that do not end by themselves."""
    new = [one for one in threading.enumerate() if one not in before and one.name != perdure.runtime._EXIT_THREAD]
    for thread in new:
        while not thread.daemon:
            try:
                thread.join(LONGEST_SECONDS)
            except RuntimeError:  # it was cut off as it began, and is about to
                continue
            break
    return [thread.name for thread in new if thread.is_alive() and not thread.daemon]


def test_ctrl_c_while_a_runtime_opens() -> None:
    before = set(threading.enumerate())
    for moment in count(1):
        runtime = AgentRuntime("http://127.0.0.1:9", api_key="nobody asks for it")
        there_was = cut_off(runtime.__enter__, moment)
        perdure.runtime._close_open()  # as the end of the program does
        assert left(before) == [], f"after moment {moment}"
        if not there_was:
            break
    assert moment > 10


@pytest.mark.parametrize("embedded", [False, True])
def test_ctrl_c_while_a_runtime_closes(embedded: bool, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    for moment in count(1):
        where: dict[str, Any] = (
            {"store": tmp_path / f"{moment}.db"} if embedded else {"server_url": "http://127.0.0.1:9"}
        )
        runtime = AgentRuntime(**where).__enter__()
        there_was = cut_off(runtime.close, moment)
        perdure.runtime._close_open()  # as the end of the program does
        assert left(before) == [], f"after moment {moment}"
        if not there_was:
            break
    gc.collect()  # what was cut off is told here, if at all
    assert moment > 5
