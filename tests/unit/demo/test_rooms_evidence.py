"""What the rooms demo claims is looked at, not assumed: a story in which something went wrong does not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure.core.room_views import MemoryView, MessageView, WakeView
from perdure.core.views import ApprovalView
from perdure.demo.processes import Life
from perdure.demo.rooms_document import rooms_document
from perdure.demo.rooms_evidence import in_flight, judge_rooms
from perdure.demo.rooms_story import Line, RoomsPlan, RoomsStory, Verified
from perdure.testing.evidence import MODEL_REQUEST, Entry

WAKES = {"acme/planner": ("exe_1", "exe_3"), "globex/supplier": ("exe_2",)}


def line(seq: int, act: str, by: str, **said: Any) -> Line:
    company, _, name = by.partition("/")
    own = {"execution": "exe_2"} if by == "globex/supplier" else {}
    return Line(
        seq,
        f"room_{act.replace(' ', '_')}",
        f"x{seq}",
        {"company": company, "by": name, **own, **said},
        1_000 + seq,
        f"h{seq}",
    )


def message(id: str, author: str) -> MessageView:
    company, _, name = author.partition("/")
    return MessageView(id, 1, company, name, "agent" if author in WAKES else "person", "text", (), "", 0)


def asked(execution: str, model: str) -> Entry:
    return Entry(1, 0, MODEL_REQUEST, execution, "turn 1/model", body={"model": model})


def story() -> RoomsStory:
    """Return one in which all went right."""
    before = (line(1, "posted", "acme/ann"), line(2, "posted", "globex/supplier"))
    rest = ("remembered", "task changed", "act held")
    after = [line(seq, act, "globex/supplier") for seq, act in enumerate(rest, 3)]
    after.append(line(9, "task opened", "globex/supplier", decision="approved", on_word_of="globex/bob"))
    after.append(line(10, "wake ended", "globex/supplier"))
    authors = ("acme/ann", "acme/planner", "globex/supplier", "acme/planner")
    return RoomsStory(
        plan=RoomsPlan(Path("/nowhere")),
        room="room_1",
        lives=(Life("server", 1, "", 0, 0, 5, killed=True), Life("server", 2, "", 6, 7, 9)),
        at_death=before,
        lines=(*before, *after),
        messages=tuple(message(f"m{number}", author) for number, author in enumerate(authors)),
        memory={"acme": (), "globex": (MemoryView("mem", 1, "globex", "supplier", "x", ("globex",), "", 0),)},
        wakes=tuple(
            WakeView(*who.split("/"), f"c{id}", id, "completed", 0)  # type: ignore[call-arg] - two names
            for who, ids in WAKES.items()
            for id in ids
        ),
        asked=(
            asked("exe_1", "scripted/planner"),
            asked("exe_2", "scripted/supplier"),
            asked("exe_3", "scripted/planner"),
        ),
        approvals=(
            ApprovalView("a", "exe_2", "supplier", "", "", {}, "", "resolved", 0, "approve", "bob", decided_ms=1_005),
        ),
        verified=Verified(0, "✓", "2:h2", 0),
        began_ms=0,
        ended_ms=9_000,
    )


def test_a_story_in_which_all_went_right_holds() -> None:
    claims = judge_rooms(story())
    assert [claim.says for claim in claims if not claim.holds] == []
    assert rooms_document(story(), claims)["ok"]
    assert "replied no second time, asked its model no second time" in in_flight(story())


WRONG: dict[str, Callable[[RoomsStory], RoomsStory]] = {
    "the server died by itself": lambda one: replace(one, lives=(replace(one.lives[0], killed=False), one.lives[1])),
    "it was killed too late": lambda one: replace(one, at_death=one.lines),
    "a reply twice": lambda one: replace(one, lines=(*one.lines, line(11, "posted", "globex/supplier"))),
    "a line left out": lambda one: replace(one, lines=tuple(it for it in one.lines if it.act != "remembered")),
    "a message twice": lambda one: replace(one, messages=(*one.messages, message("m9", "globex/supplier"))),
    "a wake that has not ended": lambda one: replace(one, wakes=(replace(one.wakes[0], state="stuck"), *one.wakes[1:])),
    "a wake too many": lambda one: replace(one, wakes=(*one.wakes, one.wakes[0])),
    "a request twice": lambda one: replace(one, asked=(*one.asked, one.asked[1])),
    "another's model": lambda one: replace(one, asked=(*one.asked[:2], asked("exe_3", "scripted/supplier"))),
    "somebody else's word": lambda one: replace(one, approvals=(replace(one.approvals[0], decided_by="eve"),)),
    "before the word": lambda one: replace(one, approvals=(replace(one.approvals[0], decided_ms=9_999),)),
    "against the word": lambda one: replace(one, approvals=(replace(one.approvals[0], decision="reject"),)),
    "a line that others see": lambda one: replace(one, memory={**one.memory, "acme": one.memory["globex"]}),
    "a ledger that was changed": lambda one: replace(one, verified=replace(one.verified, code=1)),
    "a server that still runs": lambda one: replace(one, verified=replace(one.verified, servers=1)),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_story_in_which_something_went_wrong_does_not(what: str) -> None:
    broken = WRONG[what](story())
    claims = judge_rooms(broken)
    assert not all(claim.holds for claim in claims)
    assert not rooms_document(broken, claims)["ok"]


def test_the_line_about_what_was_in_flight_counts_and_does_not_promise() -> None:
    twice = replace(story(), lines=(*story().lines, line(11, "posted", "globex/supplier")))
    assert "replied 1 more times" in in_flight(twice)
