"""Every figure that is claimed has a script that prints it. Each runs here, as briefly as it can; nothing is judged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
BRIEFLY = {
    "capacity": ["--seconds", "0.3", "--concurrency", "5"],
    "ceiling": ["--seconds", "0.1"],
    "compare": "--only w1 --peers= --rows SQLite --rounds 1 --seconds 0.1 --no-bar".split(),
    "dispatch": ["--count", "3"],
    "idle": ["--workers", "2", "--seconds", "1", "--no-bar"],
    "long_logs": ["--events", "600", "--turns", "6", "--no-bar"],
    "recovery": ["--sizes", "100", "--no-bar"],
    "search": ["--executions", "2000"],
    "startup": ["--runs", "1", "--seconds", "0.5"],
    "steps": ["--rounds", "1", "--seconds", "0.3", "--concurrency", "5", "--no-bar", "--http"],
    "timers": ["--timers", "200", "--window", "1", "--leases", "3"],
    "writer": ["--rounds", "1", "--seconds", "0.1"],
}
pytestmark = pytest.mark.bench


@pytest.mark.parametrize("name", sorted(BRIEFLY))
def test_a_bench_runs_and_prints_a_figure(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH / f"{name}.py"), *BRIEFLY[name]]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    assert any(character.isdigit() for character in ran.stdout)


def test_every_bench_is_run_here() -> None:
    assert {path.stem for path in BENCH.glob("*.py")} == BRIEFLY.keys()
