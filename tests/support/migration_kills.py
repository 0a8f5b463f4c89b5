"""Kill a process at each statement of every migration, and before each commit, and let the next one go on.

`python migration_kills.py STORE every STRIDE` prints how many were killed and what `meta` holds in the end;
`python migration_kills.py STORE together SEED` has several begin at once, most of which die somewhere.
Forks, so it is a program of its own with one thread. STORE is a file or the address of a PostgreSQL database.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from perdure.database import is_address
from perdure.store import postgres_link, sqlite
from perdure.store.migrate import Session, every_statement, migrate, version
from perdure.store.protocol import Row
from perdure.store.sql_store import parse
from perdure.store.sqlite_link import open_link
from perdure.system import SystemRandom

TOGETHER = 6
"""Processes that begin at once."""
ROUNDS = 12
"""How often they do, until all that are left have to come through."""


@contextmanager
def session_on(store: str) -> Generator[Session]:
    """Open a store as a release does that brings it up to date."""
    if is_address(store):
        with closing(postgres_link.connect(postgres_link.Address(store), {}, writes=True)) as link:
            yield postgres_link.Session(link)
    else:
        Path(store).touch()
        with closing(open_link(Path(store), {}, writes=True)) as link:
            yield sqlite.Session(link)


class Mortal:
    """A session that dies in its n-th transaction, at its m-th statement or before its commit."""

    def __init__(self, session: Session, transaction: int, statement: int) -> None:
        self.dialect, self.where = session.dialect, session.where
        self._session = session
        self._die_in, self._die_at = transaction, statement
        self._transaction = self._statement = -1

    @contextmanager
    def exclusive(self) -> Generator[None]:
        with self._session.exclusive():
            self._transaction += 1
            self._statement = -1
            yield
            self._pass()

    def execute(self, sql: str, **params: Any) -> list[Row]:
        self._pass()
        return self._session.execute(sql, **params)

    def _pass(self) -> None:
        self._statement += 1
        if (self._transaction, self._statement) == (self._die_in, self._die_at):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._transaction > self._die_in:
            os._exit(PASSED)


PASSED = 3
"""The exit code of a process in whose transaction there was no such statement: it got to the next one."""
DONE = 0


def child(store: str, transaction: int, statement: int) -> int:
    """Fork a process that migrates and dies there; return its pid."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with session_on(store) as session:
                migrate(Mortal(session, transaction, statement), SystemRandom())
            code = DONE
        finally:
            os._exit(code)
    return pid


def ended(pid: int) -> int:
    """Wait for it; return its exit code, or the number of its signal with a minus."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def every(store: str, stride: int) -> dict[str, Any]:
    """Kill at each statement of each step, or each `stride`-th, in order, each time in a new process.

    The first transaction lays the foundation, the next one is the first step that is missing. So each step is met in
    its turn: one that is past its last statement commits, and the next process finds the next step in its place.
    """
    kills, _ = killed_through(store, 0, stride)
    steps, more = 0, True
    while more:
        further, more = killed_through(store, 1, stride)
        kills, steps = kills + further, steps + more
    return {"kills": kills, "steps": steps, "meta": meta_of(store)}


def killed_through(store: str, transaction: int, stride: int) -> tuple[int, bool]:
    """Kill at each `stride`-th statement of the n-th transaction, until a process gets past it; return how many were
    killed, and whether another transaction came after it."""
    for kills in count():
        statement = kills * stride
        code = ended(child(store, transaction, statement))
        if code in (DONE, PASSED):
            return kills, code == PASSED
        assert code == -signal.SIGKILL, f"a process ended with {code} at {transaction}, {statement}"
    raise AssertionError("there is no end")


def together(store: str, seed: int) -> dict[str, Any]:
    """Have several begin at once, again and again, all but the last round with deaths at moments the seed chooses."""
    dice = random.Random(seed)
    kills = 0
    for number in range(ROUNDS):
        places = [(dice.randrange(4), dice.randrange(12)) for _ in range(TOGETHER)]
        last = number == ROUNDS - 1
        pids = [child(store, *((99, 0) if last else place)) for place in places]
        codes = [ended(pid) for pid in pids]
        kills += codes.count(-9)
        allowed = {DONE} if last else {DONE, PASSED, -9}
        assert set(codes) <= allowed, codes
    return {"kills": kills, "meta": meta_of(store)}


def meta_of(store: str) -> Mapping[str, str]:
    """Return what a store says of itself, whoever of them all made it."""
    with session_on(store) as session:
        return migrate(session, SystemRandom())


def learn(dialect: str) -> None:
    """Cut and translate all statements, so that the children need not, one by one."""
    version()
    for sql in every_statement(dialect):
        parse("migration", sql)


if __name__ == "__main__":
    learn("postgres" if is_address(sys.argv[1]) else "sqlite")
    found = every(sys.argv[1], int(sys.argv[3])) if sys.argv[2] == "every" else together(sys.argv[1], int(sys.argv[3]))
    sys.stdout.write(json.dumps(found) + "\n")
