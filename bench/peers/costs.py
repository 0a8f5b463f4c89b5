"""What processes and stores cost: CPU time, memory, bytes. Reads /proc; standard library only, and psycopg where there
is a database.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

_BESIDE = ("-wal", "-shm", "-journal", ".lock")
"""How the names of files end that belong to a database and are none."""
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(leader: int) -> float:
    """Return the CPU time of a process, of its living descendants, and of the children that it has seen end."""
    ticks = 0
    for pid in family(leader):
        with suppress(OSError):
            ticks += sum(map(int, _facts(pid)[11:15]))
    return ticks / TICKS_A_SECOND


def family(leader: int) -> list[int]:
    """Return a process and its descendants, without what this program started for itself."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(entry.name)] = int(_facts(int(entry.name))[1])
    found = [leader]
    if leader != os.getpid():
        for member in found:
            found += [pid for pid, parent in parents.items() if parent == member]
    return found


def _facts(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat that follow the name."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def is_sqlite(file: Path) -> bool:
    """Whether a file is a SQLite database, as SQLite itself says.

    Read by nobody else: a process that closes a file gives up all its locks on it, also those under which SQLite has it
    open. Whoever then looks in from outside takes the database for unused and cuts off its shared memory.
    """
    if not file.is_file() or file.name.endswith(_BESIDE):
        return False
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30)) as database:
        try:
            database.execute("PRAGMA schema_version")
        except sqlite3.DatabaseError:
            return False
        return True


def sqlite_bytes(file: Path) -> int:
    """Return the size of a SQLite database, with what its log holds already."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30)) as database:
        pages, size = (database.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
    return pages * size


def database_bytes(address: str) -> int:
    """Return the size of a PostgreSQL database."""
    import psycopg  # noqa: PLC0415 - every environment with a row on PostgreSQL has it

    with psycopg.connect(address, autocommit=True) as database:
        database.execute("CHECKPOINT")
        found = database.execute("SELECT pg_database_size(current_database())").fetchone()
    return int(found[0]) if found else 0


def memory_kb(leaders: Iterable[int]) -> float:
    """Return the memory of processes and their descendants, what they share counted once."""
    total = 0
    for leader in leaders:
        for pid in family(leader):
            with suppress(OSError, IndexError):
                text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
                total += int(text.split("\nPss:")[1].split()[0])
    return float(total)
