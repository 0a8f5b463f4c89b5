"""The secrets of a store on either database, opened as a server opens them: again and again, with one key or another.

Run as a program it sets three secrets and rotates them, for whoever wants to kill it there.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.core.ports import Clock
from perdure.server.bridge import Bridge
from perdure.server.secrets import Secrets
from perdure.server.server_keys import KeyRing, ServerKey
from perdure.store.postgres import open_postgres
from perdure.store.sqlite import open_sqlite
from perdure.store.writer import ThreadedWriter
from perdure.system import SystemClock, SystemRandom

FIRST, SECOND = ServerKey(b"1" * 32), ServerKey(b"2" * 32)
NAMES = ("ALPHA", "BETA", "GAMMA")


def value_of(name: str) -> str:
    return f"value-of-{name}"


@dataclass(frozen=True)
class Place:
    """A store, by its file or by the address of its database."""

    store: str

    @property
    def shared(self) -> bool:
        return "://" in self.store or "=" in self.store

    def open(self) -> Any:
        """Open it; who asks closes it."""
        if self.shared:
            return open_postgres(self.store, random=SystemRandom())
        return open_sqlite(Path(self.store), clock=SystemClock(), random=SystemRandom())

    @asynccontextmanager
    async def secrets(
        self, *keys: ServerKey, own: Path | None = None, clock: Clock | None = None
    ) -> AsyncGenerator[Secrets]:
        """Open the store's secrets as a server with these keys does."""
        store = self.open()
        writer = ThreadedWriter(store, publish=lambda _notes: None)
        bridge = Bridge(store, writer)
        secrets = Secrets(bridge, clock or SystemClock(), SystemRandom(), KeyRing(keys, own))
        try:
            yield secrets
        finally:
            secrets.close()
            await asyncio.to_thread(writer.stop)
            await asyncio.to_thread(bridge.close)
            await asyncio.to_thread(store.close)

    def run(self, failpoints: str) -> int:
        """Run this file as a program over the store; return what it ended with."""
        source = Path(__file__).resolve().parents[2] / "src"
        environ = {**os.environ, "PERDURE_FAILPOINTS": failpoints, "PYTHONPATH": str(source)}
        return subprocess.run([sys.executable, __file__, self.store], env=environ, check=False).returncode


async def main(store: str) -> None:
    """Set three secrets and rotate them, under the first key; then under the second."""
    async with Place(store).secrets(FIRST) as secrets:
        for name in NAMES:
            await secrets.set("acme", name, value_of(name), "ann")
    async with Place(store).secrets(SECOND, FIRST) as secrets:
        await secrets.rotate("acme")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
