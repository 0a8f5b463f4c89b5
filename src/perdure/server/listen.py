"""The listening socket: where it may be, what clients call it, and how many connections fit."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from dataclasses import replace

from perdure.errors import UserError
from perdure.server.options import Limits, ServeOptions

_BACKLOG = 2048
_SPARE_FILES = 128
"""Open files that this process keeps for its store, its logs and the models it calls."""


def bind(options: ServeOptions) -> socket.socket:
    """Return a socket that listens. What connects from now on waits until the server answers.

    Raises `UserError`: `unsafe_bind` beyond loopback without keys, `port_in_use`, `cannot_bind`.
    """
    family, address = _resolve(options)
    if not options.auth and not ipaddress.ip_address(address).is_loopback:
        raise UserError(
            f"Without keys a server listens only on loopback, and {options.host} reaches further. Leave out "
            "--insecure-no-auth, or bind to 127.0.0.1.",
            code="unsafe_bind",
            host=options.host,
        )
    # The protocol is named because event loops switch Nagle off only where they see it: else replies wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, options.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _cannot(options, error) from None
    return listener


def stays_here(options: ServeOptions) -> bool:
    """Say whether such a server is there for this machine alone. Raises `UserError` (`cannot_bind`)."""
    address = _resolve(options)[1]
    return ipaddress.ip_address(address).is_loopback and not options.public_url and not options.hosts


def url_of(listener: socket.socket) -> str:
    """Return the address for clients on this machine."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "127.0.0.1" if listener.family == socket.AF_INET else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def room_for(limits: Limits) -> Limits:
    """Return limits with no more connections than this process may open files, after asking for enough."""
    try:
        import resource  # noqa: PLC0415 - Unix has it
    except ImportError:
        return limits
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + _SPARE_FILES
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
        soft = max(soft, most)
    return replace(limits, connections=max(16, min(limits.connections, soft - _SPARE_FILES)))


def _resolve(options: ServeOptions) -> tuple[socket.AddressFamily, str]:
    try:
        found = socket.getaddrinfo(options.host or None, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise _cannot(options, error) from None
    # "localhost" names both families; clients try IPv4 too, and everybody's tools can type it
    family, _, _, _, address = min(found, key=lambda item: item[0] != socket.AF_INET)
    return family, str(address[0])


def _cannot(options: ServeOptions, error: OSError) -> UserError:
    where = f"{options.host}:{options.port}"
    if error.errno == errno.EADDRINUSE:
        return UserError(
            f"Another program listens on {where} already. If it is a Perdure server, use it; else choose another port: "
            "perdure server --port N.",
            code="port_in_use",
            port=options.port,
        )
    return UserError(
        f"The server cannot listen on {where}: {error.strerror or error}. Choose another --host or --port.",
        code="cannot_bind",
        host=options.host,
        port=options.port,
    )
