"""`perdure ui`: print a link that signs a browser in to the web UI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.cli.connect import AsJson, Server, ask

if TYPE_CHECKING:
    from perdure.client.http import HttpApi
    from perdure.wire.bodies_screen import LinkView


def ui(server: Server = None, as_json: AsJson = False) -> None:
    """Print a link that signs one browser in, once, within ten minutes. The session lasts two weeks."""
    from perdure.cli.terminal import console, print_json

    url, link = ask(server, _link)
    if as_json:
        print_json({"login": url + link.path, "expires_ms": link.expires_ms})
        return
    console().print(url + link.path, soft_wrap=True, highlight=False)


async def _link(api: HttpApi) -> tuple[str, LinkView]:
    return api.url, await api.new_link()
