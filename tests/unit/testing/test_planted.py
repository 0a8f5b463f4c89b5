"""The planted bugs fit the code, so that the search for them means something."""

from __future__ import annotations

from pathlib import Path

import pytest

from planted import PATCHES, plant

BUGS = sorted(PATCHES.glob("*.patch"))


def test_there_are_enough_of_them() -> None:
    assert len(BUGS) >= 20


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.stem)
def test_each_fits_the_code_and_leaves_it_python(bug: Path, tmp_path: Path) -> None:
    plant(bug, tmp_path)
    for line in bug.read_text(encoding="utf-8").splitlines():
        if line.startswith("+++ b/") and line.endswith(".py"):
            compile((tmp_path / line[6:]).read_text(encoding="utf-8"), line[6:], "exec")
