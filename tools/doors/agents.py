"""Try the A2A door with the official SDK's clients of several versions: each in an environment of its own."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from http_server import open_node, process, spec

HERE = Path(__file__).parent
KEY = f"pdk_doors{'0' * 40}"
AGENTS = ("plain", "tool", "approval")
"""Each plays the script of its name."""
SDKS = {"1.3.0": "on_a2a_1.py", "1.0.0": "on_a2a_1.py", "0.3.26": "on_a2a_0_3.py"}
"""Of `a2a-sdk`: the newest, the first of its life, and the last that speaks 0.3."""

Run = Callable[[list[str], Path], tuple[int, str, str]]
"""Runs a command in a folder: how it ended, what it said, and what went wrong."""


def clients(python_with: Callable[[str], str], run: Run, where: Path) -> Iterator[tuple[str, int, list[str]]]:
    """Yield of each client how many things came out as they should, and which did not."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "s.db"
        asyncio.run(_published(place))
        os.environ["PERDURE_ALLOW_PRIVATE_HTTP"] = "0"  # requests of its own, to the public only
        with process(place) as server:
            del os.environ["PERDURE_ALLOW_PRIVATE_HTTP"]
            for version, program in SDKS.items():
                command = [python_with(f"a2a-sdk=={version}"), str(HERE / program), server.url, KEY, version]
                code, said, wrong = run(command, where)
                try:
                    found = json.loads(said.splitlines()[-1])
                    yield f"`a2a-sdk` {version}", found["good"], found["bad"]
                except (IndexError, ValueError):
                    yield f"`a2a-sdk` {version}", 0, [f"ended with {code}: {wrong.strip()[-300:]}"]


async def _published(place: Path) -> None:
    node = open_node(place)
    try:
        await node.add_key("doors", "doors-ops", KEY)
        for agent in AGENTS:
            await node.api("doors").publish_agent(spec(agent, name=agent))
    finally:
        await asyncio.to_thread(node.stop)
