"""Where a server may listen."""

from __future__ import annotations

import contextlib
import resource
import socket

import pytest

from perdure.errors import UserError
from perdure.server.listen import bind, room_for, stays_here, url_of
from perdure.server.options import Limits, ServeOptions


def test_a_free_port_is_found_on_loopback() -> None:
    with contextlib.closing(bind(ServeOptions(port=0))) as listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"
        socket.create_connection(listener.getsockname()).close()


def test_localhost_is_ipv4() -> None:
    with contextlib.closing(bind(ServeOptions(host="localhost", port=0))) as listener:
        assert listener.family == socket.AF_INET


def test_a_taken_port_is_a_plain_error() -> None:
    with contextlib.closing(bind(ServeOptions(port=0))) as first:
        port = first.getsockname()[1]
        with pytest.raises(UserError, match=f"127.0.0.1:{port} already") as caught:
            bind(ServeOptions(port=port))
        assert caught.value.code == "port_in_use"
        assert caught.value.details == {"port": port}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_without_keys_nothing_but_loopback_is_bound(host: str) -> None:
    with pytest.raises(UserError) as caught:
        bind(ServeOptions(host=host, port=0, auth=False))
    assert caught.value.code == "unsafe_bind"
    bind(ServeOptions(host="127.0.0.1", port=0, auth=False)).close()


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_a_place_that_is_not_here_is_a_plain_error(host: str) -> None:
    with pytest.raises(UserError) as caught:
        bind(ServeOptions(host=host, port=0))
    assert caught.value.code == "cannot_bind"


def test_everywhere_is_reached_by_loopback_from_here() -> None:
    with contextlib.closing(bind(ServeOptions(host="0.0.0.0", port=0))) as listener:
        assert url_of(listener).startswith("http://127.0.0.1:")


def test_connections_leave_files_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: asked.append(pair))
    assert room_for(Limits(connections=4096)).connections == 1024 - 128
    assert asked == [(1024, 1024)]
    assert room_for(Limits(connections=100)).connections == 100


def test_a_server_is_for_this_machine_alone_unless_anything_says_otherwise() -> None:
    assert stays_here(ServeOptions())
    assert stays_here(ServeOptions(host="localhost"))
    assert not stays_here(ServeOptions(host="0.0.0.0"))
    assert not stays_here(ServeOptions(hosts=("perdure.example",)))
    assert not stays_here(ServeOptions(public_url="https://perdure.example"))
