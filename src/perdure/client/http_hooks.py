"""The verbs about hooks of rooms over HTTP."""

from __future__ import annotations

from perdure.client.channel import Ask, OverHttp
from perdure.core.hooks import HookView
from perdure.wire import bodies_hooks as shapes
from perdure.wire import codec, routes


class HttpHooks(OverHttp):
    """`HooksApi` over HTTP."""

    async def add_room_hook(self, room: str, name: str, to: str, secret: str) -> HookView:
        body = codec.dump_given(shapes.HookBody(name, to, secret))
        ask = Ask("add_room_hook", "POST", routes.fill(routes.ROOM_HOOKS, room=room), body=body)
        return codec.load(HookView, await self._channel.call(ask))

    async def room_hooks(self) -> list[HookView]:
        found = await self._channel.call(Ask("room_hooks", "GET", routes.HOOKS))
        return list(codec.load(shapes.HookList, found).items)

    async def remove_room_hook(self, name: str) -> None:
        path = routes.fill(routes.HOOK, hook=name)
        # Not sent again once it may have arrived: the second would say that there is none.
        await self._channel.call(Ask("remove_room_hook", "DELETE", path, safe=False))
