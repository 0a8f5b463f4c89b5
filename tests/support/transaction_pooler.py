"""A pooler in transaction mode before PostgreSQL: whoever begins a transaction gets the session that lay idle longest.

So no two transactions of a client in a row share a session, and what one leaves in a session another client finds. It
greets clients itself, as poolers do, under a process number that is no session's.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from postgres_fronts import listen_in

SESSIONS = 8
"""More than transactions are open at once in any test."""
NOBODY = struct.pack("!cIII", b"K", 12, 1, 1)
"""BackendKeyData."""
READY = b"Z"
IDLE = b"I"


class Gone(Exception):
    """The other side closed its connection."""


class Wire:
    """One side of a connection, read message by message."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._read = b""

    def startup(self) -> bytes:
        """Return the first message of a client, the only one without a type."""
        while len(self._read) < 4 or len(self._read) < struct.unpack("!I", self._read[:4])[0]:
            self._more()
        message, self._read = self._read, b""
        return message

    def messages(self) -> Iterator[bytes]:
        """Read what has come, and yield the messages that are whole."""
        self._more()
        while len(self._read) >= 5 and len(self._read) > (size := struct.unpack("!I", self._read[1:5])[0]):
            message, self._read = self._read[: size + 1], self._read[size + 1 :]
            yield message

    def _more(self) -> None:
        try:
            data = self.end.recv(65_536)
        except OSError:
            data = b""
        if not data:
            raise Gone
        self._read += data


class TransactionPooler:
    """Lends sessions by the transaction. `transactions`: how many were lent so far."""

    def __init__(self, server: Path, folder: Path) -> None:
        self._server = str(server)
        self._idle: SimpleQueue[Wire | None] = SimpleQueue()
        for _ in range(SESSIONS):
            self._idle.put(None)  # a place for a session, opened when it is wanted
        self.transactions = 0
        self._listener = listen_in(folder)
        threading.Thread(target=self._accept, name="pooler", daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for _ in range(SESSIONS):
            with suppress(Empty):  # one that is lent ends with its client
                if (session := self._idle.get(timeout=1)) is not None:
                    session.end.close()

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(Wire(end),), name="pooled", daemon=True).start()

    def _serve(self, client: Wire) -> None:
        with suppress(Gone, OSError), client.end:
            startup = client.startup()
            session, greeting = self._open(startup)
            session.end.close()
            client.end.sendall(greeting)
            while True:
                self._lend(client, list(client.messages()), startup)

    def _open(self, startup: bytes) -> tuple[Wire, bytes]:
        """Return a session and what the server said as it began, under nobody's number."""
        session = Wire(socket.socket(socket.AF_UNIX))
        session.end.connect(self._server)
        session.end.sendall(startup)
        said = b""
        while True:
            for message in session.messages():
                said += NOBODY if message[:1] == b"K" else message
                if message[:1] in (READY, b"E"):
                    return session, said

    def _lend(self, client: Wire, messages: list[bytes], startup: bytes) -> None:
        """Pass on one transaction, which begins with these messages of a client."""
        if not messages:
            return
        session = self._idle.get()
        whole = False
        try:
            if session is not None and select.select((session.end,), (), (), 0)[0]:
                session.end.close()  # it speaks unasked: it is being ended
                session = None
            session = session or self._open(startup)[0]
            self.transactions += 1
            self._pass_on(client, session, messages)
            whole = True
        finally:
            if session is not None and not whole:
                session.end.close()  # what is open in it ends with it
            self._idle.put(session if whole else None)

    def _pass_on(self, client: Wire, session: Wire, messages: list[bytes]) -> None:
        """Return once the session is ready, outside of a transaction, and nothing that was asked is unanswered."""
        asked = 0
        said = messages
        while True:
            if said:
                if said[-1][:1] == b"X":
                    raise Gone
                asked += sum(message[:1] in (b"Q", b"S") for message in said)
                session.end.sendall(b"".join(said))
                half = said[-1][:1] not in (b"Q", b"S")
                said = []
            ready, _, _ = select.select((client.end, session.end), (), ())
            if session.end in ready:
                answers = list(session.messages())
                client.end.sendall(b"".join(answers))
                states = [message[5:] for message in answers if message[:1] == READY]
                asked -= len(states)
                if states and states[-1] == IDLE and not asked and not half:
                    return
            elif client.end in ready:
                said = list(client.messages())
