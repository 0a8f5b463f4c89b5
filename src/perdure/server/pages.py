"""The web UI's files, as `./dev ui` built them, or a plain page that says how to. They hold no data, so anybody may
read them; what they show comes from the API, which asks who wants to know.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.types import Scope, Send

FOLDER = Path(__file__).with_name("web")
"""Not in the repository: made by `./dev ui`, and part of every wheel and sdist."""
PAGES = frozenset(
    {"login", "executions", "approvals", "compare", "workers", "agents", "schedules", "rooms", "settings", "demo"}
)
"""First parts of the addresses that the UI shows something at. All else that is no file is the API's to answer."""

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types"
    " 'none'"
)
"""Nothing from elsewhere, nothing inline, and no text that becomes markup or code."""
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
]
_FOR_EVER = b"public, max-age=31536000, immutable"
_ASK_AGAIN = b"no-cache"
_SMALL = 1024
_NOT_BUILT = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Perdure</title>
<h1>The web UI is not built</h1>
<p>This is a source checkout. Run <code>./dev ui</code> in it, which needs Node 20.19 or newer, and start the server
again. A wheel has the UI in it. The API and the command line need none of this.</p>
"""


@dataclass(frozen=True, slots=True)
class Page:
    """A file as it is sent."""

    kind: bytes
    body: bytes
    packed: bytes
    """The same, gzipped; empty where that saves nothing."""
    caching: bytes


@dataclass(frozen=True, slots=True)
class Pages:
    """The files by their addresses."""

    files: dict[str, Page]

    def find(self, path: str) -> Page | None:
        """Return what is at an address, or None if that is the API's."""
        if found := self.files.get(path):
            return found
        return self.files["/"] if path.split("/", 2)[1] in PAGES else None


@cache
def pages(folder: Path = FOLDER) -> Pages:
    """Read all files, once. They are few, and small."""
    files = {f"/{one.relative_to(folder).as_posix()}": _page(one) for one in folder.rglob("*") if one.suffix in _TYPES}
    index = files.pop("/index.html", None) or Page(_TYPES[".html"].encode(), _NOT_BUILT, b"", _ASK_AGAIN)
    return Pages({**files, "/": index})


def _page(file: Path) -> Page:
    body = file.read_bytes()
    packed = gzip.compress(body, 9, mtime=0) if len(body) > _SMALL and file.suffix != ".woff2" else b""
    # What is in this folder has a name that says what is in it: another content has another name.
    caching = _FOR_EVER if file.parent.name == "assets" else _ASK_AGAIN
    return Page(_TYPES[file.suffix].encode(), body, packed, caching)


async def send_page(page: Page, scope: Scope, send: Send) -> None:
    """Answer a GET or a HEAD."""
    accepted = next((value for name, value in scope["headers"] if name == b"accept-encoding"), b"")
    packed = bool(page.packed) and b"gzip" in accepted
    body = page.packed if packed else page.body
    headers = [(b"content-type", page.kind), (b"content-length", b"%d" % len(body)), (b"cache-control", page.caching)]
    headers += [(b"content-encoding", b"gzip")] if packed else []
    headers += [(b"vary", b"accept-encoding")] if page.packed else []
    await send({"type": "http.response.start", "status": 200, "headers": [*headers, *_HEADERS]})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
