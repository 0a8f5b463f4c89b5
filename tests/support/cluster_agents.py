"""What the workers of a cluster test serve by name, `cluster_agents:agent`; CLUSTER_WORLD names the world."""

from __future__ import annotations

import os
from pathlib import Path

from crash_agent import Surroundings
from crash_agent import agent as report_agent
from perdure.flow import durable, signal, step
from perdure.testing.world_client import World

agent = report_agent(Surroundings(World(os.environ.get("CLUSTER_WORLD", "")), Path(os.environ.get("CLUSTER_OUT", ""))))


@durable(build="b1")
async def relay(word: str) -> str:
    """Say a word, and another one that somebody sends."""
    said = await step(_say, word, name="say")
    return f"{said} {await signal('word')}"


def _say(word: str) -> str:
    return word
