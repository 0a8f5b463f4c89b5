"""A fork of a durable function whose process is killed again and again: it acts only where it may, and finishes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.sqlite_only("a program that is its own server has a file")

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from perdure import AgentHandle, AgentRuntime, durable
from perdure.flow import step


world = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
known = Path(sys.argv[1] + ".fork")

def note(line):
    os.write(world, f"{line}\\n".encode())

async def act(what):
    note(f"act {what}")
    await asyncio.sleep(0.02)
    note(f"acted {what}")
    return what

async def pretend(what):
    note(f"pretended {what}")
    return what

@durable(build="1")
async def trip(tag):
    seen = []
    for i in range(3):
        seen.append(await step(act, f"same{i}", name="same"))
        seen.append(await step(act, f"{tag}{i}", name="mail"))
        seen.append(await step(act, f"once {tag}{i}", name="pay", delivery="at_most_once"))
        seen.append(await step(act, f"sham {tag}{i}", name="sham", delivery="at_most_once", simulate=pretend))
    return seen

async def go_on(runtime, handle):
    view = await runtime.api.execution(handle.execution_id)
    if view.state == "paused":
        note("resumed")
        await runtime.api.resume(handle.execution_id)
    for effect in await runtime.api.effects(execution=handle.execution_id, state="uncertain"):
        await runtime.api.rule(effect.execution, effect.address, "happened", by="test", value=effect.args["args"][0])
    await asyncio.sleep(0.01)

with AgentRuntime() as runtime:
    runtime.serve(trip, blocking=False)
    if known.exists():
        fork = AgentHandle(known.read_text(), runtime)
    else:
        origin = runtime.start(trip, "a", idempotency_key="k")
        origin.result()
        fork = origin.fork(1, input="b")
        known.write_text(fork.execution_id)
    note("begun")
    while not fork.get_status().is_complete:
        runtime.wait(go_on(runtime, fork))
    print(fork.get_status().status, fork.result().output, flush=True)
"""

PATIENCE = 60.0


@pytest.mark.crash
def test_a_fork_that_is_killed_acts_only_where_it_may_and_finishes(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    world = tmp_path / "world.txt"
    world.touch()
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PERDURE_")}
    environ["XDG_STATE_HOME"] = str(tmp_path)
    command = [sys.executable, str(tmp_path / "program.py"), str(world)]

    def lines() -> list[str]:
        return world.read_text(encoding="utf-8").splitlines()

    def run(until: int | None) -> str | None:
        """Run it to its end, or kill it once the world has seen so many lines; return what it printed at its end."""
        process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
        limit = time.monotonic() + PATIENCE
        while until is not None and process.poll() is None and len(lines()) < until:
            assert time.monotonic() < limit, lines()[-5:]
            time.sleep(0.002)
        if until is not None and process.poll() is None:
            process.send_signal(signal.SIGKILL)
        out, _ = process.communicate(timeout=PATIENCE)
        return out.strip() if process.returncode == 0 else None

    ended, first, kills = None, 24, 0  # the origin's twelve steps, each two lines
    while ended is None and kills < 12:
        ended = run(max(first, len(lines())) + 3)
        kills += ended is None
    ended = ended or run(None)
    said = [f"{kind}{i}" for i in range(3) for kind in ("same", "b", "once b", "sham b")]
    assert ended == f"completed {said}"
    assert kills >= 4
    seen = Counter(lines())
    for i in range(3):
        assert seen[f"acted same{i}"] == 1, "what the origin did was done again"
        assert seen[f"acted b{i}"] >= 1
        assert seen[f"act once b{i}"] <= 1, "an at_most_once body started twice"
        assert seen[f"act sham b{i}"] == 0, "a fork acted where something stood in for it"
        assert seen[f"pretended sham b{i}"] >= 1
    assert seen["resumed"] >= 6
