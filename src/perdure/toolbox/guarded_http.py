"""Connect only where a server may: to public addresses, found out once and used as they were checked.

A name that answers differently the second time, a redirect into the house and odd spellings of an address all end
here: what is checked is the very address that the connection goes to.
"""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import anyio
import httpx2

from perdure.agent.server_tools import REFERENCE
from perdure.core.redaction import Redaction, redaction
from perdure.core.secrets import no_secret
from perdure.errors import PermanentError

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""From a host and port to the addresses it has now. Raises `OSError`."""

CONNECT_SECONDS = 10.0
_MOST_ADDRESSES = 8

_GLOBAL_V6 = ipaddress.ip_network("2000::/3")
_REFUSED = [
    ipaddress.ip_network(text)
    for text in (
        # Written out, as the standard library's list of what is not global changes from version to version.
        "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 "
        "192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 "
        "168.63.129.16/32 "  # a cloud's metadata, at an address that looks public
        "192.88.99.0/24 2001::/23 2002::/16 "  # tunnels and relays: IPv4 in IPv6, whatever address that is
        "2001:db8::/32 3fff::/20"
    ).split()
]


class AddressRefused(PermanentError):
    """The server may not connect there."""

    default_code = "address_refused"


class AnswerTooLong(PermanentError):
    """What was asked says more than is taken of it; it would again."""

    default_code = "answer_too_long"


class SecretRefused(PermanentError):
    """A reference to a secret or variable that is not there, or that the operator does not allow."""

    default_code = "secret_refused"


@dataclass(frozen=True, slots=True)
class Outbound:
    """What tools that the server calls may do: its operator's word."""

    allow_private: bool = False
    """Whether addresses that are not public are connected to as well."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The variables of the environment that `${env:NAME}` may stand for, with their values."""

    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What `${secret:NAME}` stands for: the secrets of the company that a call is made for."""

    def resolved(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return headers with the values that they refer to. Raises `SecretRefused`."""
        return {
            name: REFERENCE.sub(lambda found: self._value(found[1], found[2]), text) for name, text in headers.items()
        }

    def hidden(self, headers: Mapping[str, str]) -> Redaction:
        """Return what takes the values that these headers refer to out of all that comes of their request."""
        known = {"env": self.variables, "secret": self.secrets}
        return redaction(
            known[kind].get(name, "") for text in headers.values() for kind, name in REFERENCE.findall(text)
        )

    def _value(self, kind: str, name: str) -> str:
        value = (self.variables if kind == "env" else self.secrets).get(name)
        if value is None and kind == "secret":
            raise SecretRefused(f"${{secret:{name}}}: {no_secret(name)}")
        if value is None:
            raise SecretRefused(
                f"${{env:{name}}} is not a variable that this server gives to tools. Set it where the server starts, "
                f"and allow it there: --tool-env {name}."
            )
        if not value.isprintable() or not value.isascii() or value != value.strip():
            raise SecretRefused(
                f"${{{kind}:{name}}} holds what no header can carry: it should be printable ASCII, no space around it."
            )
        return value


def secret_names(headers: Mapping[str, str]) -> list[str]:
    """Return the names of the company's secrets that headers refer to."""
    return [name for text in headers.values() for kind, name in REFERENCE.findall(text) if kind == "secret"]


def is_public(address: str) -> bool:
    """Say whether an address, as numbers, is one of the public internet, and of nothing closer."""
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if not found.is_global or found.is_multicast or found.is_reserved or found.is_unspecified:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found not in _GLOBAL_V6:
        return False
    return not any(found in network for network in _REFUSED if network.version == found.version)


async def resolve(host: str, port: int) -> list[str]:
    """Ask the system."""
    found = await anyio.getaddrinfo(host, port)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Makes each request on a connection of its own, to an address that was checked. Ignores proxies."""

    def __init__(self, outbound: Outbound, resolve: Resolve = resolve, *, max_bytes: int | None = None) -> None:
        """`max_bytes` of any answer, which is then asked for unpacked and never unpacked; None leaves both to whoever
        reads it."""
        self._outbound, self._resolve, self._max_bytes = outbound, resolve, max_bytes
        # Connections are not kept: they are told apart by address, and two names may share one.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False, limits=limits)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises `AddressRefused`, and `httpx2.ConnectError` if nothing was sent."""
        host = request.url.raw_host.decode("ascii")
        if request.url.scheme not in ("http", "https"):
            raise AddressRefused(f"{request.url.scheme}://{host}: only http and https are served.")
        if self._max_bytes is not None:
            request.headers["accept-encoding"] = "identity"
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        failed: httpx2.ConnectError | httpx2.ConnectTimeout | None = None
        for address in await self._addresses(host, port):
            try:
                return self._bounded(await self._inner.handle_async_request(_to(request, host, address)))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failed = error
        raise failed or httpx2.ConnectError(f"{host} has no address", request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _bounded(self, response: httpx2.Response) -> httpx2.Response:
        if self._max_bytes is not None and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, self._max_bytes)
            # It was asked for as it is. A few bytes that are packed, and packed again, unpack to more than any memory
            # holds.
            response.headers.pop("content-encoding", None)
        return response

    async def _addresses(self, host: str, port: int) -> list[str]:
        """Return where a host is, if all of it is where this server may connect to."""
        try:
            with anyio.fail_after(CONNECT_SECONDS):
                found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError(f"{host} was not found: {error}") from error
        if not self._outbound.allow_private:
            for address in found:
                if not is_public(address):
                    raise AddressRefused(
                        f"{host} is at {address}, which is no public address: this server does not connect there. Its "
                        "operator can allow it: --allow-private-http."
                    )
        return found[:_MOST_ADDRESSES]


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends in an error where it is longer than it may be."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream, self._most, self._left = stream, most, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise AnswerTooLong(f"the answer is longer than {self._most:,} bytes, which is what is taken of one")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _to(request: httpx2.Request, host: str, address: str) -> httpx2.Request:
    """Return the request for one address. The name stays in its `Host` header and in what TLS checks."""
    extensions = {**request.extensions, "sni_hostname": host}
    url = request.url.copy_with(host=address)
    return httpx2.Request(request.method, url, headers=request.headers, stream=request.stream, extensions=extensions)
