"""The verbs about hooks of rooms. A part of `wire.api.Api`. None of them returns a secret."""

from __future__ import annotations

from typing import Protocol

from perdure.core.hooks import HookView


class HooksApi(Protocol):
    """A company's hooks: addresses at which programs outside wake an agent, or say something to a company."""

    async def add_room_hook(self, room: str, name: str, to: str, secret: str) -> HookView:
        """Have what is posted to `/v1/hooks/SECRET` said to a member of a room. The caller made the secret, of chance.

        The same again changes nothing. Raises `NotFound`, `InvalidInput` (`bad_hook`, `no_such_member`), `Conflict`
        (`hook_exists`).
        """
        ...

    async def room_hooks(self) -> list[HookView]:
        """Return them by name."""
        ...

    async def remove_room_hook(self, name: str) -> None:
        """Take one away: its address answers like one that never was. Raises `NotFound`."""
        ...
