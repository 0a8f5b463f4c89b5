"""Ends that nobody plans: a process that forks, an opening that breaks off, a second Ctrl-C. Nothing hangs, and the
store is free for the next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.store.ownership import Ownership
from perdure.system import SystemRandom

pytestmark = pytest.mark.sqlite_only("who opens a file is its owner; of a database's server a program is a client")

PATIENCE = 60.0
"""Seconds until what hangs fails the test. No measure: a loaded machine takes its time."""


def said(program: str, store: Path) -> list[str]:
    """Run a program on a store to its end; return the lines that it printed."""
    place = {**os.environ, "XDG_STATE_HOME": str(store.parent / "state")}
    command = [sys.executable, "-c", program, str(store)]
    done = subprocess.run(command, env=place, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0
    Ownership.acquire(store, random=SystemRandom()).release()
    return done.stdout.split()


FORKS = """
import os, signal, sys

from perdure import Agent, AgentRuntime, UserError
from perdure.models.catalog import Catalog
from perdure.models.scripted import say

agent = Agent(name="clerk", model="scripted/says", instructions="x")
with AgentRuntime(store=sys.argv[1], models=Catalog(scripted={"says": [say("hello")]})) as runtime:
    print(runtime.run(agent, "go").status, flush=True)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), runtime.run(agent, "go").status)
    else:
        signal.alarm(50)  # else it would wait for ever for a thread that is not there
        try:
            runtime.run(agent, "go")
        except UserError as error:
            print(error.code)
        runtime.close()
        with AgentRuntime(store=sys.argv[1]) as own:
            print(own.run(agent, "go").status)
"""


def test_a_forked_child_is_refused_its_parent_s_runtime_and_makes_its_own(tmp_path: Path) -> None:
    found = said(FORKS, tmp_path / "s.db")
    assert found == ["completed", "runtime_forked", "completed", "0", "completed"]


INTERRUPTED = """
import _thread, sys, threading

from perdure import Agent, AgentRuntime, UserError, tool
from perdure.models.catalog import Catalog
from perdure.models.scripted import call, say

begun, hold = threading.Event(), threading.Event()


@tool
def work() -> str:
    '''Press Ctrl-C once the runtime is closed, while whoever closes it waits for this.'''
    begun.set()
    try:
        while True:
            runtime.executions(limit=1)
    except UserError:
        _thread.interrupt_main()
    hold.wait()
    return "done"


models = Catalog(scripted={"works": [call("work"), say("hello")]})
runtime = AgentRuntime(store=sys.argv[1], models=models)
runtime.start(Agent(name="clerk", model="scripted/works", instructions="x", tools=[work]), "go")
begun.wait()
try:
    runtime.close()
except KeyboardInterrupt:
    print("interrupted")
hold.set()
"""
CLOSED_AGAIN = """
from perdure.store.ownership import Ownership
from perdure.system import SystemRandom

runtime.close()
Ownership.acquire(sys.argv[1], random=SystemRandom()).release()
print("closed")
"""


def test_the_end_of_the_program_goes_on_with_a_close_that_was_interrupted(tmp_path: Path) -> None:
    assert said(INTERRUPTED, tmp_path / "s.db") == ["interrupted"]


def test_so_does_a_second_close(tmp_path: Path) -> None:
    assert said(INTERRUPTED + CLOSED_AGAIN, tmp_path / "s.db") == ["interrupted", "closed"]


HUNGRY = """
import os, resource, sys, threading

from perdure import AgentRuntime
from perdure.errors import PerdureError
from perdure.store.ownership import Ownership
from perdure.system import SystemRandom

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
AgentRuntime(store=sys.argv[1]).__enter__().close()  # loads what there is to load
used = max(map(int, os.listdir("/dev/fd")))
outcomes = set()
for more in range(40):
    runtime = AgentRuntime(store=sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, most))
    try:
        runtime.__enter__()
        outcomes.add("opened")
    except (OSError, PerdureError):
        outcomes.add("refused")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    runtime.close()
    left = {thread.name for thread in threading.enumerate()} - {"MainThread", "perdure-exit"}
    assert not left, (more, left)
    Ownership.acquire(sys.argv[1], random=SystemRandom()).release()
print(*sorted(outcomes))
"""


def test_an_opening_that_lacks_a_file_descriptor_anywhere_leaves_nothing_behind(tmp_path: Path) -> None:
    assert said(HUNGRY, tmp_path / "s.db") == ["opened", "refused"]
