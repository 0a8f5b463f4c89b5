"""The planted bugs fit the code, so that the search for them means something."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from planted import PATCHES, ROOT, apply

BUGS = sorted(PATCHES.glob("*.patch"))


def test_there_are_enough_of_them() -> None:
    assert len(BUGS) >= 20


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.stem)
def test_each_fits_the_code_and_leaves_it_python(bug: Path, tmp_path: Path) -> None:
    patched = [line[6:] for line in bug.read_text(encoding="utf-8").splitlines() if line.startswith("+++ b/")]
    assert patched
    for name in patched:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    apply(bug, tmp_path)
    for name in patched:
        if name.endswith(".py"):
            compile((tmp_path / name).read_text(encoding="utf-8"), name, "exec")
