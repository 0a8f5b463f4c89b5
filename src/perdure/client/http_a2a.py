"""The verbs about agents that are reached by A2A, over HTTP."""

from __future__ import annotations

from perdure.client.channel import Ask, OverHttp
from perdure.core.a2a import PublishedView, PushView
from perdure.core.codec import Json
from perdure.wire import bodies_a2a as bodies
from perdure.wire import codec, routes


class HttpA2a(OverHttp):
    """`A2aApi` over HTTP."""

    async def published_agents(self) -> list[PublishedView]:
        ask = Ask("published_agents", "GET", routes.A2A_AGENTS)
        return list(codec.load(bodies.PublishedList, await self._channel.call(ask)).items)

    async def publish_agent(self, spec: dict[str, Json], *, description: str = "", by: str = "") -> PublishedView:
        body = codec.dump_given(bodies.PublishBody(spec, description, by))
        ask = Ask("publish_agent", "PUT", routes.A2A_AGENTS, body=body)
        return codec.load(PublishedView, await self._channel.call(ask))

    async def withdraw_agent(self, agent: str) -> None:
        path = routes.fill(routes.A2A_AGENT, agent=agent)
        # Not sent again once it may have arrived: the second would say that there is none.
        await self._channel.call(Ask("withdraw_agent", "DELETE", path, safe=False))

    async def pushes(self, *, execution: str | None = None) -> list[PushView]:
        query = {} if execution is None else {"execution": execution}
        found = await self._channel.call(Ask("pushes", "GET", routes.A2A_PUSHES, query))
        return list(codec.load(bodies.PushList, found).items)
