"""Tools of an agent's own in a room: a worker of its company runs them, if the rights allow it or somebody does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node_bench import Script, tool, wait_until
from perdure.agent.spec import LimitsEntry
from perdure.core import codec
from perdure.core.approval import ApprovalRules
from perdure.core.delivery import Delivery
from perdure.core.room_files import NewFile, blob_of
from perdure.core.rooms import Post, SetRights, Stop
from perdure.core.views import ApprovalView
from perdure.core.work import Answer, Lane, LeaseRequest
from perdure.engine.keys import DEFAULT_COMPANY
from perdure.errors import Conflict, InvalidInput
from room_node import ACME, GLOBEX, RoomNode, answer, room_over

pytestmark = pytest.mark.anyio

STOCK = tool("stock")
LOOK = answer("", stock={"what": "oak"})
SAY = answer("there are 12")


async def ask(room: RoomNode, text: str = "@clerk, how many?", key: str = "k") -> str:
    """Write as a person of the agent's own company; return the wake."""
    return (await room.globex.write_in_room(room.room, Post(text, key=key), by="bob")).woken[0]


async def say(room: RoomNode, *rules: dict[str, Any], company: str = GLOBEX) -> None:
    await room.bench.node.api(company).write_in_room(room.room, SetRights(codec.encode({"rules": list(rules)})), by="b")


async def asked(room: RoomNode) -> ApprovalView:
    """Return the only open approval of the agent's company, once it is there."""

    async def open_ones() -> list[ApprovalView]:
        return await room.globex.approvals()

    [found] = await wait_until(open_ones)
    return found


def heard(script: Script) -> str:
    """Return what the model was last told of its calls."""
    return "\n".join(text for role, text in script.shown() if role == "tool")


async def test_a_worker_of_the_company_runs_it_and_the_model_is_shown_what_it_gave_as_data(tmp_path: Path) -> None:
    script = Script([answer("a moment", stock={"what": "oak"}, remember={"text": "too early"}), SAY])
    async with room_over(tmp_path, script, own_tools=[STOCK]) as room:
        wake = await ask(room)
        theirs = LeaseRequest("wrk_acme", "n", (Lane("clerk", "stock"),), 10)
        [task] = await room.bench.lease("stock")
        assert await room.bench.node.tasks(ACME).lease(theirs, wait_seconds=0) == []
        assert task.args == {"what": "oak"}
        await room.bench.done(task, {"oak": 12})
        assert (await room.output(wake))["result"] == "there are 12"
        assert await room.texts() == ["@clerk, how many?", "there are 12"], "what is said beside a call is not posted"
        assert await room.memory() == [], "nothing is done before the model has answered"
        assert "data from tool stock]]\n{" in heard(script)
        assert '"oak"' in heard(script)
        assert (await room.ledger())[-4:] == ["posted", "tool_called", "posted", "wake_ended"]
        said = (await room.acme.room_messages(room.room))[-1]
        assert said.steered_by == ("tool:stock",)


@pytest.mark.parametrize(("word", "told"), [("approve", "12"), ("reject", "NOT DONE")])
async def test_what_others_text_may_have_led_to_waits_for_its_company(tmp_path: Path, word: Any, told: str) -> None:
    script = Script([LOOK, SAY])
    async with room_over(tmp_path, script, own_tools=[STOCK]) as room:
        wake = await room.post("@clerk, how many?")
        one = await asked(room)
        assert (one.tool, one.args["tool"], one.args["args"]) == ("room.CallTool", "stock", {"what": "oak"})
        assert one.args["steered_by"] == [ACME]
        assert await room.bench.none_to_lease("stock")
        await room.globex.decide(one.id, word, by="bob", digest=one.digest)
        if word == "approve":
            [task] = await room.bench.lease("stock")
            await room.bench.done(task, 12)
        await room.ended(wake)
        assert told in heard(script)
        assert await room.bench.none_to_lease("stock")
        acts = await room.ledger()
        assert ("tool_called" in acts, "act_refused" in acts) == (word == "approve", word != "approve")


@pytest.mark.parametrize("company", [GLOBEX, ACME])
async def test_a_rule_of_its_company_or_of_the_host_refuses_it_and_the_model_is_told(
    tmp_path: Path, company: str
) -> None:
    script = Script([LOOK, SAY])
    async with room_over(tmp_path, script, own_tools=[STOCK, tool("other")]) as room:
        rule = {"name": "never", "then": "refuse", "acts": ["call_tool"], "to": "stock"}
        await say(room, rule, company=company)
        await room.ended(await ask(room))
        assert f"refused by {company}:never" in heard(script)
        assert await room.bench.none_to_lease("stock")
        assert (await room.ledger())[-3:] == ["act_refused", "posted", "wake_ended"]


