"""Texts that are no JSON, or JSON of more than one meaning; each with the code that it is refused with."""

from __future__ import annotations

BAD_JSON: dict[str, tuple[bytes, str]] = {
    name: (text, "bad_json")
    for name, text in {
        "half": b'{"a": ',
        "two values": b"1 2",
        "single quotes": b"{'a': 1}",
        "trailing comma": b"[1,]",
        "NaN": b"[NaN]",
        "Infinity": b'{"a": -Infinity}',
        "a number that overflows": b"[1e400]",
        "an integer of 5,000 digits": b"[" + b"9" * 5000 + b"]",
        "a key twice": b'{"a": 1, "a": 2}',
        "a key twice, deep": b'{"x": [{"b": {"a": 1, "c": 0, "a": 1}}]}',
        "a key twice, once escaped": b'{"a": 1, "\\u0061": 2}',
        "Latin-1": b'{"a": "\xe9"}',
        "UTF-16": '{"a": 1}'.encode("utf-16"),
        "a byte order mark": b"\xef\xbb\xbf{}",
        "a control character": b'{"a": "\x01"}',
        "a comment": b'{"a": 1 /* no */}',
        "surrogates as bytes": b'{"a": "\xed\xa0\x80"}',
        "open brackets": b"[" * 60,
    }.items()
} | {
    "71 deep": (b"[" * 71 + b"]" * 71, "json_too_deep"),
    "1,000 deep": (b'{"a":' * 1000 + b"1" + b"}" * 1000, "json_too_deep"),
    "100,000 deep": (b"[" * 30_000 + b"]" * 30_000, "json_too_deep"),
}
