"""A folder goes with its owner: by the owner's hand or, if it was killed, by that of whoever comes next."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.demo.passing_folder import PassingFolder, clear_after_the_dead

PREFIX = "perdure-demo-"
OWNER = f"""
import sys
from perdure.demo.passing_folder import PassingFolder
print(PassingFolder("{PREFIX}").path, flush=True)
sys.stdin.read()
"""


class Owner:
    """Another process with a folder of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.folder = Path(self.process.stdout.readline().strip())
        (self.folder / "state").mkdir()

    def kill(self) -> None:
        with self.process:
            self.process.kill()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def owner() -> Iterator[Owner]:
    owner = Owner()
    yield owner
    owner.kill()


def test_an_owner_takes_its_folder_away(temporary: Path) -> None:
    folder = PassingFolder(PREFIX)
    (folder.path / "state").mkdir()
    folder.remove()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_owner_left_is_removed(owner: Owner, temporary: Path) -> None:
    owner.kill()
    assert owner.folder.is_dir()
    clear_after_the_dead(PREFIX)
    assert list(temporary.iterdir()) == []


def test_whoever_lives_keeps_its_own_even_while_it_is_stopped(owner: Owner) -> None:
    own = PassingFolder(PREFIX)
    owner.process.send_signal(signal.SIGSTOP)
    clear_after_the_dead(PREFIX)
    assert (own.path / "owner.lock").is_file()
    assert (owner.folder / "state").is_dir()
    own.remove()


def test_what_has_no_lock_is_left_alone(temporary: Path) -> None:
    """`perdure demo` names its folder, which stays."""
    kept = temporary / f"{PREFIX}kept" / "state"
    kept.mkdir(parents=True)
    clear_after_the_dead(PREFIX)
    assert kept.is_dir()
