"""The durable functions of the crash tests: six steps that act on the world, with a sleep in the middle; and one step
that goes on until the test lets it end.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from perdure.flow import durable, sleep, step, this_step
from perdure.testing.world_client import World

STEPS = 6
LINGER_SECONDS = 0.6
"""How long one of them takes: longer than the pause between two renewals."""


def act(name: str) -> int:
    """Do it to the world, in the name of the step."""
    here = this_step()
    time.sleep(LINGER_SECONDS if name == "step 1" else 0)
    world = World(os.environ["CRASH_WORLD"])
    done = world.act(name, key=here.key, execution=here.execution, step=here.address, attempt=here.attempt)
    return done["n"]


def stay(who: str) -> str:
    """Write down whose it is and which process began it; go on until `hold` is gone from the folder."""
    folder = Path(os.environ["CRASH_FOLDER"])
    with (folder / "acts").open("a") as file:
        file.write(f"{who}:{os.getpid()}\n")
    while (folder / "hold").exists():
        time.sleep(0.01)
    return who


@durable(build="b1")
async def held(who: str) -> str:
    """Stay."""
    return await step(stay, who, name="stay")


@durable(build="b1")
async def onboard(who: str) -> list[int]:
    """Act six times."""
    before = [await step(act, f"step {n}", name=f"step {n}") for n in range(STEPS // 2)]
    await sleep(0.05)
    return before + [await step(act, f"step {n}", name=f"step {n}") for n in range(STEPS // 2, STEPS)]
