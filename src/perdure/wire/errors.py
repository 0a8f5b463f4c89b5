"""Errors on the wire: `{"error": {"code", "message", "details"}}` and the status that goes with each code."""

from __future__ import annotations

from typing import Any, cast

import orjson

from perdure import errors
from perdure.errors import PerdureError
from perdure.wire import codec

STATUS_OF_CODE = {
    "bad_json": 400,
    "bad_request": 400,
    "json_too_deep": 400,
    "admin_only": 403,
    "host_refused": 403,
    "origin_refused": 403,
    "no_such_route": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "unsupported_media_type": 415,
    "compressed_body": 415,
    "rate_limited": 429,
    "headers_too_large": 431,
}
"""Codes that travel with another status than their class: HTTP has words for these."""

NOT_SENT = frozenset({"draining", "busy"})
"""Codes of a refusal before anything was looked at: sending again is always safe."""


def status_of(error: PerdureError) -> int:
    """Return the HTTP status of an error."""
    return STATUS_OF_CODE.get(error.code, error.status)


def dump_error(error: PerdureError) -> bytes:
    """Return the body that carries an error."""
    return codec.dump({"error": {"code": error.code, "message": error.message, "details": _plain(error.details)}})


def load_error(status: int, data: bytes) -> PerdureError:
    """Rebuild the error of a reply. A body that is not ours (a proxy's page) becomes an error that shows its start."""
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        body = None
    found = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    if not isinstance(found, dict):
        return errors.from_wire(
            status,
            "not_perdure",
            f"The server answered {status} with {data[:120]!r}, which is not an answer of Perdure's. "
            "Check the address, and any proxy between.",
        )
    fields = cast("dict[str, Any]", found)
    given = fields.get("details")
    details = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    usable = {str(name): value for name, value in details.items() if name not in ("message", "code")}
    return errors.from_wire(status, str(fields.get("code", "")), str(fields.get("message", "")), usable)


def _plain(details: dict[str, Any]) -> dict[str, Any]:
    """Details are facts for programs. One that JSON does not have is shown as text rather than lost."""
    return {
        name: value if value is None or isinstance(value, (bool, int, float, str, list, tuple, dict)) else str(value)
        for name, value in details.items()
    }
