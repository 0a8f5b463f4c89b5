"""What a user interface needs over HTTP: a way in."""

from __future__ import annotations

from perdure.client.channel import Ask, OverHttp
from perdure.wire import codec, routes
from perdure.wire.bodies_screen import LinkView


class HttpScreen(OverHttp):
    """A link that signs a browser in, as whoever the key belongs to."""

    async def new_link(self) -> LinkView:
        """Make one. Sent again it makes another; the first one then ends by itself, unused."""
        return codec.load(LinkView, await self._channel.call(Ask("new_link", "POST", routes.LINKS)))
