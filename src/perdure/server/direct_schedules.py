"""The verbs about schedules in-process: straight to the engine through the bridge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from perdure.core import codec
from perdure.core.ids import check_named, new_id
from perdure.core.ports import Clock, Random
from perdure.core.schedules import Missed, Overlap, ScheduleRequest, ScheduleView
from perdure.core.tags import checked_tags
from perdure.core.views import Started
from perdure.engine.calendar import check_calendar
from perdure.engine.schedule import (
    ChangeSchedule,
    MakeSchedule,
    change_schedule,
    known_schedule,
    make_schedule,
    schedule_view,
    schedules_view,
)
from perdure.errors import InvalidInput
from perdure.server.bridge import Bridge

MAX_NAME = 100
Definition = Callable[[str], tuple[str, str, str]]
"""Checks the text of a definition and returns its name, its fingerprint and its lane."""


class DirectSchedules:
    """`SchedulesApi` of one company."""

    def __init__(self, bridge: Bridge, company: str, clock: Clock, random: Random, definition: Definition) -> None:
        self._bridge, self._company = bridge, company
        self._clock, self._random = clock, random
        self._definition = definition

    async def create_schedule(self, request: ScheduleRequest, *, by: str = "") -> ScheduleView:
        check_named(schedule=request.name)
        _check_name(request.name)
        check_calendar(request.cron, request.zone)
        _check_rule("missed", request.missed, get_args(Missed))
        _check_rule("overlap", request.overlap, get_args(Overlap))
        spec = codec.encode_json(request.spec)
        agent, definition, lane = self._definition(spec)
        row = MakeSchedule(
            company=self._company,
            name=request.name,
            agent=agent,
            definition=definition,
            spec=spec,
            lane=lane,
            input=codec.encode(request.input, "input"),
            cron=request.cron,
            zone=request.zone,
            missed=request.missed,
            by=by,
            tags=checked_tags(request.tags),
            overlap=request.overlap,
        )
        await self._bridge.ask(make_schedule, row)
        return await self.schedule(request.name)

    async def schedules(self) -> list[ScheduleView]:
        return await self._bridge.read(lambda reads: schedules_view(reads, self._company))

    async def schedule(self, name: str) -> ScheduleView:
        check_named(schedule=name)
        return await self._bridge.read(lambda reads: schedule_view(reads, self._company, name))

    async def pause_schedule(self, name: str) -> ScheduleView:
        await self._change(name, "pause")
        return await self.schedule(name)

    async def resume_schedule(self, name: str) -> ScheduleView:
        await self._change(name, "resume")
        return await self.schedule(name)

    async def delete_schedule(self, name: str) -> None:
        check_named(schedule=name)
        # Before: the store may run the deletion twice, and the second time there is none.
        await self._bridge.read(lambda reads: known_schedule(reads, self._company, name))
        await self._change(name, "delete")

    async def trigger_schedule(self, name: str, *, nonce: str = "") -> Started:
        check_named(schedule=name)
        nonce = nonce or new_id("now", self._clock, self._random)  # the store may run it twice
        return await self._bridge.ask(change_schedule, ChangeSchedule(self._company, name, "trigger", nonce))

    async def _change(self, name: str, verb: Literal["pause", "resume", "delete"]) -> None:
        check_named(schedule=name)
        await self._bridge.ask(change_schedule, ChangeSchedule(self._company, name, verb))


def _check_rule(what: str, found: str, known: tuple[str, ...]) -> None:
    if found not in known:
        raise InvalidInput(
            f"a schedule's {what} should be one of {', '.join(known)}, found {found!r:.80}.", code="bad_schedule"
        )


def _check_name(name: str) -> None:
    if not 0 < len(name) <= MAX_NAME or not name.isprintable() or name != name.strip():
        raise InvalidInput(
            f"a schedule's name should have 1 to {MAX_NAME} printable characters and no space around them, found "
            f"{name[:80]!r}."
        )
