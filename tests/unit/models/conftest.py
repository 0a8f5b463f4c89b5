"""A script behind an address: a real HTTP server on loopback that the test tells what to answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from waiting_clock import WaitingClock

Answer = tuple[int, dict[str, str], bytes]


class ScriptServer(HTTPServer):
    """Counts what it is asked; `answer` makes each reply from the request's body."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[dict[str, Any]], Answer] = lambda _body: (200, {}, b"{}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: ScriptServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, body))
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        status, headers, content = self.server.answer(body)
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def script_server() -> Iterator[ScriptServer]:
    with ScriptServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="script server")
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def clock() -> WaitingClock:
    return WaitingClock()
