"""A durable function whose process is killed again and again: what was recorded is not run again, and it finishes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.sqlite_only("a program that is its own server has a file")

PROGRAM = """
import asyncio, os, sys
from datetime import timedelta
from perdure import AgentRuntime, durable
from perdure.flow import Retry, StepFailed, first, sleep, step


world = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

def note(line):
    os.write(world, f"{line}\\n".encode())

async def act(n):
    note(f"act {n}")
    await asyncio.sleep(0.02)
    note(f"acted {n}")
    return n

async def once(n):
    note(f"once {n}")
    await asyncio.sleep(0.02)
    return n

async def try_once(n):
    return await step(once, n, delivery="at_most_once")

@durable(build="1")
async def trip(n):
    total = 0
    for i in range(n):
        a, b = await asyncio.gather(step(act, i), step(act, 100 + i))
        total += a + b
        await first(step(act, 200 + i), sleep(days=1))
        await sleep(0.01)
        await try_once(i)
        note(f"turn {i}")
    return total

with AgentRuntime() as runtime:
    handle = runtime.start(trip, 5, idempotency_key="k")
    note("started")
    while not (status := handle.get_status()).is_complete:
        for effect in runtime.wait(runtime.api.effects(state="uncertain")):
            note(f"ruled {effect.address}")
            runtime.wait(runtime.api.rule(effect.execution, effect.address, "happened", by="test", value=0))
        runtime.wait(asyncio.sleep(0.02))
    print(status.status, handle.result().output, flush=True)
"""

TURNS = 5
PATIENCE = 60.0


class Runs:
    """The program, run in one process after another over one store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.world = folder / "world.txt"
        self.world.touch()
        (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
        self.process: subprocess.Popen[str] | None = None

    def begin(self) -> None:
        environ = {key: value for key, value in os.environ.items() if not key.startswith("PERDURE_")}
        environ["XDG_STATE_HOME"] = str(self._folder)
        command = [sys.executable, str(self._folder / "program.py"), str(self.world)]
        self.process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)

    @property
    def lines(self) -> list[str]:
        return self.world.read_text(encoding="utf-8").splitlines()

    def kill_after(self, more: int) -> bool:
        """Kill it once the world has seen so many more lines; False if it ended before."""
        assert self.process is not None
        until, wanted = time.monotonic() + PATIENCE, len(self.lines) + more
        while len(self.lines) < wanted:
            assert time.monotonic() < until, self.lines[-5:]
            if self.process.poll() is not None:
                return False
            time.sleep(0.002)
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
        return True

    def result(self) -> str:
        assert self.process is not None
        out, _ = self.process.communicate(timeout=PATIENCE)
        return out.strip()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    made = Runs(tmp_path)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.communicate()


@pytest.mark.crash
def test_whatever_is_killed_it_finishes_and_nothing_recorded_runs_again(runs: Runs) -> None:
    kills = 0
    runs.begin()
    for more in (2, 3, 5, 4, 3, 6, 5, 2, 4):
        if not runs.kill_after(more):
            break
        kills += 1
        runs.begin()
    assert runs.result() == f"completed {sum(i + 100 + i for i in range(TURNS))}"
    assert kills >= 5
    seen = Counter(runs.lines)
    for n in range(TURNS):
        for act in (n, 100 + n, 200 + n):
            assert seen[f"acted {act}"] >= 1, f"act {act} was not done"
        assert seen[f"once {n}"] <= 1, "an at_most_once body started twice"
        # The first line says so for a body that began; what came after the next turn's first line had been recorded.
        first_turn = runs.lines.index(f"turn {n}")
        assert f"act {n}" not in runs.lines[first_turn:]
        assert f"act {100 + n}" not in runs.lines[first_turn:]
