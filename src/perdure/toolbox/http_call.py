"""Make the request of an `http_tool`, and say what its answer means for the next attempt.

Runs in a server. Nothing that a receiver says is trusted: sizes, redirects and encodings are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import httpx2

from perdure.agent.server_tools import PLACEHOLDER, HttpPart
from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.delivery import Delivery
from perdure.core.redaction import Redaction
from perdure.errors import NotDone, PermanentError
from perdure.toolbox.guarded_http import CONNECT_SECONDS, GuardedTransport, Outbound, Resolve, resolve
from perdure.version import VERSION

MOST_REDIRECTS = 3
SHOWN = 500
"""Characters of an answer in an error."""
TRY_AGAIN = frozenset({408, 425, 429})
_CHARSETS = frozenset({"us-ascii", "iso-8859-1", "latin-1", "windows-1252", "utf-16"})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_FOLLOWED = frozenset({301, 302, 303, 307, 308})
_SAME_REQUEST = frozenset({307, 308})


class HttpFailed(Exception):
    """An answer that says to try again, with its headers: they may say when."""

    def __init__(self, message: str, headers: httpx2.Headers) -> None:
        super().__init__(message)
        self.headers = headers


class HttpRefused(PermanentError):
    """An answer that asking again cannot change."""

    default_code = "http_refused"


@dataclass(frozen=True, slots=True)
class Asked:
    """One call: what the model gave, under which key, and what a crash of it may mean."""

    args: Mapping[str, Json]
    key: str
    delivery: str
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class HttpCaller:
    """Makes requests as an operator allows."""

    outbound: Outbound
    resolve: Resolve = resolve

    async def call(self, part: HttpPart, asked: Asked) -> Json:
        """Return the JSON or text of a success.

        Raises `PermanentError`, `HttpFailed` and what httpx2 raises; under `at_most_once` `NotDone` where nothing was
        sent, or the receiver says that it refused.
        """
        hidden = self.outbound.hidden(part.headers)
        client = httpx2.AsyncClient(
            transport=GuardedTransport(self.outbound, self.resolve),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(asked.timeout_seconds, connect=min(CONNECT_SECONDS, asked.timeout_seconds)),
        )
        try:
            async with client:
                return await self._follow(client, part, asked, hidden)
        except NotSent as error:
            raise before_anything(hidden.error(error.cause), asked) from None
        except Exception as error:
            hidden.error(error)
            raise

    async def _follow(self, client: httpx2.AsyncClient, part: HttpPart, asked: Asked, hidden: Redaction) -> Json:
        request = self._request(client, part, asked)
        origin = _origin(request.url)
        for hop in range(MOST_REDIRECTS + 1):
            response = await _send(client, request, first=hop == 0)
            try:
                target = _target(response)
                if target is None:
                    return await _read(response, part, asked, hidden)
            finally:
                await response.aclose()
            if response.status_code not in _SAME_REQUEST:  # it was taken: the next answer is about its result
                asked = replace(asked, delivery=Delivery.AT_LEAST_ONCE)
            if request.url.scheme == "https" and target.scheme != "https":
                raise HttpRefused(f"{_name(part)} was redirected from https to {target.scheme}: not followed.")
            request = _redirected(client, request, response.status_code, target, same=_origin(target) == origin)
        raise HttpRefused(f"{_name(part)} was redirected more than {MOST_REDIRECTS} times.")

    def _request(self, client: httpx2.AsyncClient, part: HttpPart, asked: Asked) -> httpx2.Request:
        try:
            headers = self.outbound.resolved(part.headers)
        except PermanentError as error:
            raise NotSent(error) from None
        headers = {
            "Accept": "application/json, text/*;q=0.9, */*;q=0.1",
            "User-Agent": f"perdure/{VERSION}",
            **headers,
            "Accept-Encoding": "identity",
            "Idempotency-Key": key_header(asked.key),
        }
        url = PLACEHOLDER.sub(lambda found: _segment(found[1], asked.args.get(found[1])), part.url)
        rest = {name: value for name, value in asked.args.items() if name not in PLACEHOLDER.findall(part.url)}
        if part.method in _WITH_BODY:
            content = codec.encode(rest, "body").encode()
            headers.setdefault("Content-Type", "application/json")
            return client.build_request(part.method, url, headers=headers, content=content)
        address = httpx2.URL(url)
        for name, value in rest.items():
            values = value if isinstance(value, list) else [value]
            for one in values:
                address = address.copy_add_param(name, _text(one))
        return client.build_request(part.method, address, headers=headers)


def key_header(key: str) -> str:
    """Return a key as a header can carry it: what is not printable ASCII is percent-encoded."""
    return quote(key, safe="!#$&'()*+,/:;=?@[]~ ")


class NotSent(Exception):
    """Why a request never left."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def before_anything(error: Exception, asked: Asked) -> Exception:
    """Return what to raise where nothing was sent: under `at_most_once` it is known that nothing happened."""
    if asked.delivery != Delivery.AT_MOST_ONCE:
        return error
    return NotDone(f"nothing was sent: {error}")