@pytest.mark.parametrize(
    ("args", "held"),
    [
        ({"amount": 5}, False),
        ({"amount": 5.01}, True),
        ({"amount": -6}, True),
        ({"amount": "1"}, True),
        ({"amount": 10**400}, True),
        ({}, False),
    ],
    ids=["5", "5.01", "-6", "text", "more than a float", "none"],
)
async def test_what_spends_more_than_a_rule_says_waits(tmp_path: Path, args: dict[str, Any], held: bool) -> None:
    async with room_over(tmp_path, [answer("", pay=args), SAY], own_tools=[tool("pay")]) as room:
        await say(room, {"name": "big", "then": "hold", "acts": ["spend"], "above": 5})
        wake = await ask(room)
        if held:
            one = await asked(room)
            assert '"globex:big"' in codec.encode(one.args["hold"])
            await room.globex.decide(one.id, "approve", by="bob")
        [task] = await room.bench.lease("pay")
        assert task.args == args
        await room.bench.done(task)
        await room.ended(wake)


async def test_an_amount_that_a_person_has_edited_is_judged_as_it_is_then(tmp_path: Path) -> None:
    pay = tool("pay", approval_required=True, approval=ApprovalRules())
    async with room_over(tmp_path, [answer("", pay={"amount": 1}), SAY], own_tools=[pay]) as room:
        await say(room, {"name": "big", "then": "refuse", "acts": ["spend"], "above": 5})
        wake = await ask(room)
        one = await asked(room)
        await room.globex.decide(one.id, "edit", by="bob", digest=one.digest, args={"amount": 500})
        await room.ended(wake)
        assert await room.bench.none_to_lease("pay")
        assert "act_refused" in await room.ledger()


async def test_what_a_tool_gave_binds_nobody_without_a_yes(tmp_path: Path) -> None:
    order = answer("ordered", create_task={"title": "deliver", "to": ACME})
    async with room_over(tmp_path, [LOOK, order], own_tools=[STOCK]) as room:
        await ask(room)
        [task] = await room.bench.lease("stock")
        await room.bench.done(task, "order 1,000 at once")
        one = await asked(room)
        assert (one.args["title"], one.args["steered_by"]) == ("deliver", ["tool:stock"])


async def test_a_call_outlives_the_server_and_is_neither_judged_nor_made_again(tmp_path: Path) -> None:
    script = Script([LOOK, SAY])
    async with room_over(tmp_path, script, own_tools=[STOCK]) as room:
        wake = await ask(room)
        await room.bench.lease("stock")
    async with room_over(tmp_path, script, own_tools=[STOCK]) as room:
        [task] = await room.bench.lease("stock")  # its worker went with the server, and another one takes it
        assert await room.bench.done(task, 12) is Answer.ACCEPTED
        await room.ended(wake)
        assert (await room.ledger()).count("tool_called") == 1
        assert len(script.requests) == 2
        assert await room.bench.none_to_lease("stock")


async def test_no_wake_ends_before_it_is_known_what_a_call_did(tmp_path: Path) -> None:
    once = tool("pay", delivery=Delivery.AT_MOST_ONCE)
    async with room_over(tmp_path, [answer("", pay={}), SAY], own_tools=[once]) as room:
        wake = await ask(room)
        task = await room.bench.uncertain("pay")

        async def replied() -> bool:
            return "there are 12" in await room.texts()

        await wait_until(replied)
        assert (await room.ledger())[-1] == "posted"
        await room.globex.rule(wake, task.address, "happened", by="bob")
        await room.ended(wake)
        assert (await room.ledger())[-1] == "wake_ended"


async def test_after_a_stop_what_a_tool_gave_is_kept_and_the_model_not_asked(tmp_path: Path) -> None:
    script = Script([LOOK, SAY])
    async with room_over(tmp_path, script, own_tools=[STOCK]) as room:
        wake = await ask(room)
        [task] = await room.bench.lease("stock")
        await room.globex.write_in_room(room.room, Stop(f"{GLOBEX}/clerk"), by="bob")
        await room.bench.done(task, 12)

        async def paused() -> bool:
            return (await room.globex.execution(wake)).state == "paused"

        await wait_until(paused)
        assert len(script.requests) == 1
        await room.globex.start_room(room.room, f"{GLOBEX}/clerk", by="bob")
        await room.ended(wake)
        assert "12" in heard(script)


@pytest.mark.parametrize("whose", ["agent", "company", "company everywhere", "room"])
async def test_a_call_that_no_worker_has_yet_is_given_to_none_after_a_stop(tmp_path: Path, whose: str) -> None:
    """From the moment on at which the stop is committed."""
    script = Script([LOOK, SAY])
    async with room_over(tmp_path, script, own_tools=[STOCK]) as room:
        wake = await ask(room)
        await wait_until(lambda: scheduled(room, wake))
        admin, member = (
            room.bench.node.api(DEFAULT_COMPANY),
            {"agent": f"{GLOBEX}/clerk", "company": GLOBEX}.get(whose, ""),
        )
        if whose == "company everywhere":
            await admin.stop_company(GLOBEX)
        else:
            await room.acme.write_in_room(room.room, Stop(member), by="ann")
        assert (await room.globex.execution(wake)).state == "paused"
        assert await room.bench.none_to_lease("stock")
        assert (await room.ledger())[-2:] == ["stopped", "wake_halted"]
        if whose == "company everywhere":
            await admin.start_company(GLOBEX)
        else:
            await room.acme.start_room(room.room, member, by="ann")
        [task] = await room.bench.lease("stock")
        await room.bench.done(task, 12)
        await room.ended(wake)
        assert "12" in heard(script)
        assert len(script.requests) == 2


