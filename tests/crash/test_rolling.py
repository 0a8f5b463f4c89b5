"""A small part of `./dev crash upgrade`: the version before gives way to this one, and nothing is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from rolling import ORDERS, Plan, roll
from rolling_house import ROOT, Version, previous, unpacked

pytestmark = pytest.mark.sqlite_only("the version before goes on with its own file")

COMMIT = previous()


@pytest.mark.skipif(COMMIT is None, reason="this clone's history does not reach the version before")
def test_a_running_system_is_rolled_to_this_version(tmp_path: Path) -> None:
    assert COMMIT is not None
    old = unpacked(COMMIT, tmp_path)
    outcome = roll(Plan(old, Version("this version", ROOT / "src"), 3, ORDERS[0], 1, 1, 0, 6), tmp_path)
    assert outcome.problems == []
    assert outcome.counts["executions"] > 0
    assert outcome.counts["effects"] > outcome.counts["executions"]
