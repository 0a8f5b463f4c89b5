"""Addresses as people write them."""

from __future__ import annotations

import pytest

from perdure.client.address import base_url, is_loopback
from perdure.errors import InvalidInput


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://localhost:6767", "http://localhost:6767"),
        ("http://localhost:6767/", "http://localhost:6767"),
        ("http://localhost:6767/api", "http://localhost:6767"),
        ("http://localhost:6767/api/", "http://localhost:6767"),
        ("http://localhost:6767/v1", "http://localhost:6767"),
        ("http://localhost:6767/api/v1/", "http://localhost:6767"),
        ("localhost:6767", "http://localhost:6767"),
        (" 127.0.0.1:6767/api ", "http://127.0.0.1:6767"),
        ("[::1]:6767", "http://[::1]:6767"),
        ("https://perdure.example.com", "https://perdure.example.com"),
        ("https://example.com/perdure/api", "https://example.com/perdure"),
        ("https://example.com/my-api", "https://example.com/my-api"),
        ("HTTP://LocalHost:6767", "http://localhost:6767"),
    ],
)
def test_all_ways_to_write_an_address_are_one(given: str, expected: str) -> None:
    assert base_url(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        "",
        "http://",
        "ftp://localhost",
        "file:///etc/passwd",
        "http://localhost:port",
        "http://localhost:99999",
        "http://user:secret@localhost:6767",
        "http://localhost:6767/?a=b",
        "http://localhost:6767/#x",
        "http://[::1",
    ],
)
def test_what_is_no_address_is_named(given: str) -> None:
    with pytest.raises(InvalidInput, match="http://localhost:6767") as caught:
        base_url(given)
    assert caught.value.code == "bad_address"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:1", True),
        ("http://127.0.0.1:1", True),
        ("http://127.8.8.8:1", True),
        ("http://[::1]:1", True),
        ("http://10.0.0.1", False),
        ("http://localhost.example.com", False),
    ],
)
def test_this_machine_is_known(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected
