"""What may be on a disk after its power went: worked out from the record that `power_cut.c` keeps. Touches no process.

What was synced is there. Of anything else, each write, each change of a length, and each name made, moved or removed
may be there or not, and a write may be there in part, by sectors of 512 bytes. Names follow a sync of their folder.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from random import Random
from typing import Literal, Self

HEAD = struct.Struct("=IIIIQQ")
SECTOR = 512
MAPPED = "-shm"
"""Files that are written through mappings, which the record does not see: after a cut they hold anything."""

Loss = Literal["all", "none", "some", "torn"]
"""What becomes of what was not synced: all of it is lost, nothing, some, or some with writes torn."""
LOSSES: tuple[Loss, ...] = ("all", "torn", "some", "none")


class Op(IntEnum):
    """What was done. The same numbers as in power_cut.c."""

    CREATE = 1
    WRITE = 2
    TRUNCATE = 3
    SYNC = 4
    RENAME = 5
    UNLINK = 6
    MKDIR = 7
    RMDIR = 8
    UNKNOWN = 9


@dataclass(frozen=True, slots=True)
class Done:
    """One operation of the record."""

    op: Op
    inode: int
    at: int
    """Where a write begins, or the length after a truncation."""
    first: bytes
    """The name below the root, or what was written."""
    second: bytes
    """The new name."""
    pid: int

    @property
    def name(self) -> str:
        return os.fsdecode(self.first)

    @property
    def new_name(self) -> str:
        return os.fsdecode(self.second)


def read_record(data: bytes) -> Iterator[Done]:
    """Yield the operations in order. What a kill cut off at the end was not done to the disk."""
    at = 0
    while at + HEAD.size <= len(data):
        op, first, second, pid, inode, place = HEAD.unpack_from(data, at)
        end = at + HEAD.size + first + second
        if end > len(data):
            return
        middle = at + HEAD.size + first
        yield Done(Op(op), inode, place, data[at + HEAD.size : middle], data[middle:end], pid)
        at = end


@dataclass(slots=True)
class File:
    """The bytes of one file, apart from its names."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[Done] = field(default_factory=list[Done])
    """Since the last sync, in order."""

    def sync(self) -> None:
        for one in self.pending:
            _apply(self.synced, one)
        self.pending.clear()

    def left(self, loss: Loss, dice: Random) -> bytes:
        """Return what may be left of it."""
        content = bytearray(self.synced)
        kept = dice.random()
        for one in self.pending:
            if loss == "none" or (loss != "all" and dice.random() < kept):
                _apply(content, one, _sectors(one, dice) if loss == "torn" else None)
        return bytes(content)


FOLDER = None
"""What stands for a folder where a file may stand."""
Node = File | None


@dataclass(slots=True)
class Folder:
    """The names in one folder: those that a sync has made last, and what was done to them since."""

    synced: dict[str, Node] = field(default_factory=dict[str, Node])
    pending: list[tuple[str, Node, str]] = field(default_factory=list[tuple[str, Node, str]])
    """(name, what it leads to from then on, the name that went for it). Gone: the first is empty."""

    def sync(self) -> None:
        for change in self.pending:
            _rename(self.synced, change)
        self.pending.clear()

    def left(self, loss: Loss, dice: Random) -> dict[str, Node]:
        names = dict(self.synced)
        kept = dice.random()
        for change in self.pending:
            if loss == "none" or (loss != "all" and dice.random() < kept):
                _rename(names, change)
        return names


