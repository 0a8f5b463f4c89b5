"""An agent whose tools act on a world that counts, and whose workers die or stand still where a test wants them to."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from perdure import Agent, NotDone, Outcome, ToolContext, tool
from perdure.models.port import ModelReply, ModelRequest
from perdure.models.scripted import call, say
from perdure.testing.world_client import World, WorldRefused

FOLDER = Path(os.environ.get("EFFECT_FOLDER", "/nowhere"))
WORLD = World(os.environ.get("EFFECT_WORLD", ""))


def strike(point: str) -> None:
    """Die here, once, if the test has put a file of this name into the folder."""
    order = FOLDER / f"kill-{point}"
    if order.exists():
        order.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def act(name: str, ctx: ToolContext) -> str:
    done = WORLD.act(name, key=ctx.idempotency_key, execution=ctx.execution_id, step=ctx.step_id, attempt=ctx.attempt)
    return f"receipt {done['n']}"


def look(ctx: ToolContext) -> Outcome:
    """Ask the world whether it saw this key."""
    seen = [entry for entry in WORLD.entries() if entry.key == ctx.idempotency_key and entry.effect]
    return Outcome.happened(f"receipt {seen[-1].n}") if seen else Outcome.did_not_happen()


@tool(delivery="at_most_once", settle_seconds=0.2, probe=look, retries=1, retry_pause_seconds=0)
def pay(order: str, ctx: ToolContext) -> str:
    """Pay an order."""
    strike("before")
    try:
        receipt = act("pay", ctx)
    except WorldRefused as error:
        raise NotDone(str(error)) from None
    strike("after")
    return receipt


@tool(delivery="at_most_once", intent=lambda a: a.order)
def refund(order: str, note: str, ctx: ToolContext) -> str:
    """Refund an order."""
    return act("refund", ctx)


@tool(delivery="at_most_once", if_unknown="give_up", ruling_deadline_seconds=0.5)
def ship(ctx: ToolContext) -> str:
    """Ship, and never say how it went."""
    act("ship", ctx)
    raise RuntimeError("half way")


@tool(delivery="at_most_once")
def lose(ctx: ToolContext) -> str:
    """Raise without having done anything, which nobody can know."""
    raise RuntimeError("half way")


@tool(delivery="at_most_once", settle_seconds=0)
def crawl(ctx: ToolContext) -> str:
    """Begin, and act once the test lets it."""
    (FOLDER / f"begun-{ctx.attempt}").touch()
    while not (FOLDER / "go").exists():
        time.sleep(0.01)
    return act("crawl", ctx)


@tool(retry_pause_seconds=0)
def announce(ctx: ToolContext) -> str:
    """Announce it: by its author's choice, at least once."""
    receipt = act("announce", ctx)
    strike("announced")
    return receipt


agent = Agent(name="cashier", model="scripted/effects", tools=[pay, refund, ship, lose, crawl, announce])

SCRIPTS: dict[str, list[ModelReply]] = {
    "pay": [call("pay", {"order": "o1"}), say("?"), say("done"), say("done"), say("done")],
    "refund": [
        call("refund", {"order": "o1", "note": "as asked"}),
        call("refund", {"order": "o1", "note": "just to be sure"}),
        say("done"),
    ],
    **{name: [call(name, {}), say("?"), say("done"), say("done")] for name in ("ship", "lose", "crawl", "announce")},
}


def script(request: ModelRequest) -> ModelReply:
    """Play the script that the first message names."""
    done = sum(message.role == "assistant" for message in request.messages)
    return SCRIPTS[request.messages[0].text][done]
