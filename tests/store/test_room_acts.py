"""What a wake does in its room, on both databases: with its record or not at all, once, and under its fence alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure.core import codec
from perdure.core.events import Kind
from perdure.core.items import ActInRoom
from perdure.core.rooms import MOST_HOPS, Act, Actor, EndWake, Leave, OpenTask, Post, Remember, RemoveAgent
from perdure.engine.claim import Claimed
from perdure.engine.query import events_of
from perdure.engine.record import Record, record
from perdure.engine.rooms_read import memory_view, room_task_view, tasks_view
from perdure.engine.rooms_wake_acts import Acts, act_in_room
from perdure.engine.signal import Signal, signal
from perdure.errors import InternalError, InvalidInput, LeaseLost, NotFound
from room_bench import ACME, ANN, BOB, EVERYTHING, GLOBEX, RoomBench


@pytest.fixture
def room(room: RoomBench) -> RoomBench:
    room.agent(BOB, "bot")
    return room


@pytest.fixture
def wake(room: RoomBench) -> Claimed:
    """A wake of globex's bot that this process holds."""
    room.post(ANN, "@bot", key="k")
    [held] = room.woken()
    return held


def item(room: RoomBench, wake: Claimed, act: Act, address: str = "reply", *, hops: int = 1) -> ActInRoom:
    actor = Actor(GLOBEX, "bot", "agent", wake.ref.execution, "msg_1", "acme/ann", hops)
    return ActInRoom(address, codec.digest(address), room.room, actor, act)


def act(room: RoomBench, wake: Claimed, *items: ActInRoom, seen: int | None = None) -> Any:
    return room.bench.do(act_in_room, Acts(wake.ref, wake.fence, seen or wake.last_seq, items))


def values(found: Any) -> list[dict[str, Any]]:
    return [event.data["value"] for event in events_of(found.events)]


def test_an_act_and_its_record_are_one(room: RoomBench, wake: Claimed) -> None:
    [value] = values(act(room, wake, item(room, wake, Post("hi", key="r"))))
    assert room.texts() == ["@bot", "hi"]
    assert value["seq"] == room.ledger().last_seq
    assert room.bench.last(wake.ref.execution).address == "reply"
    said = codec.decode(room.ledger().links[-1].data)
    assert (said["by"], said["company"], said["kind"], said["woken_by"], said["asked_by"]) == (
        *("bot", GLOBEX, "agent"),
        *("msg_1", "acme/ann"),
    )


def test_acts_that_are_asked_for_together_are_done_in_order(room: RoomBench, wake: Claimed) -> None:
    acts = [item(room, wake, Post(str(n), key=str(n)), f"act {n}") for n in range(3)]
    assert [one["created"] for one in values(act(room, wake, *acts))] == [True] * 3
    assert room.texts() == ["@bot", "0", "1", "2"]


def test_an_act_whose_answer_was_lost_is_not_done_again(room: RoomBench, wake: Claimed) -> None:
    first = act(room, wake, item(room, wake, Post("hi", key="one")))
    again = act(room, wake, item(room, wake, Post("hi", key="another")))
    assert values(again) == values(first)
    assert room.texts() == ["@bot", "hi"]


def test_an_old_holder_does_nothing(room: RoomBench, wake: Claimed) -> None:
    found = act(room, replace(wake, fence=wake.fence - 1), item(room, wake, Post("hi", key="r")))
    assert isinstance(found, LeaseLost)
    assert room.texts() == ["@bot"]


def test_after_a_cancel_nothing_is_done_any_more(room: RoomBench, wake: Claimed) -> None:
    room.bench.do(signal, Signal(GLOBEX, wake.ref.execution, "cancel", "bob"))
    events = events_of(act(room, wake, item(room, wake, Post("hi", key="r"))).events)
    assert [event.kind for event in events] == [Kind.CANCEL_REQUESTED, Kind.STEP_RECORDED]
    assert events[-1].data["value"]["refused"] == "cancelled"
    assert room.texts() == ["@bot"]


def test_what_cannot_be_done_is_refused_and_recorded(room: RoomBench, wake: Claimed) -> None:
    acts: list[Act] = [
        Post("x", ("nobody",), key="1"),
        Post("x", thread="msg_x", key="2"),
        OpenTask("x", ACME, thread="msg_x", key="3"),
        Remember("x", source="msg_x", key="4"),
        Remember("x", ("nobody",), key="5"),
    ]
    found = act(room, wake, *(item(room, wake, one, f"act {n}") for n, one in enumerate(acts)))
    assert [one["refused"] for one in values(found)] == [
        *("no_such_member", "not_found"),
        *("not_found", "not_found", "no_such_member"),
    ]
    assert room.acts()[-5:] == ["act_refused"] * 5


def test_an_agent_that_was_taken_out_acts_no_more_but_for_its_end(room: RoomBench, wake: Claimed) -> None:
    room.write(BOB, RemoveAgent("bot"))
    refused, ended = item(room, wake, Post("hi", key="r")), item(room, wake, EndWake("ended"), "end")
    assert ["refused" in one for one in values(act(room, wake, refused, ended))] == [True, False]
    assert room.acts()[-2:] == ["act_refused", "wake_ended"]


def test_an_agent_whose_company_left_leaves_no_line_any_more(room: RoomBench, wake: Claimed) -> None:
    room.write(BOB, Leave())
    before = len(room.ledger().links)
    found = act(room, wake, item(room, wake, Post("hi", key="r")), item(room, wake, EndWake("ended"), "end"))
    assert [one["refused"] for one in values(found)] == ["not_found", "not_found"]
    assert len(room.ledger().links) == before


def test_after_so_many_wakes_in_a_row_nobody_is_woken(room: RoomBench, wake: Claimed) -> None:
    room.agent(ANN, "scribe")
    acts = [item(room, wake, Post("@scribe", key=str(n)), f"act {n}", hops=n) for n in (MOST_HOPS - 1, MOST_HOPS)]
    assert [len(one["woken"]) for one in values(act(room, wake, *acts))] == [1, 0]
    assert codec.decode(room.ledger().links[-1].data)["wakes"] is False


def test_a_log_takes_no_act_but_with_what_it_does(room: RoomBench, wake: Claimed) -> None:
    with pytest.raises(InternalError):
        room.bench.do(record, Record(wake.ref, wake.fence, wake.last_seq, (item(room, wake, Post("hi")),)))


def test_tasks_are_found_by_state_and_by_whom_they_are_for(room: RoomBench) -> None:
    for to in (GLOBEX, f"{GLOBEX}/bot", ACME):
        room.write(ANN, OpenTask(f"for {to}", to, key=to))

    def found(**wanted: str) -> list[str]:
        return [one.to for one in room.read(tasks_view, ACME, EVERYTHING, **wanted)]

    assert found() == [GLOBEX, f"{GLOBEX}/bot", ACME]
    assert found(to=GLOBEX) == [GLOBEX, f"{GLOBEX}/bot"]
    assert found(to=f"{GLOBEX}/bot", state="open") == [f"{GLOBEX}/bot"]
    assert found(to="nobody") == found(state="done") == []
    with pytest.raises(InvalidInput, match="there is no state 'new'"):
        found(state="new")
    with pytest.raises(NotFound):
        room.read(room_task_view, ACME, "rtk_nowhere")


def test_a_line_names_who_reads_it_to_those_who_do(room: RoomBench) -> None:
    room.write(ANN, Remember("ours", (GLOBEX,), key="1"))
    [seen] = room.read(memory_view, GLOBEX, EVERYTHING)
    assert seen.readers == (ACME, GLOBEX)
