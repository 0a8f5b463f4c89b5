"""A small part of the drill that `./dev crash ownership` runs at length: owners die, one after another."""

from __future__ import annotations

from pathlib import Path

from ownership_drill import Drill


def test_owners_follow_each_other_and_nothing_is_lost(tmp_path: Path) -> None:
    drill = Drill(tmp_path, processes=4, kills=6, pause_seconds=0.1)
    assert drill.run() == [], (tmp_path / "errors").read_text()
    figures = drill.figures()
    assert figures["kills"] == 6
    assert figures["takeovers"] >= 7
    assert figures["acknowledged"] > 6
