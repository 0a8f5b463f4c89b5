"""Find this user's running server, without ever showing its key to anybody else.

The state file says where it listened. Only who knows the file's nonce can answer the challenge, so a program that
took the port of a server that died is not mistaken for it.
"""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import orjson

from perdure.client.address import base_url, is_loopback
from perdure.client.channel import Ask, Channel
from perdure.core.ports import Random
from perdure.errors import PerdureError
from perdure.system import SystemRandom
from perdure.wire import routes, state_file
from perdure.wire.state_file import ServerState

ANSWER_SECONDS = 2.0


async def running_server(path: Path | None = None, *, random: Random | None = None) -> ServerState | None:
    """Return the address and key of the server that this user runs, or None if none answers.

    Raises `UserError` (`state_file_refused`) if the file is not this user's alone.
    """
    state = state_file.read(path or state_file.default_path())
    if state is None or not state.url:
        return None
    return state if await knows_nonce(state.url, state.nonce, random=random) else None


async def key_for(url: str, path: Path | None = None) -> str | None:
    """Return the key of this user's running server if it is the one at `url`, else None: no key leaves on a guess."""
    target = urlsplit(base_url(url))
    if not is_loopback(target.geturl()):
        return None
    state = await running_server(path)
    if state is None or not is_loopback(state.url) or urlsplit(state.url).port != target.port:
        return None
    return state.key or None


async def knows_nonce(url: str, nonce: str, *, seconds: float = ANSWER_SECONDS, random: Random | None = None) -> bool:
    """Say whether the server that answers at `url` knows `nonce`. One that does not learns nothing of it."""
    challenge = (random or SystemRandom()).token(16).hex()
    return hmac.compare_digest(await _ask(url, challenge, seconds), state_file.proof(nonce, challenge))


async def _ask(url: str, challenge: str, seconds: float) -> str:
    channel = Channel(url)
    ask = Ask(
        "health",
        "GET",
        routes.HEALTH,
        safe=False,  # asked once: whoever is silent for that long is as good as not there
        reply_seconds=seconds,
        headers={routes.CHALLENGE: challenge},
    )
    try:
        found: Any = orjson.loads(await channel.call(ask))
    except (PerdureError, orjson.JSONDecodeError):
        return ""
    finally:
        await channel.aclose()
    return str(cast("dict[str, Any]", found).get("proof", "")) if isinstance(found, dict) else ""
