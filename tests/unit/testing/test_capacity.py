"""What `bench/capacity.py` predicts follows from what it measured and what it was told, by multiplication alone."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[3] / "bench"


@pytest.fixture
def capacity(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("capacity")


def test_a_million_executions_cost_a_million_times_one(capacity: Any) -> None:
    unit = capacity.Unit("x", executions=100, seconds=1.0, cpu_seconds=0.3, database_seconds=0.15, bytes=1_000_000)
    assumed = capacity.Assumed(busy=0.5, vcpu_hour=0.04, gb_month=0.1, retention_days=365, copies=2)
    seen = capacity.forecast(unit, assumed)
    assert seen.per_second_and_core == pytest.approx(1000 / 4.5 * 0.5)
    assert seen.core_hours == pytest.approx(4.5e-3 * 1e6 / 3600 / 0.5)
    assert seen.gb == pytest.approx(10)
    assert seen.cpu_cost == pytest.approx(2.5 * 0.04)
    assert seen.storage_cost == pytest.approx(10 * 12 * 0.1 * 2)
    assert seen.cost == pytest.approx(seen.cpu_cost + seen.storage_cost)


def test_the_time_of_a_family_of_processes_is_that_of_all_of_them(capacity: Any) -> None:
    before = capacity.family_seconds(os.getpid())
    until = os.times().user + 0.2
    while os.times().user < until:
        pass
    assert capacity.family_seconds(os.getpid()) - before >= 0.1
