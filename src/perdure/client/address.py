"""A server's address as people write it. Text only; nothing is looked up."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from perdure.errors import InvalidInput

_ENDINGS = ("/api", "/v1")


def base_url(given: str) -> str:
    """Return `scheme://host:port[/prefix]` for an address with or without a scheme, a final `/`, `/api` or `/v1`.

    Raises `InvalidInput` (`bad_address`).
    """
    text = given.strip()
    if "://" not in text:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _bad(given, str(error)) from None
    if parts.scheme not in ("http", "https"):
        raise _bad(given, f"{parts.scheme!r} is not spoken; use http or https")
    if not parts.hostname:
        raise _bad(given, "it names no host")
    if parts.username or parts.password:
        raise _bad(given, "it holds a name or a password; give the key as api_key= or in PERDURE_API_KEY")
    if parts.query or parts.fragment:
        raise _bad(given, "it has a part after ? or #")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/")
    while path.endswith(_ENDINGS):
        path = path[: path.rindex("/")].rstrip("/")
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{path}"


def is_loopback(url: str) -> bool:
    """Say whether an address is this machine's own: no proxy stands between."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bad(given: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"The server address {given!r} cannot be used: {why}. Expected something like http://localhost:6767.",
        code="bad_address",
    )
