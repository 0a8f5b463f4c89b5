"""A notice as it is carried out: one message in one room, said once, whatever dies in between."""

from __future__ import annotations

from typing import Any

from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.items import ActInRoom
from perdure.core.notices import AUTHOR, Notice
from perdure.core.rooms import Actor, Post
from perdure.flow.context import Context, Failed

POST = "post"


async def notice_loop(ctx: Context, notice: Notice, company: str) -> dict[str, Json]:
    """Say it, in the company's name. Returns the execution's output; fails with what the room says against it."""
    act = Post(notice.text, (notice.to,), key=ctx.execution)
    digest = codec.digest(POST, codec.to_json(act, "act"))
    done: dict[str, Any] = await ctx.act(ActInRoom(POST, digest, notice.room, Actor(company, AUTHOR), act))
    if "refused" in done:
        raise Failed(str(done["refused"]), str(done["why"]))
    if "held" in done:
        rules = ", ".join(str(one["rule"]) for one in done["held"])
        raise Failed("needs_approval", f"it needs a yes ({rules}), and what a schedule says waits for none.")
    return {"result": done["id"], "woken": done["woken"]}
