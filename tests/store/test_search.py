"""Executions are found by a text, and counted by when they were begun, on both databases, in bounds."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import AGENT, COMPANY, Bench
from perdure.core.ids import id_of
from perdure.core.views import ExecutionFilter, FoundPage
from perdure.engine import recent, search
from perdure.engine.park import Finish, finish
from perdure.engine.recent import PARTS, Recent, recent_of
from perdure.engine.search import check_text, found_page
from perdure.errors import InvalidInput

HOUR_MS = 3_600_000


def page(bench: Bench, text: str, cursor: str | None = None, limit: int = 50, **wanted: Any) -> FoundPage:
    return bench.read(
        lambda reads: found_page(reads, COMPANY, ExecutionFilter(**wanted), text, cursor=cursor, limit=limit)
    )


def found(bench: Bench, text: str, limit: int = 50, **wanted: Any) -> list[str]:
    """Return what a search holds, read to its end."""
    ids: list[str] = []
    cursor = None
    while True:
        one = page(bench, text, cursor, limit, **wanted)
        ids += [item.id for item in one.items]
        cursor = one.cursor
        if cursor is None:
            return ids


def test_a_text_is_found_in_the_input_the_agent_a_tag_and_the_id_whatever_its_case(bench: Bench) -> None:
    order = bench.started(input='{"text":"Ärger with order 1234","note":"a \\"quoted\\" word"}')
    tagged = bench.started(tags=("customer:1234",))
    bench.started(input='"order 1234"', company="other")
    plain = bench.started(input='"nothing"')
    assert found(bench, "ORDER 1234") == found(bench, "ärger") == found(bench, '"quoted"') == [order]
    assert found(bench, "1234") == [tagged, order]
    assert found(bench, AGENT[1:].upper()) == [plain, tagged, order]
    assert found(bench, plain[-4:]) == [plain]
    assert found(bench, "nobody") == []


def test_only_what_was_given_counts_as_input(bench: Bench) -> None:
    bench.started(by="ann", input='"hi"')
    assert found(bench, "definition") == found(bench, "ann") == []


def test_the_beginning_of_a_long_input_is_searched(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BEGINNING", 500)
    long = bench.started(input=f'"early {"x" * 1_000} late"')
    assert found(bench, "early x") == [long]
    assert found(bench, "x late") == []


def test_what_begins_an_id_is_found_by_an_index_and_nothing_else_is(bench: Bench) -> None:
    at_ms = bench.clock.wall_ms()
    ids = [bench.started(id=id_of("exe", at_ms + n, bytes([n]) * 10)) for n in range(3)]
    bench.started(input=f'"see {ids[0]}"')
    assert found(bench, ids[0]) == found(bench, ids[0].upper()) == [ids[0]]
    assert found(bench, ids[1][:10], limit=1) == ids[::-1]
    assert found(bench, ids[0], state="completed") == []
    assert found(bench, ids[0] + "x") == []
    assert page(bench, ids[2]).looked_at == 1
    assert len(found(bench, "exe_")) == 4


def test_a_text_goes_with_state_agent_tag_and_time(bench: Bench) -> None:
    paused = bench.started(input='"order 7"', tags=("a",))
    ready = bench.started(input='"order 7"')
    bench.signal(paused, "pause")
    assert found(bench, "order", state="paused") == found(bench, "order", tag="a") == [paused]
    assert found(bench, "order", agent=AGENT, state="ready") == [ready]
    assert found(bench, "order", agent="nobody") == found(bench, "order", since_ms=2**48) == []


def test_a_page_looks_at_so_many_and_goes_on_behind_them(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_LOOKED_AT", 4)
    monkeypatch.setattr(search, "_STRIDE", 2)
    ids = [bench.started(input=f'"number {n}"') for n in range(10)]
    first = page(bench, "number 1")
    assert (first.items, first.looked_at) == ((), 4)
    assert first.cursor == ids[6]
    assert found(bench, "number 1") == [ids[1]]
    assert found(bench, "number", limit=3) == ids[::-1]


@pytest.mark.parametrize("text", ["", "  ", "x" * 201, "a\0b", "\ud800"])
def test_what_cannot_be_looked_for_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        check_text(text)


def begun(bench: Bench, now_ms: int, hours: int = 24) -> Recent:
    return bench.read(lambda reads: recent_of(reads, COMPANY, now_ms, hours))


def late(number: int) -> str:
    """Return an id that is not too old to be looked for, whatever the store's clock says."""
    return id_of("exe", 2**48 - 1, bytes([number]) * 10)


def test_what_was_begun_lately_is_counted_by_when(bench: Bench) -> None:
    failing = bench.owned(id=late(1))
    bench.do(finish, Finish(failing.ref, failing.fence, 1, 0, "fail", '{"code":"x","error":"x"}'))
    bench.started(id=late(2))
    bench.started(company="other", id=late(3))
    now_ms = bench.execution(bench.started(id=late(4)))["created_ms"]
    seen = begun(bench, now_ms)
    assert (seen.part_ms, len(seen.begun), len(seen.failed)) == (24 * HOUR_MS // PARTS, PARTS, PARTS)
    assert seen.from_ms == seen.known_from_ms == now_ms - 24 * HOUR_MS
    assert (seen.begun[-1], seen.failed[-1]) == (sum(seen.begun), sum(seen.failed)) == (3, 1)
    an_hour_on = begun(bench, now_ms + HOUR_MS + 5)
    assert (an_hour_on.begun[-3], an_hour_on.failed[-3]) == (sum(an_hour_on.begun), 1) == (3, 1)
    assert sum(begun(bench, now_ms + 25 * HOUR_MS).begun) == 0
    assert sum(begun(bench, now_ms + 25 * HOUR_MS, 48).begun) == 3


def test_a_count_of_what_was_begun_has_a_bound_and_says_from_when_it_is_whole(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "MOST_COUNTED", 2)
    ids = [bench.started(id=late(number)) for number in range(4)]
    seen = begun(bench, bench.execution(ids[3])["created_ms"], 1)
    assert sum(seen.begun) == 2
    assert seen.known_from_ms == bench.execution(ids[2])["created_ms"]
