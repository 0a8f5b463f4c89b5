"""Skills of a test's own: folders with a SKILL.md and a script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

MakeSkill = Callable[..., Path]


@pytest.fixture
def skills_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of skills, a folder for their files, and a current folder with nothing in it."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PERDURE_SKILLS_OUT", str(tmp_path / "out"))
    folder = tmp_path / "skills-of-the-test"
    folder.mkdir()
    monkeypatch.setenv("PERDURE_SKILLS_PATH", str(folder))
    return folder


@pytest.fixture
def make_skill(skills_dir: Path) -> MakeSkill:
    def make(name: str, script: str = "", *, metadata: str = "", place: Path | None = None) -> Path:
        folder = (place or skills_dir) / name
        (folder / "scripts").mkdir(parents=True)
        lines = f"metadata:\n  script: scripts/main.py\n{metadata}" if script else "metadata: {}\n"
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does {name}.\n{lines}---\n\nText.\n")
        if script:
            (folder / "scripts" / "main.py").write_text(script)
        return folder

    return make
