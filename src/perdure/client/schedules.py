"""Starts by the calendar, as programs make and see them: `runtime.schedules`. Every verb has an async twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

from perdure.client.handle import AgentHandle, Connection
from perdure.core.codec import Json
from perdure.core.schedules import Missed, Overlap, ScheduleRequest, ScheduleView
from perdure.core.tags import checked_tags
from perdure.core.views import StartRequest


class ScheduleOptions(TypedDict, total=False):
    """What may be said of a schedule."""

    zone: str
    """The time zone that `cron` is read in: UTC."""
    missed: Missed
    """What becomes of ticks for which no server was there: `skip`, `one` (the latest), `all` (up to 100). `one`."""
    overlap: Overlap
    """What becomes of a tick while what the schedule began last has not ended: `allow` begins another one beside it;
    `skip` begins nothing, which `skipped` and `last_skipped_ms` of the schedule tell. `allow`."""
    tags: Sequence[str]
    """Of all that it begins."""


class Schedules:
    """The schedules of one runtime's server."""

    def __init__(self, runtime: Connection, start_of: Callable[[Any, Json], StartRequest]) -> None:
        """`start_of` says what a declared agent or durable function is begun by."""
        self._runtime = runtime
        self._start_of = start_of

    async def create_async(
        self,
        name: str,
        declared: Any,
        input: Json,
        *,
        cron: str,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleView:
        """Have the server begin an execution at each tick of `cron` (minute, hour, day, month, day of the week), read
        in the time zone `zone`. `declared` is an agent, which stays as it is now, or a durable function.

        Each tick begins one execution, whatever restarts in between; with `overlap="skip"` none while the one before
        has not ended. The same schedule again changes nothing. Raises `Conflict` (`schedule_exists`) for another of
        that name, `InvalidInput` (`bad_schedule`).
        """
        start = self._start_of(declared, input)
        given: dict[str, Any] = {**options, "tags": checked_tags(options.get("tags", ()))}
        request = ScheduleRequest(name, start.spec, start.input, cron, **given)
        return await self._runtime.join(self._runtime.api.create_schedule(request))

    def create(
        self,
        name: str,
        declared: Any,
        input: Json,
        *,
        cron: str,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleView:
        return self._runtime.wait(self.create_async(name, declared, input, cron=cron, **options))

    async def get_async(self, name: str) -> ScheduleView:
        """Return one. Raises `NotFound`."""
        return await self._runtime.join(self._runtime.api.schedule(name))

    def get(self, name: str) -> ScheduleView:
        return self._runtime.wait(self.get_async(name))

    async def pause_async(self, name: str) -> ScheduleView:
        """Begin nothing until it is resumed. Ticks meanwhile are not missed: there are none."""
        return await self._runtime.join(self._runtime.api.pause_schedule(name))

    def pause(self, name: str) -> ScheduleView:
        return self._runtime.wait(self.pause_async(name))

    async def resume_async(self, name: str) -> ScheduleView:
        """Go on with the next tick from now."""
        return await self._runtime.join(self._runtime.api.resume_schedule(name))

    def resume(self, name: str) -> ScheduleView:
        return self._runtime.wait(self.resume_async(name))

    async def delete_async(self, name: str) -> None:
        """Take it away; what it began goes on."""
        await self._runtime.join(self._runtime.api.delete_schedule(name))

    def delete(self, name: str) -> None:
        self._runtime.wait(self.delete_async(name))

    async def run_now_async(self, name: str, *, nonce: str = "") -> AgentHandle:
        """Begin now what it begins, beside its ticks. The same `nonce` begins nothing more.

        Raises `Conflict` (`schedule_busy`) with `overlap="skip"`, while what it began last has not ended.
        """
        started = await self._runtime.join(self._runtime.api.trigger_schedule(name, nonce=nonce))
        return AgentHandle(started.id, self._runtime)

    def run_now(self, name: str, *, nonce: str = "") -> AgentHandle:
        return self._runtime.wait(self.run_now_async(name, nonce=nonce))

    async def list_async(self) -> list[ScheduleView]:
        """Return all schedules, by name."""
        return await self._runtime.join(self._runtime.api.schedules())

    def list(self) -> list[ScheduleView]:
        return self._runtime.wait(self.list_async())