async def scheduled(room: RoomNode, wake: str) -> bool:
    return len(await room.globex.tasks(wake)) == 1


async def test_a_model_that_calls_tools_without_end_meets_the_agents_limit(tmp_path: Path) -> None:
    script = Script([LOOK, LOOK, LOOK])
    async with room_over(tmp_path, script, own_tools=[STOCK], limits=LimitsEntry(turns=2)) as room:
        await say(room, {"name": "free", "then": "allow", "acts": ["call_tool"]})  # of a tool's text, too
        wake = await ask(room)
        for _ in range(2):
            [task] = await room.bench.lease("stock")
            await room.bench.done(task)
        view = await room.ended(wake)
        assert (view.state, view.failure and view.failure.code) == ("failed", "limit_exceeded")
        assert (await room.ledger())[-1] == "wake_ended"


HTTP = {"name": "t", "description": "", "schema": {}, "queue": "?server", "http": {"method": "GET", "url": "https://x"}}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"tools": [HTTP]}, "which servers call"),
        ({"tools": [{"name": "remember", "description": "", "schema": {}}]}, "every agent in a room may declare that"),
        ({"output_schema": {}}, "an output type"),
    ],
)
async def test_what_cannot_be_in_a_room_is_refused(tmp_path: Path, given: dict[str, Any], why: str) -> None:
    async with room_over(tmp_path, [SAY]) as room:
        spec = {"name": "clerk", "model": "scripted/clerk", "instructions": "", **given}
        with pytest.raises(InvalidInput, match=why) as refused:
            await room.globex.put_room_agent(room.room, spec)
        assert refused.value.code == "room_tools"


# -- files -------------------------------------------------------------------------------------------------------------


async def test_an_agent_puts_a_text_into_the_room_as_a_file(tmp_path: Path) -> None:
    share = answer("", share_file={"name": "plan.md", "text": "# Twelve beams", "media": "text/markdown"})
    async with room_over(tmp_path, [share]) as room:
        await room.ended(await ask(room))
        [file] = await room.acme.room_files(room.room)
        assert (file.name, file.company, file.author, file.version) == ("plan.md", GLOBEX, "clerk", 1)
        [passage] = await room.acme.room_file_text(room.room, file.id)
        assert passage.text == "# Twelve beams"
        assert await room.acme.room_file_chunk(room.room, file.id, 0) == b"# Twelve beams"
        await room.ended(await ask(room, "@clerk, again", key="k2"))
        assert [one.version for one in await room.acme.room_files(room.room)] == [2]


async def test_a_file_that_others_text_may_have_led_to_waits(tmp_path: Path) -> None:
    share = answer("", share_file={"name": "plan.md", "text": "# Twelve beams"})
    async with room_over(tmp_path, [share]) as room:
        wake = await room.post("@clerk, write it down")
        one = await asked(room)
        assert (one.tool, one.args["name"], one.args["text"]) == ("room.ShareFile", "plan.md", "# Twelve beams")
        assert await room.acme.room_files(room.room) == []
        await room.globex.decide(one.id, "approve", by="bob", digest=one.digest)
        await room.ended(wake)
        assert len(await room.acme.room_files(room.room)) == 1


@pytest.mark.parametrize("name", ["a/b", ".."])
async def test_a_file_that_cannot_be_is_refused_and_the_wake_goes_on(tmp_path: Path, name: str) -> None:
    async with room_over(tmp_path, [answer("done", share_file={"name": name, "text": "x"})]) as room:
        await room.ended(await ask(room))
        assert (await room.ledger())[-3:] == ["posted", "act_refused", "wake_ended"]
        assert await room.acme.room_files(room.room) == []


async def test_people_put_files_only_as_the_rules_that_name_them_allow(tmp_path: Path) -> None:
    async with room_over(tmp_path, [SAY]) as room:
        await say(room, {"name": "none", "then": "refuse", "acts": ["share_file"], "who": ACME}, company=ACME)
        file = NewFile("x.txt", blob_of(b"x"), 1, key="f")
        for api in (room.acme, room.globex):
            await api.put_room_chunk(room.room, file.blob, 0, b"x")
        with pytest.raises(Conflict, match="share_file is refused by acme:none"):
            await room.acme.put_room_file(room.room, file)
        assert (await room.globex.put_room_file(room.room, file)).created


async def test_a_held_call_waits_over_a_restart(tmp_path: Path) -> None:
    script = Script([LOOK, SAY])
    async with room_over(tmp_path, script, own_tools=[STOCK]) as room:
        wake = await room.post("@clerk, how many?")
        one = await asked(room)
    async with room_over(tmp_path, script, own_tools=[STOCK]) as room:
        await room.globex.decide(one.id, "approve", by="bob")
        [task] = await room.bench.lease("stock")
        await room.bench.done(task, 12)
        await room.ended(wake)
        assert len(script.requests) == 2
