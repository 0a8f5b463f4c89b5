"""Programs whose power can be cut: `power_cut.c`, built and put in front of them. Says why where that cannot be.

Only Linux, and a Python that calls the system through a shared C library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from power_disk import Done, read_record

SOURCE = Path(__file__).with_name("power_cut.c")
_CONTROL = Struct("=QQQ")


def why_not() -> str:
    """Return why there is no cutting the power here; nothing if there is."""
    if not sys.platform.startswith("linux"):
        return "it needs Linux"
    return "" if shutil.which("gcc") else "gcc is not installed"


def build(folder: Path) -> Path:
    """Return the shim, compiled into `folder`."""
    made = folder / "power_cut.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", made, SOURCE, "-ldl"], check=True)
    return made


@dataclass(frozen=True, slots=True)
class Power:
    """What the shim is told, and what it tells."""

    root: Path
    """The folder whose disk it is."""
    record_file: Path
    control_file: Path

    @classmethod
    def at(cls, root: Path, notes: Path) -> Power:
        """Return the power of the disk at `root`; `notes` is a folder outside it."""
        power = cls(root.resolve(), notes / "power.record", notes / "power.control")
        power.on()
        return power

    def on(self, cut_at: int = 0) -> None:
        """Begin with an empty record. The power goes at operation `cut_at`, counted from 1; 0 is never."""
        self.record_file.write_bytes(b"")
        if not self.control_file.exists():
            self.control_file.write_bytes(bytes(_CONTROL.size))
        with self.control_file.open("r+b") as file:  # in its place: it is mapped
            file.write(_CONTROL.pack(0, cut_at, 0))

    @property
    def gone(self) -> bool:
        return bool(_CONTROL.unpack(self.control_file.read_bytes())[2])

    def record(self) -> list[Done]:
        """Return what was done since the power is on."""
        return list(read_record(self.record_file.read_bytes()))

    def environment(self, shim: Path | None = None) -> dict[str, str]:
        """Return what a process needs to be under it. Without `shim` it has to be loaded already."""
        told = {"ROOT": self.root, "RECORD": self.record_file, "CONTROL": self.control_file, "NOT": os.getpid()}
        found = {f"POWER_CUT_{name}": str(value) for name, value in told.items()}
        return found if shim is None else {**found, "LD_PRELOAD": str(shim)}
