"""The definitions that executions run under, as this server applies them: with its own policy for their tools."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

from perdure.agent.spec import AgentSpec, spec_from_json, tightened
from perdure.core import codec
from perdure.core.delivery import Delivery
from perdure.core.notices import Notice, is_notice, notice_from_json
from perdure.rooms.spec import WakeSpec, is_wake, wake_spec
from perdure.server.bridge import Bridge
from perdure.store.protocol import Reads

Definition = AgentSpec | WakeSpec | Notice


class Definitions:
    """Reads each once, as long as no more than so many others were read since: what a digest names never changes."""

    def __init__(self, bridge: Bridge, floor: Delivery, most_kept: int) -> None:
        """`floor` is for the tools of all agents: see `core.delivery.tighten`."""
        self._bridge = bridge
        self._floor = floor
        self._most_kept = most_kept
        self._kept: OrderedDict[tuple[str, str], Definition] = OrderedDict()
        """By company and digest; the oldest comes first, and goes first."""

    async def of(self, company: str, digest: str) -> Definition:
        """Return one of a company's. Raises `flow.runs.UNREADABLE` for what is not there or cannot be read."""
        key = (company, digest)
        known = self._kept.get(key)
        if known is None:

            def stored(reads: Reads) -> str:
                row = reads.row("definition", company=company, digest=digest)
                if row is None:
                    raise ValueError(f"definition {digest} is missing")
                return row["spec"]

            found = codec.decode(await self._bridge.read(stored))
            known = self._kept[key] = _read(found, self._floor)
            if len(self._kept) > self._most_kept:
                self._kept.popitem(last=False)
        return known


def _read(found: Any, floor: Delivery) -> Definition:
    """Read one under this server's policy. What was scheduled before keeps the mode it was scheduled with."""
    if is_notice(found):
        return notice_from_json(found)
    if is_wake(found):
        wake = wake_spec(found)
        return replace(wake, agent=_under(wake.agent, floor))
    return _under(spec_from_json(found), floor)


def _under(spec: AgentSpec, floor: Delivery) -> AgentSpec:
    return replace(spec, tools=tuple(tightened(tool, floor) for tool in spec.tools))
