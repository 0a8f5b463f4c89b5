"""What the crash runs begin beside the report: an agent for each kind of trouble, and three durable functions.

Each act goes to the world. What has to wait for the client waits for a note, a file in the run's folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from crash_agent import MANY, Surroundings, act
from perdure import Agent, Approval, PermanentError, ToolContext, tool
from perdure.flow import TokenFailed, durable, run_function, signal, sleep, step, this_step, token
from perdure.ledger import once
from perdure.testing.world_client import World

NAME = "side_agent"
PLEASE = "Please "
"""How a prompt begins that asks for one tool by its name, and for nothing else."""
FOLDER = "CRASH_FOLDER"
LINGER = "CRASH_LINGER"
"""In the environment: the run's folder, and how many seconds each step takes the first time, for durable functions,
which have no dependencies."""
LARGE = "0123456789abcdef" * 600_000
"""More than a log holds."""
BOOK = "book.db"
"""In the run's folder."""
LIMIT_SECONDS = 20.0
"""After which a body waits no longer for a note: the client died for good."""
SOON_SECONDS = 0.4
"""Of what is to pass by itself."""


def side_agent(surroundings: Surroundings) -> Agent:
    """Return the agent. Its prompts are `PLEASE` and the name of a tool, or `nothing`."""
    return Agent(
        name=NAME,
        model="scripted/incident",
        base_url=surroundings.world.url,
        instructions="You do one thing.",
        tools=[remark, look_up, book, ask_nobody, knock, half_done, mend, say_so, fill_up],
        dependencies=surroundings,
    )


@tool(retries=MANY)
def remark(ctx: ToolContext) -> int:
    """Say something to the world, at least once."""
    return act(ctx)["n"]


@tool(delivery="repeatable", retries=MANY)
def look_up(ctx: ToolContext) -> int:
    """Look at the world, as often as one likes."""
    return act(ctx)["n"]


@tool(delivery="transactional", retries=MANY)
def book(ctx: ToolContext) -> str:
    """Write a line into a book of one's own, in one transaction with the record of it."""
    with closing(sqlite3.connect(ctx.dependencies.out.parent / BOOK)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS lines (execution TEXT)")
        with once(connection, ctx.idempotency_key) as effect:
            if effect.done:
                return str(effect.value)
            connection.execute("INSERT INTO lines VALUES (?)", (ctx.execution_id,))
            return str(effect.record("booked"))


UPWARDS = Approval(
    approvers=("clerk",), escalate_seconds=SOON_SECONDS / 2, escalate_to=("boss",), expires_seconds=8 * SOON_SECONDS
)


@tool(approval=UPWARDS)
def ask_nobody(ctx: ToolContext) -> int:
    """Do what nobody says yes to in time, whoever is asked after a while."""
    return act(ctx)["n"]


@tool(retries=MANY, retry_pause_seconds=0.05, retry_jitter=0, deadline_seconds=2.0)
def knock(ctx: ToolContext) -> None:
    """Fail, as often as it is tried, once the client has paused the run: its next try then waits past its deadline."""
    act(ctx)
    await_note(ctx.dependencies.out.parent, "knocked")
    raise RuntimeError("nobody opened")


@tool(delivery="at_most_once", settle_seconds=0, if_unknown="happened", ruling_deadline_seconds=SOON_SECONDS)
def half_done(ctx: ToolContext) -> None:
    """Act, at most once, and not say how it ended."""
    act(ctx)
    raise RuntimeError("the line went dead")


@tool(retries=MANY)
def mend(ctx: ToolContext) -> int:
    """Fail for good, until the client has mended what is wrong."""
    done = act(ctx)
    if not (ctx.dependencies.out.parent / "mended").exists():
        raise PermanentError("it is broken")
    return done["n"]


@tool(approval_required=True)
def say_so(ctx: ToolContext) -> int:
    """Wait for the client, so that the run does not end before it is done."""
    return act(ctx)["n"]


@tool(retries=MANY)
def fill_up(ctx: ToolContext) -> str:
    """Give more than a log holds."""
    act(ctx)
    return LARGE


def await_note(folder: Path, name: str) -> None:
    """Wait until the client has left a note."""
    until = time.monotonic() + LIMIT_SECONDS
    while not (folder / name).exists() and time.monotonic() < until:
        time.sleep(0.02)


# Durable functions.


@durable(build="b1")
async def handing() -> list[str]:
    """Hand two tokens to the client; one is completed, one fails, and a third one expires."""
    await step(_act, name="open")
    given, refused = await token("given"), await token("refused")
    late = await token("late", timeout=timedelta(seconds=SOON_SECONDS))
    await step(partial(_leave, "tokens", json.dumps([given.secret, refused.secret])), name="hand out")
    answers = [str(await given)]
    try:
        answers.append(str(await refused))
    except TokenFailed:
        answers.append("refused")
    try:
        answers.append(str(await late))
    except TimeoutError:
        answers.append("late")
    await step(_act, name="close")
    return answers


@durable(build="b1")
async def family() -> None:
    """Begin a child that waits for ever, and wait for it."""
    await step(_act, name="marry")
    await run_function(orphan)


@durable(build="b1")
async def orphan() -> None:
    """Wait for ever."""
    await signal("never")


@durable(build="b1")
async def renaming() -> None:
    """Call the first step by another name from the second life on."""
    await step(_act, name="new name" if (_folder() / "renamed").exists() else "old name")
    await step(partial(_leave, "renamed", ""), name="rename")
    await sleep(0.01)
    await signal("go on")
    await step(_act, name="close")


FUNCTIONS: tuple[Callable[..., Any], ...] = (handing, family, orphan, renaming)


async def _act() -> int:
    here = this_step()
    folder = _folder()
    world = World(f"http://127.0.0.1:{(folder / 'world.port').read_text(encoding='utf-8')}")
    facts = {"key": here.key, "execution": here.execution, "step": here.address, "attempt": here.attempt}
    done = await asyncio.to_thread(partial(world.act, here.address.replace(" ", "_"), **facts))
    if linger := float(os.environ.get(LINGER, 0)):
        lingered = folder / f"lingered {here.address}"
        if not lingered.exists():
            lingered.touch()
            await asyncio.sleep(linger)
    return done["n"]


def _leave(name: str, text: str) -> None:
    """Leave a note for the client."""
    draft = _folder() / f"{name}.part"
    draft.write_text(text, encoding="utf-8")
    draft.replace(_folder() / name)


def _folder() -> Path:
    return Path(os.environ[FOLDER])
