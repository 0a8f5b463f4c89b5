"""Stop an agent after a server died between judging a call of its own tool and scheduling it; print what was called.

`{"stopped": [...], "started": [...]}`: tools by the time that the wake was paused, and once it was let go on and ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from perdure.core.rooms import Stop
from perdure.server.listen import bind
from perdure.server.node import Node
from room_kills import Stores
from room_lives import OPTIONS, ROOM, Life, ended, fork, fork_worker, is_still, live
from room_plots import AGENT, GLOBEX, noted

JUDGED = "act_in_room.after_commit@1"
MEMBER = f"{GLOBEX}/{AGENT}"


async def stop(node: Node) -> None:
    await node.api(GLOBEX).write_in_room(ROOM, Stop(MEMBER), by="bob")


async def go_on(life: Life, node: Node) -> None:
    """See the wake paused, or a call made, let it go on, and see it to its end."""
    async with asyncio.timeout(60):
        while not (await is_still(node) or tools(life)):  # noqa: ASYNC110 - no event tells of either
            await asyncio.sleep(0.01)
        called = {"stopped": tools(life)}
        await node.api(GLOBEX).start_room(ROOM, MEMBER, by="bob")
        await ended(node)
    (life.notes / "called").write_text(json.dumps({**called, "started": tools(life)}), encoding="utf-8")


def tools(life: Life) -> list[str]:
    return sorted({line.partition(" ")[0] for line in noted(life.notes)})


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(bind(OPTIONS)) as door:
        notes = Path(folder)
        with Stores("sqlite", "", notes).copy("resume", "tools", notes) as store:
            life = Life(store, notes, "resume", "tools", door=door)
            dies = os.waitpid(fork(replace(life, kill=JUDGED), life.work), 0)[1]
            assert os.waitstatus_to_exitcode(dies) == -signal.SIGKILL
            live(replace(life, quiet=True), stop)
            worker = fork_worker(life)
            try:
                live(life, lambda node: go_on(life, node))
            finally:
                os.kill(worker, signal.SIGKILL)
                os.waitpid(worker, 0)
        sys.stdout.write((notes / "called").read_text(encoding="utf-8") + "\n")


if __name__ == "__main__":
    main()