class Disk:
    """One folder and all below it, as far as they are certain."""

    def __init__(self) -> None:
        self._folders: dict[str, Folder] = {"": Folder()}
        self._files: dict[int, File] = {}
        """By inode: a number that was given again leads to the later file."""
        self._folder_inodes: dict[int, str] = {}
        self.operations = 0

    @classmethod
    def of(cls, root: Path) -> Self:
        """Return the disk that holds what is below `root` now, all of it certain."""
        disk = cls()
        disk._folder_inodes[root.stat().st_ino] = ""
        for path in sorted(root.rglob("*")):
            name, found = str(path.relative_to(root)), path.lstat()
            if path.is_dir():
                disk._folders[name] = Folder()
                disk._folder_inodes[found.st_ino] = name
                disk._enter(name, FOLDER)
            else:
                file = disk._files[found.st_ino] = File(bytearray(path.read_bytes()))
                disk._enter(name, file)
        for folder in disk._folders.values():
            folder.sync()
        return disk

    def do(self, one: Done) -> None:
        """Take one operation in. Raises `ValueError` for one that this model does not know."""
        self.operations += 1
        match one.op:
            case Op.CREATE:
                file = self._files[one.inode] = File()
                self._enter(one.name, file)
            case Op.WRITE | Op.TRUNCATE:
                self._files[one.inode].pending.append(one)
            case Op.SYNC if one.inode in self._folder_inodes:
                self._folders[self._folder_inodes[one.inode]].sync()
            case Op.SYNC:
                self._files[one.inode].sync()
            case Op.MKDIR:
                self._folders[one.name] = Folder()
                self._folder_inodes[one.inode] = one.name
                self._enter(one.name, FOLDER)
            case Op.RENAME:
                self._move(one.name, one.new_name)
            case Op.UNLINK | Op.RMDIR:
                self._change(one.name, ("", FOLDER, os.path.basename(one.name)))
            case Op.UNKNOWN:
                raise ValueError(f"power_disk does not know what {one.name} does to a disk")

    def left(self, loss: Loss, seed: int) -> dict[str, bytes | None]:
        """Return one disk that the cut may leave: the content of each file by its name, None for a folder."""
        dice = Random(seed)
        found: dict[str, bytes | None] = {}
        contents: dict[int, bytes] = {}
        for name, folder in sorted(self._folders.items()):
            if name and name not in found:
                continue  # nothing leads there
            for short, node in folder.left(loss, dice).items():
                path = os.path.join(name, short)
                if node is None:
                    found[path] = None
                elif path.endswith(MAPPED):
                    found[path] = dice.choice([b"", bytes(32768), dice.randbytes(32768)])
                else:
                    found[path] = contents.setdefault(id(node), node.left(loss, dice))
        return found

    def synced(self, suffix: str) -> dict[str, bytes]:
        """Return what is certain of the files whose names are, and end in `suffix`."""
        certain = self.left("all", 0)
        return {name: content for name, content in certain.items() if name.endswith(suffix) and content is not None}

    def _enter(self, name: str, node: Node) -> None:
        self._change(name, (os.path.basename(name), node, ""))

    def _change(self, name: str, change: tuple[str, Node, str]) -> None:
        self._folders[os.path.dirname(name)].pending.append(change)

    def _move(self, old: str, new: str) -> None:
        if os.path.dirname(old) != os.path.dirname(new):
            raise ValueError(f"{old} became {new}: power_disk moves nothing between folders")
        names = self._folders[os.path.dirname(old)].left("none", Random(0))
        self._change(new, (os.path.basename(new), names[os.path.basename(old)], os.path.basename(old)))


def put(left: dict[str, bytes | None], root: Path) -> None:
    """Have below `root` what was left, and nothing else."""
    for path in root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, content in left.items():
        path = root / name
        if content is None:
            path.mkdir(mode=0o700, exist_ok=True)
        else:
            path.touch(0o600)
            path.write_bytes(content)


def _rename(names: dict[str, Node], change: tuple[str, Node, str]) -> None:
    name, node, gone = change
    names.pop(gone, None)
    if name:
        names[name] = node


def _apply(content: bytearray, one: Done, sectors: set[int] | None = None) -> None:
    """Do a write, or the part of it that lies in `sectors`, or change the length."""
    if one.op is Op.TRUNCATE:
        del content[one.at :]
        content.extend(bytes(one.at - len(content)))
        return
    data = one.first
    parts = [(one.at, data)] if sectors is None else list(_parts(one, sectors))
    for at, part in parts:
        if len(content) < at:
            content.extend(bytes(at - len(content)))
        content[at : at + len(part)] = part


def _sectors(one: Done, dice: Random) -> set[int]:
    if one.op is Op.TRUNCATE:
        return set()
    every = range(one.at // SECTOR, (one.at + len(one.first) - 1) // SECTOR + 1)
    kept = dice.random()
    return {sector for sector in every if dice.random() < kept}


def _parts(one: Done, sectors: set[int]) -> Iterator[tuple[int, bytes]]:
    for sector in sorted(sectors):
        start, end = max(sector * SECTOR, one.at), min((sector + 1) * SECTOR, one.at + len(one.first))
        yield start, one.first[start - one.at : end - one.at]
