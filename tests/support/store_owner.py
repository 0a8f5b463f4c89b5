"""A process that owns a store, or tries to. It obeys one command a line on stdin and answers with one line of JSON.

Run as a program by tests of ownership, which kill it, stop it and fork it.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from perdure.errors import PerdureError
from perdure.store.operation import Steps, operation
from perdure.store.ownership import OwnedStore, Ownership, open_owned
from perdure.store.tx import Tx
from perdure.store.writer import ThreadedWriter
from perdure.system import SystemClock, SystemRandom

NONCE_SECONDS = 30.0
"""How long an owner may take to say who it is: only one that is stopped needs as much."""


class Owner:
    """The parent's side: one child process."""

    def __init__(self, path: Path, *prefix: str) -> None:
        source = Path(__file__).resolve().parents[2] / "src"
        self.process = subprocess.Popen(
            [*prefix, sys.executable, __file__, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(source)},
        )

    def send(self, command: str, *arguments: object) -> None:
        stdin = cast("IO[str]", self.process.stdin)
        stdin.write(json.dumps([command, *arguments]) + "\n")
        stdin.flush()

    def answer(self) -> Any:
        line = cast("IO[str]", self.process.stdout).readline()
        assert line, f"process {self.process.pid} ended: {self.process.poll()}"
        return json.loads(line)

    def ask(self, command: str, *arguments: object) -> Any:
        self.send(command, *arguments)
        return self.answer()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone. Its pipes stay readable."""
        self.process.kill()
        self.process.wait()

    def rest(self) -> list[Any]:
        """Return the answers not yet read, after its death; a torn last line is left out."""
        lines = cast("IO[str]", self.process.stdout).read().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            cast("IO[str]", pipe).close()

    @property
    def pid(self) -> int:
        return self.process.pid


@contextmanager
def owners(path: Path, count: int = 1) -> Iterator[list[Owner]]:
    """Start processes on one file and end them all."""
    started = [Owner(path) for _ in range(count)]
    try:
        yield started
    finally:
        for owner in started:
            owner.close()


def ask_nonce(address: str, seconds: float = NONCE_SECONDS) -> str | None:
    """Ask an owner who it is, as a client over HTTP would; None if it does not answer in time."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), seconds) as connection:
            return connection.makefile().readline() or None
    except OSError:
        return None


@operation()
def note(tx: Tx, rows: Sequence[str]) -> Steps[int]:
    """Store a company by each name."""
    yield ()
    tx.many("insert_company", [{"id": row, "name": row, "now_ms": tx.now_ms} for row in rows])
    return [tx.now_ms for _ in rows]


class Child:
    """The child's side: what the commands do."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.owned: OwnedStore | None = None
        self.writer: ThreadedWriter | None = None

    def open(self, listens: bool = False) -> Any:
        """Own the store; answer with the number of this ownership, or the error."""
        epochs: list[int] = []

        def look(tx: Tx) -> None:
            epochs.append(tx.now_ms)

        self.owned = open_owned(self.path, clock=SystemClock(), random=SystemRandom(), ask=ask_nonce, on_takeover=look)
        if listens:
            self.owned.ownership.announce(_listen(self.owned.ownership))
        self.writer = ThreadedWriter(self.owned.store)
        return {"pid": os.getpid(), "now_ms": epochs[0]}

    def put(self, key: str) -> Any:
        """Commit a row."""
        assert self.writer
        return {"put": key, "now_ms": self.writer.call(note, key)}

    def put_many(self, name: str, count: int) -> Any:
        """Commit rows one by one and say so after each."""
        for number in range(count):
            _say(self.put(f"{name}/{number}"))
        return {"done": count}

    def limit_files(self, size: int) -> Any:
        """Let no file of this process grow beyond `size` bytes: a write that would fails with EFBIG."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return {}

    def fork(self, closes: bool) -> Any:
        """Fork a child that tries to use what it inherited, outlives us, and ends in order when told."""
        assert self.owned
        assert self.writer
        inside, outside = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(inside)
            found = {"child": os.getpid(), "codes": [_code(self._read), _code(self._write), _code(self._submit)]}
            if closes:
                self.owned.close()
            os.write(outside, json.dumps(found).encode() + b"\n")
            os.close(outside)
            signal.sigwait({signal.SIGTERM})
            sys.exit(0)
        os.close(outside)
        with os.fdopen(inside) as answer:
            return json.loads(answer.readline())

    def fork_and_forget(self) -> Any:
        """Commit a row without a writer's thread, and fork a child that drops what it inherited when told."""
        owned = open_owned(self.path, clock=SystemClock(), random=SystemRandom())
        with owned.store.write() as connection:
            connection.run("insert_company", id="row", name="row", now_ms=0)
        pid = os.fork()
        if pid == 0:
            signal.sigwait({signal.SIGTERM})
            del owned, connection
            gc.collect()
            os._exit(0)
        self.owned = owned
        return {"child": pid}

    def spawn(self) -> Any:
        """Start a program that outlives us and inherits whatever is not closed on exec."""
        with subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL) as program:
            _say({"child": program.pid})
        return {}

    def close(self) -> Any:
        assert self.owned
        assert self.writer
        self.writer.stop()
        self.owned.close()
        return {}

    def _read(self) -> None:
        assert self.owned
        with self.owned.store.read() as reads:
            reads.rows("any_key")

    def _write(self) -> None:
        assert self.owned
        with self.owned.store.write():
            pass

    def _submit(self) -> None:
        self.put("from the child")


def _code(use: Any) -> str:
    try:
        use()
    except PerdureError as error:
        return error.code
    return "it worked"


def _listen(ownership: Ownership) -> str:
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(ownership.nonce.encode())

    threading.Thread(target=answer, name="nonce", daemon=True).start()
    host, port = listener.getsockname()
    return f"{host}:{port}"


def _say(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    child = Child(sys.argv[1])
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        try:
            _say(getattr(child, command)(*arguments))
        except PerdureError as error:
            _say({"code": error.code, "message": error.message, "details": error.details})
    if child.writer:
        child.writer.stop()


if __name__ == "__main__":
    main()
