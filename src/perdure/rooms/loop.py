"""A wake: plain Python, run again from its log after a crash. Read it top to bottom; nothing else decides.

It reads the room, asks the model, posts the reply, does the rest of what was declared, tells the ledger, and ends.
Each act commits together with the record of it, so a re-run does exactly what is not done yet. What needs somebody's
yes waits for it, holding nothing, and is done then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from perdure.agent.calls import CallProblem
from perdure.agent.conversation import Conversation
from perdure.agent.loop import REPAIRS, ask_model
from perdure.agent.spec import AgentSpec
from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.items import ActInRoom, HoldAct
from perdure.core.ports import Clock
from perdure.core.rights import hold_from_json
from perdure.core.rooms import MAX_TEXT, Act, Actor, EndWake, Post, Remember
from perdure.flow.context import Context, Failed, Try
from perdure.models.port import ModelReply, Models
from perdure.rooms.actions import RECALL, read_action
from perdure.rooms.labels import Room, labels_of, withheld, without
from perdure.rooms.prompt import in_room, recalled, shown
from perdure.rooms.spec import Wake, WakeSpec

LOOK = "room"
END = "end"
AGAIN = "Nothing was done yet: declare it again together with the others."
Look = Callable[[], Awaitable[str]]
"""Reads the room as it stands for the agent; JSON text, `null` if the agent is not in it any more."""


async def wake_loop(
    ctx: Context, spec: WakeSpec, wake: Wake, *, look: Look, models: Models, clock: Clock
) -> dict[str, Json]:
    """Run one wake to its end. Returns the execution's output."""

    async def body(_: Try) -> str:
        return await look()

    room: Any = await ctx.step(LOOK, codec.digest(wake.room, wake.agent, wake.cause), body)
    if room is None:
        raise Failed("not_a_member", f"agent {wake.agent!r} is not in room {wake.room} any more.")
    agent = in_room(spec.agent, wake.company, room)
    talk = Conversation(ctx.execution, agent, shown(room, wake.company))
    try:
        reply, acts, unread, knows = await _declared(ctx, agent, wake, room, talk, models, clock)
    except Failed as error:
        await _act(ctx, wake.room, wake.actor, END, EndWake(error.code))
        raise
    labels = labels_of(room if knows else without(room), wake.company)
    does = partial(_act, ctx, wake.room, replace(wake.actor, steered=labels.steered, secrets=labels.secrets))
    done: list[Json] = [await does("reply", _post(ctx, reply, _thread(room)))] if reply.text.strip() else []
    # Asked for together, so they commit together.
    done += await ctx.gather(*(does(f"act {number}", act) for number, act in enumerate(acts, 1)))
    refused = sum(isinstance(one, dict) and "refused" in one for one in done)
    await does(END, EndWake("ended", len(done) - refused, refused + unread))
    return {"result": reply.text, "finish_reason": reply.finish_reason, "acts": done}


async def _declared(
    ctx: Context, agent: AgentSpec, wake: Wake, room: Room, talk: Conversation, models: Models, clock: Clock
) -> tuple[ModelReply, list[Act], int, bool]:
    """Ask the model until what it declares can be read, or it had its chances.

    Returns its last reply, what can be done of it, how much cannot be read, and whether the model has recalled lines
    that not all may read.
    """
    knows, asked = False, 0
    while True:
        talk.turn += 1
        reply = await ask_model(ctx, talk, models, clock)
        if not knows and any(call.name == RECALL.name for call in reply.tool_calls) and withheld(room):
            knows = True
            for call in reply.tool_calls:
                talk.answer(call, recalled(room, wake.company) if call.name == RECALL.name else AGAIN)
            continue
        asked += 1
        acts, problems = _read(ctx, agent, reply, _thread(room))
        if not problems or asked > REPAIRS:
            return reply, acts, len(problems), knows
        for number, call in enumerate(reply.tool_calls, 1):
            talk.answer(call, problems.get(number, AGAIN), failed=number in problems)


def _read(ctx: Context, agent: AgentSpec, reply: ModelReply, thread: str) -> tuple[list[Act], dict[int, str]]:
    """Return what a reply declares, and what is wrong with the rest, by its number."""
    acts: list[Act] = []
    problems: dict[int, str] = {}
    for number, call in enumerate(reply.tool_calls, 1):
        key, salt = f"{ctx.execution}/act {number}", ctx.new_id("slt")
        if call.name == RECALL.name:
            continue  # it was shown all there is
        read = read_action(agent, "", call, key=key, thread=thread, salt=salt)
        if isinstance(read, CallProblem):
            problems[number] = read.text
        else:
            acts.append(read)
    return acts, problems


def _post(ctx: Context, reply: ModelReply, thread: str) -> Post:
    text = reply.text.replace("\0", "").encode("utf-8", "replace").decode()  # what no store takes
    if len(text) > MAX_TEXT:
        note = f"\n[cut: it had {len(text):,} characters]"
        text = text[: MAX_TEXT - len(note)] + note
    return Post(text, thread=thread, key=f"{ctx.execution}/reply")


def _thread(room: dict[str, Any]) -> str:
    cause = room["woken_by"]
    return str(cause["thread"] or cause["id"])


async def _act(ctx: Context, room: str, actor: Actor, address: str, act: Act) -> dict[str, Any]:
    """Do it, once everybody whose yes it needs has given it; return what became of it, or of the asking."""
    unsalted = replace(act, salt="") if isinstance(act, Remember) else act  # another salt at each run
    digest = codec.digest(type(act).__name__, codec.to_json(unsalted, "act"))
    approvals: tuple[str, ...] = ()
    for number in count(1):  # the rights may change while somebody is asked
        where = address if number == 1 else f"{address}/{number}"
        done = await ctx.act(ActInRoom(where, digest, room, actor, act, approvals))
        if "held" not in done:
            return done
        approvals = await _ask_for_word(ctx, ActInRoom(where, digest, room, actor, act), done["held"])
    raise AssertionError("never")


async def _ask_for_word(ctx: Context, item: ActInRoom, held: list[dict[str, Any]]) -> tuple[str, ...]:
    """Ask one after the other for the words that an act needs, until somebody says no; return where."""
    asked: list[str] = []
    for given in held:
        hold = hold_from_json(given)
        address = f"{item.address}/yes of {hold.company}" + (f" {len(asked)}" if asked else "")
        digest = codec.digest(item.digest, codec.to_json(hold, "hold"))
        asked.append(address)
        wish = HoldAct(address, digest, ctx.new_id("apr"), item.room, item.actor, item.act, hold)
        if (await ctx.hold(wish)).data["decision"] != "approve":
            break
    return tuple(asked)
