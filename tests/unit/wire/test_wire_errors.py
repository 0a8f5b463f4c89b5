"""An error that crosses the wire is the same error: class, code, message, details."""

from __future__ import annotations

import pytest

from perdure import errors
from perdure.errors import InternalError, PerdureError, Retryable, UserError
from perdure.wire.errors import STATUS_OF_CODE, dump_error, load_error, status_of

CLASSES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, PerdureError) and kind not in (PerdureError, errors.Terminal)
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_codes_messages_and_details_survive(kind: type[PerdureError]) -> None:
    sent = kind("thing: expected, found, do", execution="exe_1", limit=3)
    found = load_error(status_of(sent), dump_error(sent))
    assert (found.code, found.message, found.details) == (sent.code, sent.message, sent.details)


@pytest.mark.parametrize(
    "kind",
    [
        errors.NotFound,
        errors.Conflict,
        errors.Unauthorized,
        errors.InvalidInput,
        errors.LimitExceeded,
        errors.StoreFull,
        errors.LeaseLost,
        errors.Retryable,
    ],
    ids=lambda kind: kind.__name__,
)
def test_classes_that_a_server_sends_survive(kind: type[PerdureError]) -> None:
    sent = kind("thing")
    assert type(load_error(status_of(sent), dump_error(sent))) is kind


@pytest.mark.parametrize(("code", "status"), STATUS_OF_CODE.items())
def test_codes_of_http_itself_come_with_their_status(code: str, status: int) -> None:
    found = load_error(status, dump_error(UserError("x", code=code)))
    assert found.code == code
    assert isinstance(found, UserError)


def test_details_that_are_no_json_are_shown_as_text() -> None:
    sent = UserError("x", path=object, more={"a": 1})
    assert load_error(400, dump_error(sent)).details == {"path": str(object), "more": {"a": 1}}


def test_details_cannot_take_the_place_of_the_message() -> None:
    body = b'{"error": {"code": "c", "message": "m", "details": {"message": "no", "code": "no", "a": 1}}}'
    found = load_error(409, body)
    assert (found.code, found.message, found.details) == ("c", "m", {"a": 1})


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": "no"}', b'{"detail": 1}', b"\xff"])
def test_a_page_of_somebody_else_is_named_as_such(body: bytes) -> None:
    assert load_error(404, body).code == "not_perdure"
    assert isinstance(load_error(503, body), Retryable)
    assert isinstance(load_error(500, body), InternalError)
