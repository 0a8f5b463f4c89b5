"""The verbs about queues over HTTP."""

from __future__ import annotations

from perdure.client.channel import Ask, OverHttp
from perdure.core.queues import DeadFilter, DeadPage, QueueLimits, QueueView
from perdure.wire import bodies, codec, routes


class HttpQueues(OverHttp):
    """`QueuesApi` over HTTP."""

    async def queues(self) -> list[QueueView]:
        found = codec.load(bodies.QueueList, await self._channel.call(Ask("queues", "GET", routes.QUEUES)))
        return list(found.items)

    async def queue(self, name: str) -> QueueView:
        ask = Ask("queue", "GET", routes.fill(routes.QUEUE, queue=name))
        return codec.load(QueueView, await self._channel.call(ask))

    async def set_queue(self, name: str, limits: QueueLimits, *, by: str = "") -> QueueView:
        body = bodies.QueueBody(limits.concurrency, limits.rate, limits.per_seconds, by, limits.per_key)
        ask = Ask("set_queue", "PUT", routes.fill(routes.QUEUE, queue=name), body=codec.dump_given(body))
        return codec.load(QueueView, await self._channel.call(ask))

    async def pause_queue(self, name: str, *, by: str = "") -> QueueView:
        return await self._turn("pause_queue", routes.QUEUE_PAUSE, name, by)

    async def resume_queue(self, name: str, *, by: str = "") -> QueueView:
        return await self._turn("resume_queue", routes.QUEUE_RESUME, name, by)

    async def dead_tasks(self, wanted: DeadFilter, *, cursor: str | None = None, limit: int = 50) -> DeadPage:
        given = {"agent": wanted.agent, "tool": wanted.tool, "queue": wanted.queue, "since_ms": wanted.since_ms}
        query = {
            name: value for name, value in {**given, "cursor": cursor, "limit": limit}.items() if value is not None
        }
        return codec.load(DeadPage, await self._channel.call(Ask("dead_tasks", "GET", routes.DEAD, query)))

    async def _turn(self, verb: str, template: str, name: str, by: str) -> QueueView:
        body = codec.dump_given(bodies.ByBody(by))
        return codec.load(
            QueueView, await self._channel.call(Ask(verb, "POST", routes.fill(template, queue=name), body=body))
        )
