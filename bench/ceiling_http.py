"""The ceiling over HTTP: the rows of a durable function as `ceiling.py` writes them, by a process that is told them.

One connection, one request at a time. A request brings the values of one step of all executions of a wave, and is
answered once they are committed; nothing is checked, and nothing is said but that it was done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ceiling

from perdure.core import codec
from perdure.store.protocol import Store

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from plain_http import Client

DONE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
MOST_BYTES = 1 << 24


class Writing:
    """What the server does of one connection's waves."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._executions: list[ceiling.Execution] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until the client hangs up."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                self._take(head.split(b" ", 2)[1].decode(), codec.decode(await reader.readexactly(int(length))))
                writer.write(DONE)
        except asyncio.IncompleteReadError:
            writer.close()

    def _take(self, path: str, told: Any) -> None:
        match path:
            case "/begin":
                self._executions = ceiling.function_begun(self._store, told["size"])
            case "/step":
                ceiling.function_step(self._store, self._executions, told["number"], told["values"])
            case _:
                ceiling.function_ended(self._store, self._executions)


async def serve(folder: Path, database: str) -> None:
    """Print the port, and write what is told there until this process is ended."""
    writing = Writing(ceiling.opened(folder, database))
    server = await asyncio.start_server(writing.serve, "127.0.0.1", 0, limit=MOST_BYTES)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def drive(url: str, size: int, seconds: float) -> float:
    """Tell waves for so long; return steps per second."""
    client = Client(url)
    values = [codec.encode(value) for value in ceiling.VALUES]
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        await client.ask("POST", "/begin", {"size": size})
        for number in range(ceiling.TURNS * 2):
            await client.ask("POST", "/step", {"number": number, "values": [values[number % 2]] * size})
        await client.ask("POST", "/end", {})
        steps += size * ceiling.TURNS * 2
    rate = steps / (time.perf_counter() - began)
    await client.close()
    return rate


def measure(folder: Path, size: int, seconds: float, database: str = "") -> float:
    """Return steps per second, with the writer in a process of its own."""
    command = [sys.executable, __file__, "--serve", "--folder", str(folder), "--store", database]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = json.loads(server.stdout.readline())
            return asyncio.run(drive(f"http://127.0.0.1:{port}", size, seconds))
        finally:
            server.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--store", metavar="DSN", default="", help="an empty PostgreSQL database; default: a file")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where to write; default: beside the code")
    parser.add_argument("--serve", action="store_true", help="be the server, in this very folder")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.folder, options.store))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        rate = measure(Path(folder), options.concurrency, options.seconds, options.store)
    where = "PostgreSQL" if options.store else "SQLite"
    print(f"ceiling over HTTP, function, {where}, {options.concurrency} a wave: {rate:,.0f} durable steps/s")


if __name__ == "__main__":
    main()
