"""The verbs about waits and schedules over HTTP."""

from __future__ import annotations

from perdure.client.channel import Ask, OverHttp
from perdure.core.codec import Json
from perdure.core.schedules import ScheduleRequest, ScheduleView
from perdure.core.views import Started
from perdure.wire import bodies, codec, routes


class HttpWaits(OverHttp):
    """`WaitsApi` over HTTP."""

    async def signal(
        self, execution: str, name: str, value: Json = None, *, by: str = "", dedupe: str | None = None
    ) -> int:
        path = routes.fill(routes.SIGNALS, execution=execution)
        key = dedupe or f"auto-{self._channel.random.token(16).hex()}"
        body = codec.dump_given(bodies.SignalBody(name, value, by, key))
        return codec.load(bodies.Sent, await self._channel.call(Ask("signal", "POST", path, body=body))).seq

    async def map_step(self, execution: str, old: str, new: str, *, by: str = "", reason: str = "") -> int:
        path = routes.fill(routes.MAP, execution=execution)
        ask = Ask("map_step", "POST", path, body=codec.dump_given(bodies.MapBody(old, new, by, reason)))
        return codec.load(bodies.Sent, await self._channel.call(ask)).seq

    async def complete_token(self, token: str, value: Json = None, *, by: str = "") -> None:
        path = routes.fill(routes.TOKEN_COMPLETE, token=token)
        body = codec.dump_given(bodies.CompleteBody(value, by))
        await self._channel.call(Ask("complete_token", "POST", path, body=body, most_bytes=routes.MAX_TOKEN_BYTES))

    async def fail_token(self, token: str, error: str, *, by: str = "") -> None:
        path = routes.fill(routes.TOKEN_FAIL, token=token)
        await self._channel.call(Ask("fail_token", "POST", path, body=codec.dump_given(bodies.FailBody(error, by))))


class HttpSchedules(OverHttp):
    """`SchedulesApi` over HTTP."""

    async def create_schedule(self, request: ScheduleRequest, *, by: str = "") -> ScheduleView:
        given = (request.name, request.spec, request.input, request.cron, request.zone, request.missed, by)
        body = codec.dump_given(bodies.ScheduleBody(*given, tags=request.tags, overlap=request.overlap))
        ask = Ask("create_schedule", "POST", routes.SCHEDULES, body=body)
        return codec.load(ScheduleView, await self._channel.call(ask))

    async def schedules(self) -> list[ScheduleView]:
        found = codec.load(bodies.ScheduleList, await self._channel.call(Ask("schedules", "GET", routes.SCHEDULES)))
        return list(found.items)

    async def schedule(self, name: str) -> ScheduleView:
        return await self._of_one("schedule", "GET", routes.SCHEDULE, name)

    async def pause_schedule(self, name: str) -> ScheduleView:
        return await self._of_one("pause_schedule", "POST", routes.SCHEDULE_PAUSE, name)

    async def resume_schedule(self, name: str) -> ScheduleView:
        return await self._of_one("resume_schedule", "POST", routes.SCHEDULE_RESUME, name)

    async def delete_schedule(self, name: str) -> None:
        path = routes.fill(routes.SCHEDULE, schedule=name)
        # Not sent again once it may have arrived: the second would say that there is none.
        await self._channel.call(Ask("delete_schedule", "DELETE", path, safe=False))

    async def trigger_schedule(self, name: str, *, nonce: str = "") -> Started:
        path = routes.fill(routes.SCHEDULE_TRIGGER, schedule=name)
        body = codec.dump_given(bodies.TriggerBody(nonce or self._channel.random.token(16).hex()))
        return codec.load(Started, await self._channel.call(Ask("trigger_schedule", "POST", path, body=body)))

    async def _of_one(self, verb: str, method: str, template: str, name: str) -> ScheduleView:
        path = routes.fill(template, schedule=name)
        return codec.load(ScheduleView, await self._channel.call(Ask(verb, method, path)))
