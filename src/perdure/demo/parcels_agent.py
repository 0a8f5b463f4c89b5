"""The agent of the demo in a browser: `perdure worker perdure.demo.parcels_agent:tracker` runs its tool."""

from __future__ import annotations

import asyncio

from perdure import Agent, tool
from perdure.demo.parcels_script import MODEL, PARCELS

LOOKS_SECONDS = 1.6
"""How long a carrier takes to answer: long enough for somebody to kill the worker meanwhile."""
_PLACES = dict(
    zip(PARCELS, ("delivered", "in Hamburg", "on the road to Kiel", "delivered", "at the customs"), strict=True)
)


@tool(delivery="repeatable")
async def track(parcel: str) -> dict[str, str]:
    """Ask the carrier where a parcel is. The carrier is a table in this file, which takes its time.

    Args:
        parcel: Its number.
    """
    await asyncio.sleep(LOOKS_SECONDS)
    return {"parcel": parcel, "place": _PLACES.get(parcel, "unknown")}


tracker = Agent(
    name="parcel-tracker",
    model=MODEL,
    tools=[track],
    instructions="Say where each parcel is. Ask for one at a time.",
)
