"""A proxy before PostgreSQL that cuts connections at the worst moment: the COMMIT was done, its answer is lost."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from pathlib import Path

from postgres_fronts import listen_in

_PREPARED = re.compile(rb"(\w+\0)COMMIT\0")


class CuttingProxy:
    """Passes bytes on; after `cut_next(n)`, the next n commits reach the server and their answers nobody."""

    def __init__(self, server: Path, folder: Path) -> None:
        self._server = str(server)
        self._left = 0
        self.cuts = 0
        self._listener = listen_in(folder)
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def cut_next(self, commits: int) -> None:
        self._left = commits

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._server)
            except OSError:  # it is away
                server.close()
                client.close()
                continue
            threading.Thread(target=self._upward, args=(client, server), name="up", daemon=True).start()
            threading.Thread(target=_pass_on, args=(server, client), name="down", daemon=True).start()

    def _upward(self, client: socket.socket, server: socket.socket) -> None:
        """From the client to the server: the side that sees a COMMIT coming."""
        names = {b"COMMIT"}
        with suppress(OSError):  # the server may be the first to leave
            while data := _receive(client):
                names.update(_PREPARED.findall(data))  # from then on it comes by this name
                if self._left and any(name in data for name in names):
                    self._left -= 1
                    self.cuts += 1
                    client.shutdown(socket.SHUT_RDWR)  # nothing reaches the client from here on
                    server.sendall(data)
                    break
                server.sendall(data)
            # The server ends this session when it has done what it was sent.
            server.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    while data := _receive(source):
        try:
            sink.sendall(data)
        except OSError:
            continue  # cut; read on, so that the server is not held up
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)  # closing alone ends nothing while the other thread reads from it
        end.close()


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(65_536)
    except OSError:
        return b""
