"""Who follows a log keeps no more of what it has not read than a page, whatever is told meanwhile."""

from __future__ import annotations

from typing import Any

from perdure.engine.query import PAGE, PAGE_BYTES
from perdure.server.heard import Heard


def row(seq: int, data: str = "{}") -> dict[str, Any]:
    return {"seq": seq, "kind": "message", "address": "", "digest": "", "data": data, "at_ms": 1}


def seqs(heard: Heard, after: int) -> list[int]:
    return [event.seq for event in heard.after(after)]


def test_what_follows_without_a_gap_is_given_once() -> None:
    heard = Heard()
    heard.take([row(2), row(3)])
    heard.take([row(4), row(6)])
    assert seqs(heard, 2) == [3, 4]
    assert seqs(heard, 4) == []
    assert heard
    assert seqs(heard, 5) == [6]
    assert not heard


def test_a_slow_reader_keeps_a_page_and_finds_a_gap() -> None:
    heard = Heard()
    for seq in range(1, 3 * PAGE + 1):
        heard.take([row(seq)])
    assert seqs(heard, 0) == [], "what was dropped is missing, and is read from the log"
    assert len(seqs(heard, 2 * PAGE)) == PAGE


def test_large_values_count_by_their_size() -> None:
    heard = Heard()
    large = '{"text":"' + "x" * PAGE_BYTES + '"}'
    for seq in range(1, 11):
        heard.take([row(seq, large)])
    assert seqs(heard, 0) == []
    assert seqs(heard, 9) == [10], "one at a time, however large"
