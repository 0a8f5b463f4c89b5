"""A worker's lock tells the dead from the silent, on one machine and no further."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from perdure import file_lock
from perdure.core.work import WorkerInfo
from perdure.wire.worker_lock import Fate, look, machine


@pytest.fixture
def info(tmp_path: Path) -> WorkerInfo:
    path = tmp_path / "wrk_1.outbox"
    path.touch(mode=0o600)
    return WorkerInfo("wrk_1", "laptop", machine=machine(), lock=str(path))


def test_who_has_the_lock_lives(info: WorkerInfo) -> None:
    descriptor = file_lock.take_at(info.lock, os.O_RDWR, 0)
    assert descriptor is not None
    assert look(info) is Fate.UNKNOWN
    os.close(descriptor)
    assert look(info) is Fate.DEAD
    assert look(info) is Fate.DEAD, "a look keeps nothing"


def test_a_dead_one_may_have_left_results(info: WorkerInfo) -> None:
    Path(info.lock).write_bytes(b"result")
    assert look(info) is Fate.BEQUEATHED


def test_a_lock_elsewhere_proves_nothing(info: WorkerInfo, tmp_path: Path) -> None:
    (tmp_path / "other.outbox").touch()
    os.mkfifo(tmp_path / "wrk_2.outbox")
    (tmp_path / "wrk_3.outbox").symlink_to(info.lock)
    for stranger in (
        replace(info, machine="another/boot"),
        replace(info, machine=""),
        replace(info, lock=""),
        replace(info, lock=info.lock + "/none"),
        replace(info, lock=str(tmp_path / "other.outbox")),
        replace(info, lock="/dev/null", worker="null"),
        replace(info, worker="wrk_2", lock=str(tmp_path / "wrk_2.outbox")),
        replace(info, worker="wrk_3", lock=str(tmp_path / "wrk_3.outbox")),
        replace(info, worker="wrk_4", lock=str(tmp_path / "wrk_4.outbox")),
    ):
        assert look(stranger) is Fate.UNKNOWN, stranger


def test_a_machine_has_one_name_per_boot() -> None:
    assert machine() == machine()
    assert len(machine()) > 30
