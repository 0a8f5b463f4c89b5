"""The verbs about hooks of rooms in-process."""

from __future__ import annotations

from perdure.core.hooks import Hook, HookView, check_hook
from perdure.core.ids import check_named
from perdure.core.rooms import Post, check_act
from perdure.engine.hooks import AddHook, RemoveHook, add_hook, hooks_view, known_hook, remove_hook
from perdure.server.bridge import Bridge


class DirectHooks:
    """`HooksApi` of one company."""

    def __init__(self, bridge: Bridge, company: str) -> None:
        self._bridge, self._company = bridge, company

    async def add_room_hook(self, room: str, name: str, to: str, secret: str) -> HookView:
        check_named(room=room, name=name, to=to, secret=secret)
        check_hook(name, secret)
        check_act(Post("x", (to,)))
        return await self._bridge.ask(add_hook, AddHook(Hook(self._company, name, room, to), secret))

    async def room_hooks(self) -> list[HookView]:
        return await self._bridge.read(lambda reads: hooks_view(reads, self._company))

    async def remove_room_hook(self, name: str) -> None:
        check_named(name=name)
        # Before: the store may run the removal twice, and the second time there is none.
        await self._bridge.read(lambda reads: known_hook(reads, self._company, name))
        await self._bridge.run(remove_hook, RemoveHook(self._company, name))
