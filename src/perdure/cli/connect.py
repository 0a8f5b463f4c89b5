"""Reach the server that a command is about, and ask it something. The only place where the CLI opens a connection."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from perdure.errors import Unreachable

if TYPE_CHECKING:
    from perdure.client.http import HttpApi
    from perdure.core.codec import Json

T = TypeVar("T")

Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        envvar="PERDURE_URL",
        help="The server's address. By default the one that this user runs on this machine.",
    ),
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="How much is logged, on stderr.")
]
By = Annotated[
    str, typer.Option("--by", metavar="NAME", help="Who asks for it. By default user@host.", show_default=False)
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the log.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Execution = Annotated[str, typer.Argument(metavar="EXECUTION", help="The execution's id.", show_default=False)]
OneOf = Annotated[
    str | None, typer.Argument(metavar="EXECUTION", help="The execution's id; or --all.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


Value = Annotated[
    str, typer.Option("--value", metavar="JSON", help="A value, as JSON. What is not JSON is text.", show_default=False)
]


def value_of(given: str) -> Json:
    """Return what was typed as a value: JSON if it is that, else the text itself."""
    from perdure.core import codec

    try:
        return codec.decode(given)
    except ValueError:
        return given


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to ask, and with which key."""

    url: str
    key: str | None


async def find(server: str | None) -> Target:
    """Return the server to speak to. Its key: PERDURE_API_KEY, or for this user's own server its state file's.

    Without a server it is the program whose embedded runtime owns this user's store.

    Raises `Unreachable` if none was named and this user runs none, and `InvalidInput` (`bad_address`).
    """
    from perdure.client.address import base_url
    from perdure.client.discover import key_for, running_server

    key = os.environ.get("PERDURE_API_KEY") or None
    if server:
        url = base_url(server)
        return Target(url, key or await key_for(url))
    state = await running_server()
    if state is not None:
        return Target(state.url, key or state.key or None)
    owner = await _program()
    if owner is not None:
        return owner
    raise Unreachable(
        "this user runs no Perdure server on this machine. Start one with `perdure server`, or name one: "
        "--server URL, or PERDURE_URL."
    )


async def _program() -> Target | None:
    """Return the program with an embedded runtime that owns this user's store, if there is one."""
    from perdure.client.discover import knows_nonce
    from perdure.runtime import default_store
    from perdure.shared_store import TRY_SECONDS
    from perdure.store.ownership import read_hint

    hint = read_hint(os.environ.get("PERDURE_STORE") or default_store())
    if hint is None or hint.address is None or hint.key is None:
        return None
    if not await knows_nonce(hint.address, hint.nonce, seconds=TRY_SECONDS):
        return None
    return Target(hint.address, hint.key)


def ask(server: str | None, question: Callable[[HttpApi], Awaitable[T]]) -> T:
    """Put one question to the server and return the answer. Raises the errors of the verbs."""
    import asyncio

    async def asked() -> T:
        from perdure.client.http import HttpApi

        target = await find(server)
        api = HttpApi(target.url, target.key)
        try:
            return await question(api)
        finally:
            await api.aclose()

    return asyncio.run(asked())
