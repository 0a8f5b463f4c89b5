"""Companies and their keys on both databases: what is revoked opens nothing, who is stopped does nothing anywhere."""

from __future__ import annotations

import pytest

from engine_bench import Bench
from perdure.core.companies import CompanyStopped
from perdure.core.rooms import Actor, Invite, Join, Leave, Post, Stop
from perdure.engine.companies import (
    RevokeKey,
    StopCompany,
    Stopped,
    companies_view,
    key_view,
    revoke_key,
    stop_company,
)
from perdure.engine.keys import AddKey, Principal, add_key, principal_of
from perdure.engine.logins import AddLink, Redeem, add_link, redeem, session_of
from perdure.engine.rooms_stops import (
    STOPPED,
    HaltWake,
    Start,
    Started,
    Whom,
    halt_wake,
    start_in_room,
    stop_on,
    stops_view,
)
from perdure.errors import Conflict, NotFound
from perdure.store.protocol import Reads
from room_bench import ACME, ANN, BOB, GLOBEX, RoomBench

ADMIN = Actor("default", "admin")


@pytest.fixture
def room(room: RoomBench) -> RoomBench:
    room.agent(BOB, "bot")
    return room


def second(room: RoomBench) -> str:
    """Make another room of both companies, with the agent in it."""
    other = room.make("another")
    room.write(ANN, Invite(GLOBEX), other)
    room.write(BOB, Join(), other)
    return other


def told(room: RoomBench, company: str = GLOBEX, actor: Actor = BOB, *, lift: bool = False) -> CompanyStopped:
    done = room.bench.do(stop_company, StopCompany(company, actor, "too loud", lift))
    assert isinstance(done, Stopped)
    assert not done.left
    return done.told


def test_a_stopped_company_does_nothing_in_any_room_nor_in_one_it_comes_into(room: RoomBench) -> None:
    other = second(room)
    assert told(room) == CompanyStopped(GLOBEX, True, 2, 0)
    assert told(room) == CompanyStopped(GLOBEX, False, 0, 0)
    third = room.make("a third")
    room.write(ANN, Invite(GLOBEX), third)
    room.write(BOB, Join(), third)
    for where in (room.room, other, third):
        refused = room.write(BOB, Post("hello", key=where), where)
        assert isinstance(refused, Conflict), refused
        assert refused.code == STOPPED
        assert "globex was stopped in all rooms by globex/bob: too loud" in refused.message
        assert room.write(ANN, Post("hello", key=where), where).created
    assert told(room, lift=True) == CompanyStopped(GLOBEX, True, 3, 0)
    assert told(room, lift=True) == CompanyStopped(GLOBEX, False, 0, 0)
    assert room.write(BOB, Post("hello", key="now")).created


def test_the_ledger_of_each_room_says_who_stopped_whom_and_members_see_it(room: RoomBench) -> None:
    told(room, actor=ADMIN)
    assert room.acts()[-1] == "stopped"

    def look(reads: Reads) -> list[tuple[str, str, bool]]:
        reads.speak_for(ACME)
        return [(one.member, one.by, one.everywhere) for one in stops_view(reads, room.room)]

    assert room.bench.read(look) == [(GLOBEX, "default/admin", True)]
    told(room, actor=ADMIN, lift=True)
    assert room.acts()[-1] == "started"
    assert room.bench.read(look) == []


@pytest.mark.parametrize("first", [False, True], ids=["by the admin alone", "by itself before"])
def test_what_whoever_runs_the_server_has_stopped_a_company_does_not_let_go_on(room: RoomBench, first: bool) -> None:
    """A key that leaked stops and starts like every other one of its company's."""
    if first:
        told(room)
    assert told(room, actor=ADMIN).changed
    refused = room.bench.do(stop_company, StopCompany(GLOBEX, BOB, lift=True))
    assert isinstance(refused, Conflict)
    assert (refused.code, "default alone lets it go on" in refused.message) == ("not_yours", True)
    assert room.write(BOB, Post("hello", key="k")).code == STOPPED
    assert told(room).changed is False, "nor is it its own by its saying it, too"
    assert isinstance(room.bench.do(stop_company, StopCompany(GLOBEX, BOB, lift=True)), Conflict)
    assert told(room, actor=ADMIN, lift=True).changed
    assert room.write(BOB, Post("hello", key="k")).created


@pytest.mark.parametrize("first", [False, True], ids=["by the host alone", "by itself before"])
@pytest.mark.parametrize("member", [GLOBEX, f"{GLOBEX}/bot"])
def test_what_the_host_has_stopped_a_company_does_not_let_go_on(room: RoomBench, member: str, first: bool) -> None:
    if first:
        assert room.write(BOB, Stop(member)).created
    assert room.write(ANN, Stop(member)).created
    refused = room.bench.do(start_in_room, Start(room.room, BOB, member))
    assert isinstance(refused, Conflict)
    assert (refused.code, "stopped by acme/ann" in refused.message) == ("not_yours", True)
    assert not room.write(BOB, Stop(member)).created
    assert isinstance(room.bench.do(start_in_room, Start(room.room, BOB, member)), Conflict)
    assert isinstance(room.bench.do(start_in_room, Start(room.room, ANN, member)), Started)
    room.write(BOB, Stop(member))
    assert isinstance(room.bench.do(start_in_room, Start(room.room, BOB, member)), Started), "its own stop it lifts"


