"""Where a store's file may be."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from perdure.errors import InvalidInput
from perdure.store import place as places

MOUNTS = r"""
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:40 / /mnt/share rw - nfs4 server:/export rw
31 22 0:41 / /mnt/share/local rw shared:5 master:1 - xfs /dev/sdb1 rw
32 22 0:42 / /mnt/with\040space rw - cifs //server/share rw
33 22 0:43 / /home/me/remote rw - fuse.sshfs me@host:/ rw
34 22 0:44 / /covered rw - nfs server:/a rw
35 34 8:2 / /covered rw - ext4 /dev/sdc1 rw
36 22 0:45 / /mnt/shared rw - ext4 /dev/sdd1 rw
not a line of it
"""


def refused(path: Path) -> str:
    with pytest.raises(InvalidInput) as caught:
        places.prepare(path)
    assert str(path) in caught.value.message
    return caught.value.code


def test_folder_and_file_are_private(tmp_path: Path) -> None:
    place = places.prepare(tmp_path / "perdure" / "perdure.db")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700


def test_what_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "perdure.db"
    file.write_bytes(b"kept")
    file.chmod(0o640)
    assert places.prepare(file) == file
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"kept", 0o640)


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert places.prepare(tmp_path / "link" / "perdure.db") == tmp_path / "real" / "perdure.db"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path) == "store_path"
    assert refused(tmp_path / "pipe") == "store_path"
    assert refused(tmp_path / "file" / "perdure.db") == "store_path"


def test_a_place_that_cannot_be_written_is_refused() -> None:
    # root may write everywhere that can be written at all; nobody may write here
    assert refused(Path("/proc/perdure/perdure.db")) == "store_unwritable"
    assert refused(Path("/proc/perdure.db")) == "store_unwritable"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/perdure.db", "ext4"),
        ("/mnt/share/perdure.db", "nfs4"),
        ("/mnt/share/local/perdure.db", "xfs"),
        ("/mnt/with space/a/perdure.db", "cifs"),
        ("/home/me/remote/perdure.db", "fuse.sshfs"),
        ("/covered/perdure.db", "ext4"),
        ("/mnt/shared/perdure.db", "ext4"),
    ],
)
def test_the_innermost_mount_says_what_kind_it_is(path: str, kind: str) -> None:
    assert places.mounted_as(Path(path), MOUNTS) == kind


def test_network_file_systems_are_refused_unless_overridden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 0:1 / {tmp_path} rw - nfs4 server:/export rw\n")
    monkeypatch.setattr(places, "MOUNTS", mounts)
    assert refused(tmp_path / "perdure.db") == "store_network"
    monkeypatch.setenv(places.ALLOW_NETWORK, "1")
    assert places.prepare(tmp_path / "perdure.db").exists()
