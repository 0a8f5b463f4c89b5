"""Which agents there are, and what each has been, on both databases."""

from __future__ import annotations

from itertools import count

import pytest

from engine_bench import COMPANY, Bench
from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.functions import function_spec
from perdure.core.work import FunctionLane
from perdure.engine.agents import AgentPage, VersionPage, agents_page, versions_page
from perdure.engine.start import Start, start
from perdure.engine.sweep import tell_time
from perdure.errors import InvalidInput

NUMBERS = count()


def agent(name: str, instructions: str = "", *tools: str) -> dict[str, Json]:
    return {
        "name": name,
        "model": "scripted/x",
        "instructions": instructions,
        "tools": [{"name": one} for one in tools],
    }


def begin(bench: Bench, name: str, spec: dict[str, Json], company: str = COMPANY) -> None:
    """Begin an execution of a definition, which is stored then."""
    id = f"exe_agents_{next(NUMBERS)}"
    bench.do(start, Start(id, company, name, codec.digest(spec), codec.encode(spec), '"hi"', None))


def later(bench: Bench) -> None:
    """Return when it is later by the store's clock."""
    before_ms = bench.do(tell_time, None)
    bench.clock.advance(60)
    while bench.do(tell_time, None) <= before_ms:
        continue


def agents(bench: Bench, cursor: str | None = None, limit: int = 50) -> AgentPage:
    return bench.read(lambda reads: agents_page(reads, COMPANY, cursor=cursor, limit=limit))


def versions(bench: Bench, name: str, cursor: str | None = None, limit: int = 50) -> VersionPage:
    return bench.read(lambda reads: versions_page(reads, COMPANY, name, cursor=cursor, limit=limit))


def test_each_agent_is_told_once_as_it_is_now(bench: Bench) -> None:
    assert agents(bench).items == ()
    begin(bench, "desk", agent("desk", "Help.", "look_up"))
    begin(bench, "desk", agent("desk", "Help.", "look_up"))
    later(bench)
    begin(bench, "desk", agent("desk", "Help well.", "look_up", "refund"))
    begin(bench, "onboard", function_spec(FunctionLane("onboard", "b1")))
    begin(bench, "guest", {"kind": "wake", "on_crash": "resume", "agent": agent("guest")})
    begin(bench, "theirs", agent("theirs"), company="other")
    desk, guest, onboard = agents(bench).items
    assert (desk.name, desk.kind, desk.model, desk.tools, desk.versions) == (
        "desk",
        "agent",
        "scripted/x",
        ("look_up", "refund"),
        2,
    )
    assert (guest.name, guest.kind, guest.model, guest.versions) == ("guest", "room", "scripted/x", 1)
    assert (onboard.name, onboard.kind, onboard.model, onboard.tools) == ("onboard", "function", "", ())


def test_what_an_agent_has_been_is_told_newest_first(bench: Bench) -> None:
    for number in range(3):
        begin(bench, "desk", agent("desk", f"Version {number}."))
    found = versions(bench, "desk").items
    assert sorted(str(one.spec["instructions"]) for one in found) == ["Version 0.", "Version 1.", "Version 2."]
    assert [(one.created_ms, one.digest) for one in found] == sorted(
        ((one.created_ms, one.digest) for one in found), reverse=True
    )
    assert found[0].digest == agents(bench).items[0].digest
    assert versions(bench, "nobody").items == ()


def test_pages_hold_each_once(bench: Bench) -> None:
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        for number in range(3):
            begin(bench, name, agent(name, str(number)))
    seen: list[str] = []
    page = agents(bench, limit=2)
    while page.cursor:
        seen += [one.name for one in page.items]
        page = agents(bench, page.cursor, 2)
    assert [*seen, *(one.name for one in page.items)] == names
    first = versions(bench, "c", limit=2)
    second = versions(bench, "c", first.cursor, 2)
    assert second.cursor is None
    assert len({one.digest for one in (*first.items, *second.items)}) == 3


@pytest.mark.parametrize("cursor", ["x", "1", "1 ", "-1 a", "9999999999999999999 a", "1 a b"])
def test_a_cursor_that_no_page_gave_is_refused(bench: Bench, cursor: str) -> None:
    with pytest.raises(InvalidInput):
        versions(bench, "desk", cursor)
