"""Rights in a room on both databases: what is refused is not done, what is held waits for just this yes, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine_bench import file_bench_in
from perdure.core import codec
from perdure.core.items import ActInRoom, HoldAct
from perdure.core.rights import Hold, hold_from_json
from perdure.core.rooms import Act, Actor, ChangeTask, Invite, Join, Leave, OpenTask, Post, Remember, SetRights
from perdure.engine.claim import Claimed
from perdure.engine.expire import expire_approvals
from perdure.engine.query import approvals_of, events_of, execution_view
from perdure.engine.resolve import Decide, decide
from perdure.engine.rooms_read import memory_view, messages_view, tasks_view
from perdure.engine.rooms_rights import rights_view
from perdure.engine.rooms_snapshot import snapshot
from perdure.engine.rooms_wake_acts import Acts, act_in_room
from perdure.engine.sweep import Sweep
from perdure.errors import Conflict, NotFound
from room_bench import ACME, ANN, BOB, EVERYTHING, GLOBEX, STRANGER, RoomBench


@pytest.fixture
def room(room: RoomBench) -> RoomBench:
    room.agent(BOB, "bot")
    return room


class HeldWake:
    """A wake of globex's bot that this process holds, and what it asks for."""

    def __init__(
        self,
        room: RoomBench,
        *,
        steered: Sequence[str] = (ACME,),
        secrets: Sequence[tuple[str, tuple[str, ...]]] = (),
    ) -> None:
        room.post(ANN, "@bot", key=f"k{len(room.acts())}")
        [self.claimed] = room.woken()
        self.room = room
        self.id = self.claimed.ref.execution
        labels = tuple(steered), tuple(secrets)
        self.actor = Actor(GLOBEX, "bot", "agent", self.id, "msg_1", "acme/ann", 1, *labels)

    def do(self, act: Act, address: str = "act 1", approvals: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return what is recorded of an act."""
        item = ActInRoom(address, codec.digest(address), self.room.room, self.actor, act, approvals)
        return self._said(item)["value"]

    def ask(self, act: Act, hold: Hold, address: str = "act 1/yes") -> str:
        """Open an approval; return its id."""
        self._said(HoldAct(address, codec.digest(address), f"apr_{address}", self.room.room, self.actor, act, hold))
        return f"apr_{address}"

    def _said(self, item: ActInRoom | HoldAct) -> dict[str, Any]:
        acts = Acts(self.claimed.ref, self.claimed.fence, self.claimed.last_seq, (item,))
        news: Any = self.room.bench.do(act_in_room, acts)
        found = events_of(news.events)
        return next(event.data for event in found if event.address == item.address)

    def decide(self, approval: str, company: str, decision: Any = "approve", by: str = "ann", **more: Any) -> Any:
        return self.room.bench.do(decide, Decide(company, approval, decision, by, "", **more))

    @property
    def tasks(self) -> int:
        return self.room.acts().count("task_opened")


def say(room: RoomBench, actor: Actor, *rules: dict[str, Any], **roles: list[str]) -> Any:
    return room.write(actor, SetRights(codec.encode({"rules": list(rules), "roles": roles})))


def held_of(value: dict[str, Any]) -> list[Hold]:
    return [hold_from_json(one) for one in value["held"]]


WORK = OpenTask("buy 40 beams", ACME, key="t")


def test_what_a_rule_refuses_is_not_done_and_stands_in_the_ledger_and_before_the_next_wake(room: RoomBench) -> None:
    say(room, ANN, {"name": "quiet", "then": "refuse", "acts": ["post"], "who": "globex/bot"})
    wake = HeldWake(room)
    value = wake.do(Post("hi", key="r"))
    assert value["refused"] == "not_allowed"
    assert "refused by acme:quiet" in value["why"]
    assert room.texts() == ["@bot"]
    last = codec.decode(room.ledger().links[-1].data)
    assert (last["decision"], last["act"], last["rule"]) == ("refused", "Post", "acme:quiet")
    seen: Any = room.read(lambda reads, company, where: snapshot(reads, company, "bot", where, "msg_1"), GLOBEX)
    assert seen["not_done"] == [{"act": "Post", "why": "not_allowed", "rule": "acme:quiet"}]


def test_a_held_act_waits_for_its_yes_and_is_done_once(room: RoomBench) -> None:
    wake = HeldWake(room)
    [hold] = held_of(wake.do(WORK))
    assert (hold.company, hold.rule, wake.tasks) == (GLOBEX, "globex:default-steered", 0)
    approval = wake.ask(WORK, hold)
    [shown] = room.bench.read(lambda reads: approvals_of(reads, GLOBEX))
    assert (shown.tool, shown.args["title"], shown.args["by"]) == ("room.OpenTask", "buy 40 beams", "globex/bot")
    wake.decide(approval, GLOBEX, by="bob")
    done = wake.do(WORK, "act 1/2", ("act 1/yes",))
    assert done["created"]
    line = codec.decode(room.ledger().links[-1].data)
    assert (line["decision"], line["on_word_of"]) == ("approved", "globex/bob")
    again = wake.do(replace(WORK, key="another"), "act 2", ("act 1/yes",))
    assert again["refused"] == "not_approved"
    assert wake.tasks == 1


def test_a_yes_to_one_act_is_none_to_another(room: RoomBench) -> None:
    wake = HeldWake(room)
    [hold] = held_of(wake.do(WORK))
    wake.decide(wake.ask(WORK, hold), GLOBEX)
    for changed in (replace(WORK, title="buy 400 beams"), replace(WORK, thread="x")):
        assert "held" in wake.do(changed, f"act {changed.title} {changed.thread}", ("act 1/yes",))
    assert wake.tasks == 0


def test_a_no_is_a_no(room: RoomBench) -> None:
    wake = HeldWake(room)
    [hold] = held_of(wake.do(WORK))
    wake.decide(wake.ask(WORK, hold), GLOBEX, "reject")
    assert wake.do(WORK, "act 1/2", ("act 1/yes",))["refused"] == "hold_rejected"
    assert wake.tasks == 0
    assert room.acts()[-2:] == ["act_held", "act_refused"]


def test_what_nobody_allows_in_time_is_not_done(tmp_path: Path) -> None:
    with file_bench_in(tmp_path) as bench:
        room = RoomBench(bench)
        room.agent(BOB, "bot")
        say(room, BOB, {"name": "ask", "then": "hold", "by": {"expires_seconds": 60}})
        wake = HeldWake(room)
        [hold] = held_of(wake.do(WORK))
        wake.ask(WORK, hold)
        bench.clock.advance(61)
        bench.do(expire_approvals, Sweep(10))
        assert wake.do(WORK, "act 1/2", ("act 1/yes",))["refused"] == "hold_expired"
        assert wake.tasks == 0


def test_only_the_company_whose_yes_it_is_may_say_it(room: RoomBench) -> None:
    say(room, ANN, {"name": "mine", "then": "hold", "acts": ["post"]})
    wake = HeldWake(room)
    act = Post("hi", key="r")
    [hold] = held_of(wake.do(act))
    approval = wake.ask(act, hold)
    assert isinstance(wake.decide(approval, GLOBEX, by="bob"), NotFound)
    view = room.bench.read(lambda reads: execution_view(reads, GLOBEX, wake.id))
    assert [wait.detail for wait in view.waits] == ["a decision of acme about Post"]
    wake.decide(approval, ACME)
    assert wake.do(act, "act 1/2", ("act 1/yes",))["created"]


def test_roles_and_quorums_are_the_approving_companys_own(room: RoomBench) -> None:
    by = {"company": "acme", "role": "buyers", "quorum": 2}
    say(room, BOB, {"name": "both", "then": "hold", "by": by})
    wake = HeldWake(room)
    assert "0 people in the role 'buyers'" in wake.do(WORK)["why"]
    say(room, ANN, buyers=["ann", "art"])
    [hold] = held_of(wake.do(WORK, "act 2"))
    approval = wake.ask(WORK, hold)
    assert wake.decide(approval, ACME, by="eve").code == "not_an_approver"
    wake.decide(approval, ACME, by="ann")
    assert "held" in wake.do(WORK, "act 3", ("act 1/yes",))
    wake.decide(approval, ACME, by="art")
    assert wake.do(WORK, "act 4", ("act 1/yes",))["created"]


def test_a_yes_of_somebody_who_lost_the_role_since_is_asked_for_again(room: RoomBench) -> None:
    say(room, BOB, {"name": "ask", "then": "hold", "by": {"role": "bosses"}}, bosses=["bob"])
    wake = HeldWake(room)
    [hold] = held_of(wake.do(WORK))
    wake.decide(wake.ask(WORK, hold), GLOBEX, by="bob")
    say(room, BOB, {"name": "ask", "then": "hold", "by": {"role": "bosses"}}, bosses=["eve"])
    [asked] = held_of(wake.do(WORK, "act 1/2", ("act 1/yes",)))
    assert asked.approvers == ("eve",)
    say(room, BOB, {"name": "no", "then": "refuse"})
    assert wake.do(WORK, "act 1/3", ("act 1/yes",))["refused"] == "not_allowed"
    assert wake.tasks == 0


def test_an_act_in_a_room_is_approved_as_it_is_or_not_at_all(room: RoomBench) -> None:
    wake = HeldWake(room)
    [hold] = held_of(wake.do(WORK))
    approval = wake.ask(WORK, hold)
    ways: list[tuple[str, dict[str, Any]]] = [("edit", {"args": {"title": "x"}}), ("respond", {"answer": "no"})]
    for decision, more in ways:
        refused = wake.decide(approval, GLOBEX, decision, **more)
        assert isinstance(refused, Conflict)
        assert refused.code == "not_editable"


def test_a_yes_of_a_company_that_left_cannot_be_had(room: RoomBench) -> None:
    say(room, ANN, {"name": "theirs", "then": "hold", "by": {"company": "initech"}})
    assert "initech, whose yes it needs, is not in the room" in HeldWake(room).do(Post("x", key="r"))["why"]


def test_people_are_bound_by_rules_that_name_them_and_agents_set_none(room: RoomBench) -> None:
    say(room, ANN, {"name": "no-tasks", "then": "refuse", "acts": ["create_task"], "who": "globex"})
    say(room, BOB, {"name": "ask", "then": "hold", "acts": ["post"], "who": "globex/bob"})
    assert room.write(BOB, WORK).code == "not_allowed"
    assert room.write(BOB, Post("x", key="p")).code == "needs_approval"
    assert room.write(BOB, Remember("x", key="m", salt="s")).created
    agent = Actor(GLOBEX, "bot", "agent")
    assert say(room, agent, {"name": "all", "then": "allow"}).code == "not_allowed"


def test_what_a_company_said_is_its_own_to_read_and_stands_in_the_ledger(room: RoomBench) -> None:
    rules = {"name": "a", "then": "allow"}
    assert say(room, ANN, rules).created
    assert not say(room, ANN, rules).created
    assert room.acts()[-1] == "rights_set"
    line = room.ledger().links[-1]
    assert (line.digest, codec.decode(line.data)["revision"]) == ("", 1), "a fingerprint could be guessed by others"
    own = room.read(rights_view, ACME)
    assert (own.revision, own.document["rules"], own.changed_by) == (1, [rules], "ann")
    assert room.read(rights_view, GLOBEX).revision == 0
    assert isinstance(say(room, Actor("initech", "peter"), rules), NotFound)


def test_a_cancel_of_ones_own_task_that_others_may_have_moved_it_to_is_held(room: RoomBench) -> None:
    task = room.write(BOB, OpenTask("count", ACME, key="own")).id
    assert "held" in HeldWake(room).do(ChangeTask(task, "cancel"))


def test_what_an_agent_writes_keeps_the_label_of_what_was_before_it(room: RoomBench) -> None:
    wake = HeldWake(room)
    wake.do(Post("as acme says", key="r"))
    wake.do(Remember("so they say", key="m", salt="s"), "act 2")
    wake.do(OpenTask("look", GLOBEX, key="t"), "act 3")
    assert [one.steered_by for one in room.read(messages_view, ACME, EVERYTHING)] == [(), (ACME,)]
    assert [one.steered_by for one in room.read(memory_view, GLOBEX, EVERYTHING)] == [(ACME,)]
    assert [one.steered_by for one in room.read(tasks_view, GLOBEX, EVERYTHING)] == [(ACME,)]


def test_the_owner_of_a_line_is_asked_before_whom_its_rule_would_show_it_to(room: RoomBench) -> None:
    """Whoever is asked is shown the whole act; a host that holds everything must not come to read it that way."""
    room.write(ANN, Invite(STRANGER.company))
    room.write(STRANGER, Join())
    say(room, ANN, {"name": "look", "then": "hold"})
    wake = HeldWake(room, secrets=[(STRANGER.company, (GLOBEX,))])
    assert [one.company for one in held_of(wake.do(Post("as they say", key="r")))] == [STRANGER.company, ACME]
    own = HeldWake(room, secrets=[(GLOBEX, (GLOBEX,))])
    kept = Remember("for ourselves", (GLOBEX,), key="m", salt="s")
    assert [one.company for one in held_of(own.do(kept))] == [GLOBEX, ACME], "acme is asked, and so shown the line"


def test_where_two_owners_may_not_read_each_others_lines_nobody_is_asked(room: RoomBench) -> None:
    room.write(ANN, Invite(STRANGER.company))
    room.write(STRANGER, Join())
    wake = HeldWake(room, secrets=[(ACME, (GLOBEX,)), (STRANGER.company, (GLOBEX,))])
    value = wake.do(Post("all that I know", key="r"))
    assert value["refused"] == "not_allowed"
    assert "it may hold lines of acme and initech" in value["why"]
    say(room, ANN, {"name": "free", "then": "allow", "private": True})
    assert [one.company for one in held_of(wake.do(Post("again", key="a"), "act 2"))] == [STRANGER.company]


def test_who_may_read_a_line_is_asked_when_it_is_told_and_not_when_it_was_read(room: RoomBench) -> None:
    wake = HeldWake(room, secrets=[(ACME, (ACME, GLOBEX))])
    assert wake.do(Post("all here may read it", key="1"))["created"]
    room.write(ANN, Invite(STRANGER.company))
    [hold] = held_of(wake.do(Post("now one may not", key="2"), "act 2"))
    assert (hold.company, hold.rule) == (ACME, "acme:default-private")


def test_what_an_agent_keeps_of_anothers_line_keeps_its_owner(room: RoomBench) -> None:
    """Else a line would be its reader's to tell as soon as the reader's agent had written it down once more."""
    wake = HeldWake(room, secrets=[(ACME, (ACME, GLOBEX))])
    wake.do(Remember("noted", (GLOBEX,), key="m", salt="s"))
    wake.do(Remember("for all who may read it", key="a", salt="s"), "act 2")
    kept = [one.steered_by for one in room.read(memory_view, GLOBEX, EVERYTHING)]
    assert kept == [(ACME, "private:acme"), (ACME,)]


def test_of_a_company_that_left_nothing_is_done(room: RoomBench) -> None:
    wake = HeldWake(room)
    [hold] = held_of(wake.do(WORK))
    wake.decide(wake.ask(WORK, hold), GLOBEX)
    room.write(BOB, Leave())
    assert wake.do(WORK, "act 1/2", ("act 1/yes",))["refused"] == "not_found"
    assert isinstance(wake.claimed, Claimed)