def test_wakes_that_it_paused_go_on_in_all_rooms_but_where_another_stop_holds(room: RoomBench) -> None:
    other = second(room)
    room.write(ANN, Stop(GLOBEX), other)
    told(room)
    room.post(ANN, "@bot", key="k")
    [wake] = room.woken()
    halted = HaltWake(wake.ref, wake.fence, room.room, Whom(GLOBEX, "bot"), STOPPED, "it was stopped")
    room.bench.do(halt_wake, halted)
    assert room.bench.state(wake.ref.execution) == ("paused", "parked")
    assert told(room, lift=True).wakes == 1
    assert room.bench.state(wake.ref.execution) == ("ready", "ready")

    def look(reads: Reads) -> tuple[str, str]:
        reads.speak_for(GLOBEX)
        return stop_on(reads, room.room, GLOBEX, "bot"), stop_on(reads, other, GLOBEX, "bot")

    here, there = room.bench.read(look)
    assert (here, "was stopped by acme/ann" in there) == ("", True)


def test_a_wake_that_was_let_go_of_in_good_order_and_then_stopped_was_taken_from_nobody(room: RoomBench) -> None:
    """One that is taken over is carried on by nobody where its agent wants that."""
    room.post(ANN, "@bot", key="k")
    [wake] = room.woken()
    room.bench.do(halt_wake, HaltWake(wake.ref, wake.fence, room.room, Whom(GLOBEX, "bot"), STOPPED, "it is over"))
    assert room.bench.state(wake.ref.execution) == ("running", "ready")
    room.write(ANN, Stop())
    assert room.bench.state(wake.ref.execution) == ("paused", "parked")
    assert "taken_over" not in room.bench.kinds(wake.ref.execution)


def test_a_company_that_is_in_no_room_is_stopped_too(room: RoomBench) -> None:
    room.write(BOB, Leave())
    assert told(room) == CompanyStopped(GLOBEX, True, 0, 0)
    room.write(ANN, Invite(GLOBEX))
    room.write(BOB, Join())
    assert isinstance(room.write(BOB, Post("back", key="k")), Conflict)


def test_a_revoked_key_opens_nothing_and_ends_the_sessions_of_whose_it_was(bench: Bench) -> None:
    ann, bob = Principal(ACME, "ann"), Principal(ACME, "bob")
    for who in (ann, bob):
        bench.do(add_key, AddKey(who.company, who.name, f"pdk_{who.name}"))
        bench.do(add_link, AddLink(who, f"pdl_{who.name}"))
        assert bench.do(redeem, Redeem(f"pdl_{who.name}", f"pds_{who.name}")) == who
    bench.do(add_link, AddLink(ann, "pdl_more"))
    [company] = bench.read(companies_view)
    assert [key.name for key in company.keys] == ["ann", "bob"], "links and sessions are no keys"
    id = company.keys[0].id
    first, again = bench.twice(revoke_key, RevokeKey(ACME, id))
    assert first == again
    assert not isinstance(first, NotFound)
    assert first.revoked_ms is not None
    assert bench.read(lambda reads: principal_of(reads, "pdk_ann")) is None
    assert bench.read(lambda reads: session_of(reads, "pds_ann", 0)) is None
    assert bench.do(redeem, Redeem("pdl_more", "pds_more")) is None
    assert bench.read(lambda reads: principal_of(reads, "pdk_bob")) == bob
    assert bench.read(lambda reads: session_of(reads, "pds_bob", 0)) == bob
    for wrong in (RevokeKey(GLOBEX, id), RevokeKey(ACME, "nothing")):
        assert isinstance(bench.do(revoke_key, wrong), NotFound)


def test_a_key_that_was_anothers_or_was_revoked_is_not_given_again(bench: Bench) -> None:
    bench.do(add_key, AddKey(ACME, "ann", "pdk_a"))
    bench.do(add_key, AddKey(GLOBEX, "bob", "pdk_a"))
    assert isinstance(bench.read(lambda reads: key_view(reads, GLOBEX, "pdk_a")), Conflict)
    view = bench.read(lambda reads: key_view(reads, ACME, "pdk_a"))
    assert not isinstance(view, Conflict)
    assert view.name == "ann"
    bench.do(revoke_key, RevokeKey(ACME, view.id))
    assert isinstance(bench.read(lambda reads: key_view(reads, ACME, "pdk_a")), Conflict)
