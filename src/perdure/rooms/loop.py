"""A wake: plain Python, run again from its log after a crash. Read it top to bottom; nothing else decides.

It reads the room, asks the model, calls tools of the agent's own as often as the model wants to, posts the reply, does
the rest of what was declared, tells the ledger, and ends. Each act commits together with the record of it, so a re-run
does exactly what is not done yet. What needs somebody's yes waits for it, holding nothing, and is done then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from perdure.agent.calls import Call, CallProblem, names_of
from perdure.agent.conversation import Conversation
from perdure.agent.loop import REPAIRS, ask_model, hold_limits, run_call, take_told, task_of, wait_for_news
from perdure.agent.on_wake import BY_FUNCTION, ON_WAKE
from perdure.agent.spec import AgentSpec
from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.events import Kind
from perdure.core.items import ActInRoom, HoldAct
from perdure.core.ports import Clock
from perdure.core.rights import hold_from_json
from perdure.core.rooms import MAX_TEXT, Act, Actor, CallTool, EndWake, Post, Remember
from perdure.flow.context import Context, Failed, Try
from perdure.models.port import ModelReply, Models, ToolCall
from perdure.rooms.actions import RECALL, read_action, read_decision
from perdure.rooms.labels import Room, labels_of, withheld, without
from perdure.rooms.prompt import given_by, in_room, recalled, shown
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
    run = _Run(ctx, spec.agent, agent, wake, room, Conversation(ctx.execution, agent, shown(room, wake.company)))
    try:
        by_function = spec.agent.model == BY_FUNCTION
        reply, acts, unread = await (_decided(run) if by_function else _declared(run, models, clock))
    except Failed as error:
        await _known(run)
        await _act(ctx, wake.room, wake.actor, END, EndWake(error.code))
        raise
    does = partial(_act, ctx, wake.room, run.actor)
    done: list[Json] = [await does("reply", _post(ctx, reply, _thread(room)))] if reply.text.strip() else []
    # Asked for together, so they commit together.
    done += await ctx.gather(*(does(f"act {number}", act) for number, act in enumerate(acts, 1)))
    refused = sum(isinstance(one, dict) and "refused" in one for one in done)
    await _known(run)
    await does(END, EndWake("ended", len(done) - refused, refused + unread))
    return {"result": reply.text, "finish_reason": reply.finish_reason, "acts": done}


@dataclass(slots=True)
class _Run:
    """One wake under way."""

    ctx: Context
    own: AgentSpec
    """The agent as it was registered: its tools are its own."""
    agent: AgentSpec
    """The same as its model sees it."""
    wake: Wake
    room: Room
    talk: Conversation
    knows: bool = False
    """Whether the model has recalled the lines that not all may read."""
    heard: list[str] = field(default_factory=list[str])
    """Tools whose results the model has seen."""

    @property
    def actor(self) -> Actor:
        """In whose name it acts, and with whose text before it by now."""
        labels = labels_of(self.room if self.knows else without(self.room), self.wake.company, self.heard)
        return replace(self.wake.actor, steered=labels.steered, secrets=labels.secrets)

    def recalls(self, reply: ModelReply) -> bool:
        """Say whether a reply asks for lines that were withheld until now. From here on they are known."""
        if self.knows or not withheld(self.room) or all(call.name != RECALL.name for call in reply.tool_calls):
            return False
        self.knows = True
        return True


async def _declared(run: _Run, models: Models, clock: Clock) -> tuple[ModelReply, list[Act], int]:
    """Ask the model until it calls no tool and what it declares can be read, or it had its chances.

    Returns its last reply, what can be done of it, and how much cannot be read. Raises `Failed`.
    """
    asked, talk = 0, run.talk
    while True:
        talk.turn += 1
        reply = await ask_model(run.ctx, talk, models, clock)
        if run.recalls(reply):
            for call in reply.tool_calls:
                talk.answer(call, recalled(run.room, run.wake.company) if call.name == RECALL.name else AGAIN)
            continue
        if any(run.own.tool(call.name) for call in reply.tool_calls):
            await _call_tools(run, reply.tool_calls)
            continue
        asked += 1
        acts, problems = _read(run.ctx, run.agent, reply, _thread(run.room))
        if not problems or asked > REPAIRS:
            return reply, acts, len(problems)
        for number, call in enumerate(reply.tool_calls, 1):
            talk.answer(call, problems.get(number, AGAIN), failed=number in problems)


async def _decided(run: _Run) -> tuple[ModelReply, list[Act], int]:
    """As `_declared`, by the company's own function, which a worker of the company runs. Raises `Failed`."""
    [entry] = run.own.tools
    while True:
        run.talk.turn += 1
        args: dict[str, Json] = {"room": run.room if run.knows else without(run.room)}
        call = Call(f"turn {run.talk.turn}/{ON_WAKE}", entry, args)
        ended = await run.ctx.task(task_of(run.own, call))
        if ended.kind is not Kind.TASK_COMPLETED:
            raise Failed("on_wake_failed", f"the function of agent {run.own.name!r}: {ended.data.get('error')}")
        reply = read_decision(run.own.name, ended.data["value"])
        if run.recalls(reply):
            continue
        acts, problems = _read(run.ctx, run.agent, reply, _thread(run.room))
        if problems:
            raise Failed("on_wake_failed", f"the function of agent {run.own.name!r}: {next(iter(problems.values()))}")
        return reply, acts, 0


# -- tools -------------------------------------------------------------------------------------------------------------


async def _call_tools(run: _Run, calls: Sequence[ToolCall]) -> None:
    """Call the agent's own tools side by side and tell its model what they gave; what else it declared, not yet."""
    actor = run.actor
    addresses = [f"turn {run.talk.turn}/tool/{name}" for name in names_of(calls)]
    running = (_call_tool(run, actor, *one) for one in zip(addresses, calls, strict=True))
    for call, (text, failed) in zip(calls, await run.ctx.gather(*running), strict=True):
        run.talk.answer(call, text, failed=failed)
    take_told(run.ctx, run.talk)
    hold_limits(run.agent, run.talk)


async def _call_tool(run: _Run, actor: Actor, address: str, call: ToolCall) -> tuple[str, bool]:
    """Call one, if the rights allow it or somebody does; return what to tell the model, and whether it is an error."""
    if run.own.tool(call.name) is None:
        return AGAIN, False
    made = False

    async def gate(checked: Call) -> str | None:
        """Write down that it is called, or have it said why not."""
        nonlocal made
        act = CallTool(call.name, checked.args, address)
        done = await _act(run.ctx, run.wake.room, actor, f"{address}/right", act)
        if "refused" in done:
            return f"NOT DONE: {done['why']} Do not call it again with these arguments."
        made = True
        return None

    text, failed = await run_call(run.ctx, run.agent, run.talk, address, call, gate)
    if not made:
        return text, failed
    run.heard.append(call.name)
    return given_by(call.name, text, run.room), failed


async def _known(run: _Run) -> None:
    """Wait until it is known what became of every call: no wake ends before."""
    take_told(run.ctx, run.talk)
    while (run.talk.uncertain or run.talk.revived) and not run.ctx.stop_requested:
        await wait_for_news(run.ctx, run.talk)


# -- acts --------------------------------------------------------------------------------------------------------------


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
