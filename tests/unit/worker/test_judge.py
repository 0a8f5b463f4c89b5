"""What the exceptions of a tool mean for its next try."""

from __future__ import annotations

import urllib.error
from datetime import timedelta
from email.message import Message
from typing import Any

import pytest

from perdure.agent.context import Cancelled
from perdure.errors import InvalidInput, LeaseLost, PermanentError, RetryLater
from perdure.worker.judge import MAX_TEXT_BYTES, Raised, Stopped, judge

NOW_MS = 1_700_000_000_000  # Tue, 14 Nov 2023 22:13:20 GMT


class Reply:
    def __init__(self, headers: Any) -> None:
        self.headers = headers


class HttpFailure(Exception):
    def __init__(self, headers: Any) -> None:
        super().__init__("429")
        self.response = Reply(headers)


def test_a_permanent_error_is_not_tried_again() -> None:
    assert judge(PermanentError("no such order"), "t") == Raised("permanent", "no such order", permanent=True)


def test_types_in_no_retry_are_not_tried_again_nor_what_derives_from_them() -> None:
    said = judge(UnicodeError("odd"), "t", no_retry=(KeyError, ValueError))
    assert said == Raised("not_retryable", "UnicodeError: odd", permanent=True)
    assert judge(TypeError("odd"), "t", no_retry=(ValueError,)) == Raised("tool_error", "TypeError: odd")


@pytest.mark.parametrize(("after", "pause_ms"), [(0, 0), (2.5, 2_500), (timedelta(hours=1), 3_600_000), (None, None)])
def test_a_tool_says_when_it_wants_to_be_tried_again(after: Any, pause_ms: int) -> None:
    assert judge(RetryLater("busy", after=after), "t") == Raised("retry_later", "busy", retry_after_ms=pause_ms)


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf"), timedelta(days=367)])
def test_a_pause_that_is_none_is_refused(after: Any) -> None:
    with pytest.raises(InvalidInput):
        RetryLater(after=after)


@pytest.mark.parametrize(
    ("headers", "pause_ms"),
    [
        ({"Retry-After": "7"}, 7_000),
        ({"retry-after": " 7 "}, 7_000),
        ({"Retry-After": "Tue, 14 Nov 2023 22:14:20 GMT"}, 60_000),
        ({"Retry-After": "Tue, 14 Nov 2023 22:14:20 GMT", "Date": "Tue, 14 Nov 2023 22:14:10 GMT"}, 10_000),
        ({"Retry-After": "Tue, 14 Nov 1999 22:14:20 GMT"}, 0),
        ({"Retry-After": "99999999999999999999"}, 86_400_000),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "³"}, None),
        ({"Retry-After": 5}, None),
        ({}, None),
        (None, None),
        (object(), None),
    ],
)
def test_what_a_server_asks_for_is_kept(headers: Any, pause_ms: int | None) -> None:
    said = judge(HttpFailure(headers), "t", now_ms=NOW_MS)
    assert isinstance(said, Raised)
    assert (said.code, said.permanent, said.retry_after_ms) == ("tool_error", False, pause_ms)


def test_the_errors_of_the_standard_library_carry_it_too() -> None:
    headers = Message()
    headers["Retry-After"] = "3"
    said = judge(urllib.error.HTTPError("http://x", 503, "busy", headers, None), "t")
    assert isinstance(said, Raised)
    assert said.retry_after_ms == 3_000


@pytest.mark.parametrize("error", [Cancelled(), LeaseLost("gone")])
def test_what_lets_itself_be_stopped_has_not_failed(error: BaseException) -> None:
    assert isinstance(judge(error, "t", no_retry=(Exception,)), Stopped)


def test_nothing_an_exception_does_gets_past() -> None:
    class Odd(Exception):
        @property
        def response(self) -> Any:
            return Reply(Reply(None))

        def __str__(self) -> str:
            raise RuntimeError("no text")

    said = judge(Odd(), "t")
    assert isinstance(said, Raised)
    assert "cannot be shown" in said.message
    assert len(judge(ValueError("é" * MAX_TEXT_BYTES), "t").message.encode()) <= MAX_TEXT_BYTES


def test_attributes_that_raise_are_no_headers() -> None:
    class Hostile(Exception):
        @property
        def headers(self) -> Any:
            raise RuntimeError("not today")

    said = judge(Hostile("x"), "t")
    assert isinstance(said, Raised)
    assert said.retry_after_ms is None
