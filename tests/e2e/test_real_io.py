"""Code that waits for the world outside a step is named by the doctor, with its line, for as long as it waits."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from perdure import AgentHandle, durable
from perdure.flow import driver, signal
from runtimes import runtime_at

PATIENCE_SECONDS = 60.0

gate = threading.Event()


@durable(build="b1")
async def impatient() -> str:
    """Ask the world, outside a step."""
    await asyncio.get_running_loop().run_in_executor(None, gate.wait)
    return str(await signal("go"))


def until_said(handle: AgentHandle, words: str, *, said: bool) -> None:
    """Return once the doctor says it, or does not say it any more."""
    until = time.monotonic() + PATIENCE_SECONDS
    while any(words in one.what for one in handle.diagnose()) is not said:
        assert time.monotonic() < until, handle.diagnose()
        time.sleep(0.02)


def test_the_doctor_names_the_line_of_real_io(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "REAL_IO_SECONDS", 0.05)
    line = impatient.__code__.co_firstlineno + 3
    with runtime_at(tmp_path / "p.db") as runtime:
        handle = runtime.start(impatient)
        until_said(handle, f"outside a step, at {__file__}:{line} in impatient", said=True)
        gate.set()
        until_said(handle, "waits for a signal 'go'", said=True)
        until_said(handle, "outside a step", said=False)
        handle.signal("go", "on")
        assert handle.result().output == "on"
