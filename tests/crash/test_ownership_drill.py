"""A small part of the drill that `./dev crash ownership` runs at length: owners die, one after another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sqlite_only("who owns a file is its lock's to say; a database has no owner")

DRILL = Path(__file__).parents[1] / "support" / "ownership_drill.py"


def test_owners_follow_each_other_and_nothing_is_lost(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(DRILL),
        "--processes",
        "6",
        "--kills",
        "8",
        "--pause",
        "0.1",
        "--folder",
        str(tmp_path),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    figures = json.loads(done.stdout)
    assert (done.returncode, figures["broken"]) == (0, []), (tmp_path / "errors").read_text()
    assert figures["kills"] == 8
    assert figures["takeovers"] > 8
    assert figures["acknowledged"] > 8
