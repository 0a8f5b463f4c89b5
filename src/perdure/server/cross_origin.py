"""Let web pages at other addresses call this server, where whoever started it said which.

Browsers ask first, without a key, and show a page only what the server said it may see. Cookies are never theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

METHODS = ("GET", "POST", "PUT", "DELETE")
HEADERS = ("Authorization", "Content-Type", "Last-Event-ID", "MCP-Protocol-Version", "A2A-Version")
"""What requests may bring beside what browsers always allow."""
SHOWN = ("Retry-After", "WWW-Authenticate")
REMEMBERED_SECONDS = 600


def cross_origin(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Return the application as pages of these origins may call it. The guard still judges each request."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=[origin.lower().rstrip("/") for origin in origins],
        allow_methods=METHODS,
        allow_headers=HEADERS,
        expose_headers=SHOWN,
        max_age=REMEMBERED_SECONDS,
    )
