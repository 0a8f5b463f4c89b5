"""The power goes between any two operations on the disk: what was told before is there when it is back.

Lost, kept or torn in part is whatever was not synced: data, lengths and names.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import power_prefixes
import power_shim
from crash_disk_power import CUTS_MADE, reports
from crash_phase import Room

pytestmark = [
    pytest.mark.skipif(bool(power_shim.why_not()), reason=power_shim.why_not()),
    pytest.mark.sqlite_only("what a disk keeps is a database's own promise"),
]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return power_shim.build(tmp_path_factory.mktemp("shim"))


@pytest.mark.parametrize(("name", "every"), [("store", 47), ("outbox", 3), ("state", 3)])
def test_what_was_told_survives_a_power_cut(shim: Path, name: str, every: int) -> None:
    found = power_prefixes.explore(name, shim, every=every)
    assert found.problems == []
    assert found.disks > 50


def test_a_result_that_was_told_before_its_sync_is_found_missing(shim: Path) -> None:
    assert power_prefixes.explore("careless", shim).problems


def test_a_report_ends_right_though_its_machine_loses_power(shim: Path) -> None:
    (outcome,) = reports(shim, Room(until=float("inf"), seed=3, jobs=1), 1)
    assert outcome.ok, outcome
    assert outcome.counts[CUTS_MADE] > 0
