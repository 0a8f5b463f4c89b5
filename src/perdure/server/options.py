"""How a server is to listen, and how much it lets any one client take. Frozen: nothing changes while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from perdure.wire.routes import DEFAULT_PORT


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may take of a server: bytes, seconds, connections."""

    header_bytes: int = 32 * 1024
    """Request line and headers together."""
    header_count: int = 64
    head_seconds: float = 10.0
    """From the first byte of a request, or from connecting, to the end of its headers."""
    body_seconds: float = 60.0
    """From there to the end of its body."""
    idle_seconds: float = 75.0
    """How long a connection may stay open between requests: longer than clients keep theirs."""
    stuck_seconds: float = 30.0
    """How long a reader may take nothing of what waits for it. Then it is cut off; a stream is taken up again."""
    discard_bytes: int = 32 * 1024 * 1024
    """How much of a refused body is read and thrown away, so that its sender comes to read the refusal."""
    connections: int = 4096
    """At most; fewer where the system allows this process fewer open files."""
    streams: int = 500
    """Event streams of one company at a time."""
    values: int = 20
    """Large values that one company is sent at a time, each as one stream."""
    polls: int = 1000
    """Waiting leases and liveness connections of one company at a time, each."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How a server is to listen."""

    host: str = "127.0.0.1"
    """Where to bind. Anything beyond loopback needs `auth`."""
    port: int = DEFAULT_PORT
    """0 takes a free one."""
    hosts: tuple[str, ...] = ()
    """Names that clients may use for this server, beside loopback's and `host`."""
    public_url: str = ""
    """Where the public reaches this server (`https://example.com`): what the addresses of tokens begin with."""
    origins: tuple[str, ...] = ()
    """Web pages (`https://ui.example.com`) that may call this server, beside its own."""
    auth: bool = True
    """False only on loopback: anybody on this machine may then do anything."""
    state_file: Path | None = None
    """Where clients of this user look for the server. None writes none."""
    drain_seconds: float = 4.0
    """How long requests may go on after the first signal. Streams end at once."""
    beat_seconds: float = 15.0
    """Between comments on an event stream on which nothing happens."""
    limits: Limits = field(default=Limits())