async def _send(client: httpx2.AsyncClient, request: httpx2.Request, *, first: bool) -> httpx2.Response:
    try:
        return await client.send(request, stream=True)
    except (httpx2.ConnectError, httpx2.ConnectTimeout, PermanentError) as error:
        if first:
            raise NotSent(error) from None
        raise


def _target(response: httpx2.Response) -> httpx2.URL | None:
    """Return where an answer sends us, if it does."""
    place = response.headers.get("Location")
    if response.status_code not in _FOLLOWED or not place:
        return None
    try:
        target = response.request.url.join(place)
    except (httpx2.InvalidURL, ValueError):
        raise HttpRefused(f"the answer redirects to {place!r:.80}, which is no address.") from None
    if target.scheme not in ("http", "https") or target.userinfo:
        raise HttpRefused(f"the answer redirects to {target.scheme}://…, which is not followed.")
    return target


def _redirected(
    client: httpx2.AsyncClient, request: httpx2.Request, status: int, target: httpx2.URL, *, same: bool
) -> httpx2.Request:
    """Return the request that follows an answer. What was declared for one place is not told to another."""
    again = status in _SAME_REQUEST or request.method in ("GET", "HEAD")
    wanted = {"accept", "accept-encoding", "user-agent", "idempotency-key", *({"content-type"} if again else ())}
    known = [(name, value) for name, value in request.headers.items() if name not in ("host", "content-length")]
    headers = [(name, value) for name, value in known if same or name in wanted]
    if again:
        return client.build_request(request.method, target, headers=headers, content=request.content or None)
    return client.build_request("GET", target, headers=[pair for pair in headers if pair[0] != "content-type"])


async def _read(response: httpx2.Response, part: HttpPart, asked: Asked, hidden: Redaction) -> Json:
    body, whole = bytearray(), True
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > part.max_bytes:
            del body[part.max_bytes :]
            whole = False
            break
    text = bytes(body).decode(_charset(response), "replace")
    text = hidden.text(text) if whole else hidden.cut(text)
    if not response.is_success:
        raise _failure(response, part, asked, text)
    return hidden.json(_value(response, text, whole=whole))


def _failure(response: httpx2.Response, part: HttpPart, asked: Asked, text: str) -> Exception:
    status = response.status_code
    shown = text[:SHOWN] + ("…" if len(text) > SHOWN else "")
    message = f"{_name(part)} answered {status}: {shown}".rstrip(": ")
    if 400 <= status < 500 and asked.delivery == Delivery.AT_MOST_ONCE:
        return NotDone(message)
    if status in TRY_AGAIN or status >= 500:
        return HttpFailed(message, response.headers)
    return HttpRefused(message)


def _value(response: httpx2.Response, text: str, *, whole: bool) -> Json:
    """Return what the model gets. A success stays one, whatever its body is like: the call was made."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding != "identity":
        return {"status": response.status_code, "note": f"the answer came as {encoding}, which was not asked for"}
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if whole and (kind == "application/json" or kind.endswith("+json")):
        try:
            return codec.round_trip(codec.decode(text), "the answer")[1]
        except Exception:  # noqa: BLE001 - it says JSON and is none, or none that can be stored: it is text
            return _plain(text)
    if not whole:
        return {"status": response.status_code, "text": _plain(text), "note": "the answer was longer, and is cut here"}
    return _plain(text)


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _charset(response: httpx2.Response) -> str:
    found = (response.charset_encoding or "").lower()
    return found if found in _CHARSETS else "utf-8"


def _segment(name: str, value: Any) -> str:
    """Return an argument as part of an address, where it can be nothing but a part: no way up, none out."""
    text = _text(value)
    if text in ("", ".", ".."):
        why = f"the argument {name!r} is {text!r}, and part of an address: it would lead to another one"
        raise NotSent(PermanentError(why, code="bad_argument"))
    return quote(text, safe="")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else codec.encode(value, "argument")


def _origin(url: httpx2.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def _name(part: HttpPart) -> str:
    return f"{part.method} {part.url}"
