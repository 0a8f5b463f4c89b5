"""What is done to a disk until its power is cut: `power_programs.py NAME ROOT`. Each fact that others may rely on from
then on is told by a line in `told`, a file that is itself never synced: the record of the disk says when it was told.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from perdure.core.work import Answer, Report
from perdure.store import sqlite_log
from perdure.store.ownership import open_owned
from perdure.system import SystemClock, SystemRandom
from perdure.wire import state_file
from perdure.wire.state_file import ServerState
from perdure.worker.outbox_file import Kept, OutboxFile, keep_evidence, mark_of, record_of

TOLD = "told"
STORE = "some/where/store.db"
OUTBOX = "some/state/outbox"
STATE = "some/state/server.json"
LIVES = 3
ROWS = 12


def main(name: str, root: Path) -> None:
    """Run one program. Anything it writes lies below `root`."""

    def tell(**fact: object) -> None:
        file = os.open(root / TOLD, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, json.dumps(fact).encode() + b"\n")
        os.close(file)

    PROGRAMS[name](root, tell)


Tell = Callable[..., None]


def store(root: Path, tell: Tell) -> None:
    """Three owners, each of whom commits; the log is copied into the file now and then, and at the end of two."""
    sqlite_log.CHECKPOINT_CHANGES = ROWS // 3
    for life in range(LIVES):
        owned = open_owned(root / STORE, clock=SystemClock(), random=SystemRandom())
        for number in range(ROWS):
            with owned.store.write() as connection:
                pair = [{"id": f"{life}-{number}{part}", "name": "x" * 1500, "now_ms": 0} for part in "ab"]
                connection.each("insert_company", pair)
            tell(life=life, number=number)
        if life < LIVES - 1:
            owned.close()


def outbox(root: Path, tell: Tell) -> None:
    """A worker's results: kept, answered, refused, cleared; then another worker's."""
    folder = root / OUTBOX
    for worker in ("w1", "w2"):
        file = OutboxFile.create(folder, worker)
        for number in range(4):
            kept = [Kept("sto_x/default", worker, _report(f"{worker}-{number}-{n}", number)) for n in range(2)]
            file.append([record_of(one) for one in kept], sync=True)
            tell(kept=[one.report.execution for one in kept])
            keep_evidence(folder, kept[1], str(Answer.LEASE_LOST), 0)
            tell(answered=kept[0].report.execution)
            if number % 2:
                file.clear()
            else:
                file.append([mark_of(one.key, Answer.ACCEPTED) for one in kept], sync=False)
        file.append([record_of(Kept("sto_x/default", worker, _report(f"{worker}-left", 9)))], sync=True)
        tell(kept=[f"{worker}-left"])
        file.close(remove=False)


def _report(execution: str, number: int) -> Report:
    return Report(execution, f"call {number}", number, "completed", {"text": "y" * 700})


def state(root: Path, tell: Tell) -> None:
    """A server's state file, from one server to the next."""
    for number in range(4):
        state_file.write(
            root / STATE, ServerState("http://127.0.0.1:1", f"key-{number}", 1, f"nonce-{number}", "sto_x")
        )
        tell(state=number)
        state_file.withdraw(root / STATE, f"nonce-{number}")


def careless(root: Path, tell: Tell) -> None:
    """An outbox that tells before it syncs: what the search for lost results has to find."""
    file = OutboxFile.create(root / OUTBOX, "w1")
    file.append([record_of(Kept("sto_x/default", "w1", _report("lost", 1)))], sync=False)
    tell(kept=["lost"])
    file.close(remove=False)


PROGRAMS: dict[str, Callable[[Path, Tell], None]] = {
    "store": store,
    "outbox": outbox,
    "state": state,
    "careless": careless,
}

if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
