"""Wait for an execution's end, and say so where only somebody can bring it nearer: else waiting looks like hanging."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterable

from perdure.core import states
from perdure.core.views import ExecutionView
from perdure.errors import PerdureError
from perdure.wire.api import Api

LOOKS_SECONDS = (2.0, 4.0, 8.0, 16.0, 32.0)
"""Before each look at how it stands. Few: a long wait is to cost nothing."""


async def until_ended(api: Api, execution: str, looks: Iterable[float] = LOOKS_SECONDS) -> None:
    """Return once it has ended. Meanwhile warn (`UserWarning`), once for each reason, that it stands still.

    Raises what `Api.wait` raises.
    """
    end = asyncio.ensure_future(api.wait(execution))
    told = {""}
    try:
        for seconds in looks:
            done, _ = await asyncio.wait((end,), timeout=seconds)
            if done:
                break
            if (said := await _look(api, execution)) not in told:
                told.add(said)
                warnings.warn(said, stacklevel=2)
        await end
    finally:
        end.cancel()
        await asyncio.wait((end,))


async def _look(api: Api, execution: str) -> str:
    try:
        view = await api.execution(execution)
    except PerdureError:  # whoever waits hears of it, if it lasts
        return ""
    return _standstill(view)


def _standstill(view: ExecutionView) -> str:
    """Say what an execution waits for that only somebody's act can give; nothing if it moves by itself."""
    if view.state in (states.Execution.PAUSED, states.Execution.STUCK):
        why = f" ({view.reason})" if view.reason else ""
        said = (
            f"is {view.state}{why}: {view.message or 'nobody said why.'} `perdure doctor {view.id}` says how it goes on"
        )
    elif view.approvals:
        first = view.approvals[0]
        said = (
            f"waits for a person to decide on a call of {first.tool}: `perdure approvals approve {first.id}`, or reject"
        )
    elif doubts := [one for one in view.waits if one.kind == "ruling"]:
        said = f"waits for {doubts[0].detail}: `perdure doctor {view.id}` says how to rule on it"
    else:
        return ""
    return f"execution {view.id} {said}. This program waits for its end."
