"""The guard: what a request must be before anybody looks at it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from starlette.types import Message

from perdure.errors import LimitExceeded, PerdureError
from perdure.server.guard import ClientGone, Guard, body_cap, check_body, read_body
from perdure.server.options import ServeOptions
from perdure.wire import routes
from perdure.wire.errors import status_of

LOOPBACK = ServeOptions()
NAMED = ServeOptions(host="10.1.2.3", hosts=("perdure.example.com",), origins=("https://ui.example.com/",))
EVERYWHERE = ServeOptions(host="0.0.0.0")

Given = Sequence[tuple[bytes, bytes]]


def refusal(options: ServeOptions, *headers: tuple[bytes, bytes]) -> str:
    """Return the code that a request is refused with, or the empty text."""
    try:
        Guard(options).admit(headers)
    except PerdureError as error:
        return error.code
    return ""


@pytest.mark.parametrize(
    ("options", "host", "code"),
    [
        (LOOPBACK, b"localhost:6767", ""),
        (LOOPBACK, b"LOCALHOST", ""),
        (LOOPBACK, b"127.0.0.1:6767", ""),
        (LOOPBACK, b"[::1]:6767", ""),
        (LOOPBACK, b"evil.example:6767", "host_refused"),
        (LOOPBACK, b"localhost.evil.example", "host_refused"),
        (LOOPBACK, b"127.0.0.1.nip.example", "host_refused"),
        (LOOPBACK, b"192.168.1.5:6767", "host_refused"),
        (LOOPBACK, b"0.0.0.0:6767", "host_refused"),
        (LOOPBACK, b"", "bad_request"),
        (LOOPBACK, b"localhost:6767:1", "bad_request"),
        (LOOPBACK, b"localhost/x", "bad_request"),
        (LOOPBACK, b"user@localhost", "bad_request"),
        (LOOPBACK, b"localhost, evil.example", "bad_request"),
        (LOOPBACK, b"local host", "bad_request"),
        (LOOPBACK, "locälhost".encode(), "bad_request"),
        (NAMED, b"10.1.2.3:6767", ""),
        (NAMED, b"perdure.example.com", ""),
        (NAMED, b"other.example.com", "host_refused"),
        (NAMED, b"10.1.2.4:6767", "host_refused"),
        (EVERYWHERE, b"10.1.2.4:6767", ""),
        (EVERYWHERE, b"[fe80::1]:6767", ""),
        (EVERYWHERE, b"evil.example", "host_refused"),
    ],
)
def test_only_names_of_ours_are_answered(options: ServeOptions, host: bytes, code: str) -> None:
    assert refusal(options, (b"host", host)) == code


@pytest.mark.parametrize(
    ("options", "origin", "code"),
    [
        (LOOPBACK, b"http://localhost:6767", ""),
        (LOOPBACK, b"https://localhost:6767", ""),
        (LOOPBACK, b"HTTP://LOCALHOST:6767", ""),
        (LOOPBACK, b"http://localhost:3000", "origin_refused"),
        (LOOPBACK, b"http://127.0.0.1:6767", "origin_refused"),
        (LOOPBACK, b"http://localhost", "origin_refused"),
        (LOOPBACK, b"https://evil.example", "origin_refused"),
        (LOOPBACK, b"http://localhost:6767.evil.example", "origin_refused"),
        (LOOPBACK, b"null", "origin_refused"),
        (LOOPBACK, b"", "origin_refused"),
        (LOOPBACK, b"file://", "origin_refused"),
        (NAMED, b"https://ui.example.com", ""),
        (NAMED, b"http://ui.example.com", "origin_refused"),
    ],
)
def test_no_other_page_may_call(options: ServeOptions, origin: bytes, code: str) -> None:
    host = b"localhost:6767" if options is LOOPBACK else b"10.1.2.3"
    assert refusal(options, (b"host", host), (b"origin", origin)) == code


def test_a_request_without_host_is_refused() -> None:
    assert refusal(LOOPBACK) == "bad_request"


@pytest.mark.parametrize(
    "name", [b"host", b"content-length", b"content-type", b"authorization", b"origin", b"transfer-encoding"]
)
def test_a_header_that_decides_something_comes_once(name: bytes) -> None:
    headers = [(b"host", b"localhost"), (name, b"localhost"), (name, b"localhost")]
    assert refusal(LOOPBACK, *headers) == "bad_request"


def test_a_list_that_comes_in_two_headers_is_one() -> None:
    accepted = [(b"accept", b"*/*"), (b"accept", b"text/event-stream")]
    assert Guard(LOOPBACK).admit([(b"host", b"localhost"), *accepted])[b"accept"] == b"*/*, text/event-stream"


def test_the_memory_of_good_hosts_is_bounded() -> None:
    guard = Guard(EVERYWHERE)
    for number in range(300):
        guard.admit([(b"host", f"10.0.{number // 256}.{number % 256}".encode())])
    assert len(guard._seen) <= 64


JSON = (b"content-type", b"application/json")


@pytest.mark.parametrize(
    ("method", "headers", "code"),
    [
        ("POST", [JSON, (b"content-length", b"2")], ""),
        ("POST", [(b"content-type", b"Application/JSON; charset=UTF-8"), (b"content-length", b"2")], ""),
        ("POST", [JSON, (b"transfer-encoding", b"chunked")], ""),
        ("POST", [(b"content-length", b"0")], ""),
        ("POST", [], ""),
        ("GET", [], ""),
        ("POST", [(b"content-length", b"2")], "unsupported_media_type"),
        (
            "POST",
            [(b"content-type", b"application/json, text/plain"), (b"content-length", b"2")],
            "unsupported_media_type",
        ),
        (
            "POST",
            [(b"content-type", b"application/json; charset=latin-1"), (b"content-length", b"2")],
            "unsupported_media_type",
        ),
        (
            "POST",
            [(b"content-type", b"application/x-www-form-urlencoded"), (b"content-length", b"2")],
            "unsupported_media_type",
        ),
        (
            "POST",
            [(b"content-type", b"multipart/form-data; boundary=x"), (b"content-length", b"2")],
            "unsupported_media_type",
        ),
        ("POST", [JSON, (b"content-length", b"2"), (b"content-encoding", b"gzip")], "compressed_body"),
        ("POST", [JSON, (b"content-length", b"2"), (b"content-encoding", b"identity, gzip")], "compressed_body"),
        ("POST", [JSON, (b"content-length", b"2"), (b"content-encoding", b"identity")], ""),
        ("POST", [JSON, (b"content-length", b"2"), (b"transfer-encoding", b"chunked")], "bad_request"),
        ("POST", [JSON, (b"transfer-encoding", b"gzip, chunked")], "bad_request"),
        ("POST", [JSON, (b"content-length", b"-1")], "bad_request"),
        ("POST", [JSON, (b"content-length", b"0x10")], "bad_request"),
        ("POST", [JSON, (b"content-length", b"9" * 30)], "bad_request"),
        ("POST", [JSON, (b"content-length", b"9437185")], "body_too_large"),
        ("GET", [JSON, (b"content-length", b"2")], "bad_request"),
        ("GET", [JSON, (b"transfer-encoding", b"chunked")], "bad_request"),
    ],
)
def test_one_kind_of_body_is_taken(method: str, headers: Given, code: str) -> None:
    try:
        check_body(method, routes.EXECUTIONS, dict(headers))
        found = ""
    except PerdureError as error:
        found = error.code
    assert found == code


@pytest.mark.parametrize(
    "kind",
    [
        b"text/plain",
        b"text/json",
        b"application/json, text/plain",
        b"application/json; charset=latin-1",
        b"application/jsonp",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data; boundary=x",
    ],
)
def test_a_body_of_another_type_is_refused(kind: bytes) -> None:
    with pytest.raises(PerdureError) as caught:
        check_body("POST", routes.EXECUTIONS, {b"content-type": kind, b"content-length": b"2"})
    assert (caught.value.code, status_of(caught.value)) == ("unsupported_media_type", 415)


def test_only_routes_that_carry_values_take_large_bodies() -> None:
    large = {
        routes.EXECUTIONS,
        routes.fill(routes.MESSAGES, execution="e"),
        routes.fill(routes.RULING, execution="e"),
        routes.REPORT,
        routes.fill(routes.ROOM_TASKS, room="r"),
        routes.fill(routes.ROOM_MEMORY, room="r"),
        routes.MCP,
    }
    assert {body_cap(path) for path in large} == {routes.MAX_BODY_BYTES}
    for path in (routes.BEGIN, routes.fill(routes.DECISION, approval="a"), routes.fill(routes.CANCEL, execution="e")):
        assert body_cap(path) == 64 * 1024


class Body:
    """A `receive` that plays messages and counts how many were taken."""

    def __init__(self, *pieces: bytes, hang_up: bool = False) -> None:
        last: Message = {"type": "http.disconnect"} if hang_up else {"type": "http.request", "body": b""}
        self._messages = [*({"type": "http.request", "body": one, "more_body": True} for one in pieces), last]
        self.taken = 0

    async def __call__(self) -> Message:
        self.taken += 1
        return self._messages[self.taken - 1]


@pytest.mark.anyio
async def test_a_body_in_pieces_is_read_whole() -> None:
    assert await read_body(Body(b"ab", b"", b"cd"), 4) == b"abcd"


@pytest.mark.anyio
async def test_a_body_is_not_read_beyond_its_bound() -> None:
    body = Body(*[b"x" * 10] * 100)
    with pytest.raises(LimitExceeded) as caught:
        await read_body(body, 25)
    assert body.taken == 3
    assert status_of(caught.value) == 413


@pytest.mark.anyio
async def test_a_client_that_hangs_up_has_sent_nothing() -> None:
    with pytest.raises(ClientGone):
        await read_body(Body(b"half", hang_up=True), 100)
    with pytest.raises(ClientGone):
        await read_body(Body(hang_up=True), 100)
