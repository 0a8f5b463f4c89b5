"""What can be a message, whom to tell, and what may be said of an agent."""

from __future__ import annotations

import pytest

from perdure.core.a2a import (
    MOST_CREDENTIALS,
    MOST_DESCRIPTION,
    MOST_LETTERS,
    MOST_URL,
    A2aMessage,
    PushConfig,
    check_description,
    check_message,
    check_push,
)
from perdure.errors import InvalidInput

PUSH = PushConfig("p1", "https://x.example:8443/told?by=us", "token", "Bearer", "secret")


def test_what_fits_is_taken() -> None:
    check_message(A2aMessage("m1", "hi", context="c1", push=PUSH))
    check_message(A2aMessage("m" * MOST_LETTERS, ""))
    check_description("é" * MOST_DESCRIPTION)


@pytest.mark.parametrize("id", ["", "m" * (MOST_LETTERS + 1), "a\nb", "a\0b", "\ud800"])
def test_a_name_that_is_none_is_refused(id: str) -> None:
    for message in (A2aMessage(id, "hi"), A2aMessage("m1", "hi", context=id or "\n")):
        with pytest.raises(InvalidInput):
            check_message(message)
    with pytest.raises(InvalidInput):
        check_push(PushConfig(id, PUSH.url))


@pytest.mark.parametrize(
    "url",
    [
        *("", "x", "ftp://x.example/", "http://", "https://user:pass@x.example/", "http://x.example:99999/"),
        *("http://x.example:0/", "http://x.example/ä", "http://x.example/\n", "http://[::1/"),
        "https://x.example/" + "x" * MOST_URL,
    ],
)
def test_an_address_that_nobody_is_told_at_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_push(PushConfig("p1", url))
    assert refused.value.code == "bad_push"


@pytest.mark.parametrize("text", ["a\r\nb: c", "ä", " a", "x" * (MOST_CREDENTIALS + 1)])
def test_what_no_header_carries_is_refused(text: str) -> None:
    for push in (PushConfig("p1", PUSH.url, token=text), PushConfig("p1", PUSH.url, "", "Bearer", text)):
        with pytest.raises(InvalidInput) as refused:
            check_push(push)
        assert text.strip() == "a" or text not in refused.value.message, "it may be a secret"


@pytest.mark.parametrize("text", ["x" * (MOST_DESCRIPTION + 1), "\0"])
def test_a_description_has_its_bounds(text: str) -> None:
    with pytest.raises(InvalidInput):
        check_description(text)
