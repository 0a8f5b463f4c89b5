"""A store as an earlier release left it, on either database, to be carried on by the steps of this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.store import postgres_link, sqlite
from perdure.store.migrate import load_migrations, migrate
from perdure.store.postgres import open_postgres
from perdure.store.protocol import EVERY_COMPANY, Store
from perdure.store.sqlite_link import open_link
from perdure.system import SystemRandom
from perdure.testing.clock import FakeClock, SeededRandom
from postgres_server import as_ordinary_role


class OlderStore:
    """An open store with the steps before one of them."""

    def __init__(self, address: str, link: Any, session: Any) -> None:
        self.address = address
        """A file, or a database as a role that row security binds."""
        self.session = session
        self._link = link

    def speak_for_all(self) -> None:
        """See and write, in this transaction, what every company may; a file's session has no wall yet."""
        if self.session.dialect == "postgres":
            self._link.speak_for(EVERY_COMPANY)

    def carry_on(self) -> None:
        """Take all the steps of this release."""
        migrate(self.session, SystemRandom(), load_migrations())

    def opened(self) -> Store:
        """Open it as this release does. It was carried on, and nobody has it any more."""
        if self.session.dialect == "postgres":
            return open_postgres(self.address, random=SeededRandom())
        return sqlite.open_sqlite(Path(self.address), clock=FakeClock(), random=SeededRandom())


@contextmanager
def older_store(dialect: str, folder: Path, request: pytest.FixtureRequest, *, before: str) -> Iterator[OlderStore]:
    """Open a new store with the steps before the one of this name, such as `wall`."""
    if dialect == "sqlite":
        place = folder / "s.db"
        place.touch()
        link: Any = open_link(place, {}, writes=True)
        store = OlderStore(str(place), link, sqlite.Session(link))
    else:
        address = as_ordinary_role(request.getfixturevalue("postgres_database"))
        link = postgres_link.connect(postgres_link.Address(address), {}, writes=True)
        store = OlderStore(address, link, postgres_link.Session(link))
    steps = load_migrations()
    [number] = [step.number for step in steps if step.name.partition("_")[2] == before]
    try:
        migrate(store.session, SystemRandom(), steps[: number - 1])
        yield store
    finally:
        link.close()
