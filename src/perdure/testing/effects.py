"""Tell the crash test that something was done, from a tool or from what stands in for the receiver of its calls.

Outside of a crash test this does nothing: no file, no connection.
"""

from __future__ import annotations

import os

from perdure.agent.context import current_tool
from perdure.errors import UserError
from perdure.testing.world_client import World

WORLD = "PERDURE_CRASHTEST_WORLD"
"""The environment variable that names the address of the world that counts."""
FOLDER = "PERDURE_CRASHTEST_DIR"
"""The environment variable that names a fresh folder for each run: where a stand-in may keep its own records."""


def tell_effect(name: str, key: str | None = None) -> None:
    """Say that `name` was done, once. Call it where it is really done: behind whatever recognises a repeated key.

    `key` is what makes two of them the same act, such as an order's number; without one, two that the same call of a
    tool tells are the same. It is on the disk before this returns. Raises `OSError` if the world cannot be reached.
    """
    url = os.environ.get(WORLD)
    if not url:
        return
    try:
        call = current_tool()
    except UserError:
        World(url).act(name, key=key)
        return
    World(url).act(name, key=key, execution=call.execution_id, step=call.step_id, attempt=call.attempt)
