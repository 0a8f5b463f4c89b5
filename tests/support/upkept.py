"""Stores for tests of `perdure db`: one with something of everything in it, and the command as people type it."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine_bench import COMPANY, Bench, file_bench_in, once, ref, task
from perdure import failpoints
from perdure.cli.main import run
from stored_values import stored


@dataclass(frozen=True)
class Kept:
    """A store that its owner has closed."""

    path: Path
    waiting: str
    """Waits for a call that may be made at most once; nobody has it."""
    begun: str
    """Such a call has begun."""
    owned: str
    ended: str
    cancelling: str


def fill(bench: Bench) -> dict[str, str]:
    """Put executions of several kinds into a store and return their ids."""
    begun = bench.begun().execution
    waiting = bench.waiting(once()).ref.execution
    leased = bench.waiting(task()).ref.execution
    ended = bench.started()
    bench.signal(ended, "cancel")
    cancelling = bench.begun().execution
    bench.signal(cancelling, "cancel")
    owned = bench.owned().ref.execution
    bench.started(tags=("eu", "customer:7"))
    value = stored(bench, b'"a large one"')
    with bench.store.write() as connection:
        connection.run("use_blob", **ref(begun)._asdict(), hash=value.hash, company=COMPANY)
    return {
        "begun": begun,
        "waiting": waiting,
        "leased": leased,
        "ended": ended,
        "cancelling": cancelling,
        "owned": owned,
    }


def kept_store(folder: Path) -> Kept:
    """Make such a store in a folder, and close it."""
    with file_bench_in(folder) as bench:
        found = fill(bench)
        found.pop("leased")
        return Kept(bench.store.place, **found)


def spoil(path: Path, *statements: str) -> None:
    """Change a store behind everybody's back."""
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def command(*args: str | Path) -> list[str]:
    """Return the words of a command line."""
    return [sys.executable, "-m", "perdure", "db", *map(str, args)]


def db(*args: str | Path, plan: str = "") -> subprocess.CompletedProcess[str]:
    """Run `perdure db` in a process of its own."""
    environment = {**os.environ, "PERDURE_FAILPOINTS": plan}
    return subprocess.run(command(*args), capture_output=True, text=True, check=False, env=environment)


def typed(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `perdure db` in this process: the same words, ten times as fast."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(["db", *map(str, args)])
    return subprocess.CompletedProcess(args, code, out.getvalue(), err.getvalue())


@contextmanager
def dying(point: str) -> Iterator[None]:
    """Have what the block does end at a failpoint, as if it were killed there."""
    failpoints.arm(f"{point}=raise")
    try:
        with pytest.raises(failpoints.InjectedFault):
            yield
    finally:
        failpoints.arm("")


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return what a command printed as JSON. No traceback, whatever was asked."""
    assert "Traceback" not in done.stderr + done.stdout
    return json.loads(done.stdout)
