"""Tools that ask to be tried later, kill their worker, or go on where they were: `retry_agents:agent`."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from perdure import Agent, RetryLater, ToolContext, tool
from perdure.models.port import ModelReply, ModelRequest
from perdure.models.scripted import call, say

FOLDER = Path(os.environ.get("RETRY_TEST_FOLDER", "/nowhere"))
"""Where the tools note their tries, and look for what the test says."""


def noted(what: str, ctx: ToolContext) -> None:
    """Note a try: its number, its key and when it began."""
    with (FOLDER / what).open("a") as notes:
        notes.write(f"{ctx.attempt}\t{ctx.idempotency_key}\t{time.time()}\n")


@tool(retries=3)
def busy(ctx: ToolContext) -> str:
    """Ask for another time once."""
    noted("busy", ctx)
    if ctx.attempt == 1:
        raise RetryLater("the line is busy", after=6)
    return "through"


@tool(retries=2, retry_pause_seconds=0)
def deadly(ctx: ToolContext) -> str:
    """Kill the worker, until it is mended."""
    noted("deadly", ctx)
    if not (FOLDER / "mended").exists():
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()
    return "alive"


@tool(retries=3)
def long(ctx: ToolContext) -> list[int]:
    """Count to five in steps that are kept; its worker is killed at the third."""
    done = list(ctx.last_checkpoint or [])
    noted("long", ctx)
    while len(done) < 5:
        done.append(ctx.attempt)
        ctx.checkpoint(done)
        ctx.progress(len(done) / 5)
        while len(done) == 3 and ctx.attempt == 1:
            time.sleep(0.01)
    return done


@tool(approval_required=True)
def hold() -> str:
    """Keep the run from ending."""
    return "held"


agent = Agent(name="stubborn", model="scripted/retries", instructions="Do it.", tools=[busy, deadly, long, hold])

SCRIPTS: dict[str, list[ModelReply]] = {
    "busy": [call("busy"), say("done")],
    "deadly": [call("deadly"), call("hold"), say("done"), say("really done")],
    "long": [call("long"), say("done")],
}


def play(request: ModelRequest) -> ModelReply:
    """Play the script that the first message names."""
    script = SCRIPTS[request.messages[0].text]
    return script[sum(message.role == "assistant" for message in request.messages)]
