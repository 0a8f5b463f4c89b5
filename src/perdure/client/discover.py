"""Find this user's running server, without ever showing its key to anybody else.

A state file says where it listened. Only who knows the file's nonce can answer the challenge, so a program that
took the port of a server that died is not mistaken for it.
"""

from __future__ import annotations

import hmac
from itertools import count
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import orjson

from perdure.client.address import base_url, is_loopback
from perdure.client.channel import Ask, Channel
from perdure.errors import PerdureError, UserError
from perdure.system import SystemRandom
from perdure.wire import routes, state_file
from perdure.wire.state_file import ServerState

ANSWER_SECONDS = 2.0


async def running_server(place: Path | None = None) -> ServerState | None:
    """Return the address and key of the server that this user runs, or None if none answers.

    `place`: a state file, or a folder of them; by default this user's.
    Raises `UserError`: `several_servers` if more than one answers, naming them; `state_file_refused` if a file is not
    this user's alone.
    """
    answering = [state for state in _known(place) if await knows_nonce(state.url, state.nonce)]
    found = list({state.store: state for state in reversed(answering)}.values())  # those of one store are all equal
    if len(found) > 1:
        named = ", ".join(f"{state.url} (process {state.pid})" for state in found)
        raise UserError(
            f"this user runs {len(found)} Perdure servers on this machine: {named}. Say which one is meant: "
            "`--server URL`, PERDURE_URL, or `AgentRuntime(URL)`.",
            code="several_servers",
            urls=[state.url for state in found],
        )
    return found[0] if found else None


async def free_place(store: str) -> Path:
    """Return the state file for a further server of a store: the first of which no server speaks now."""
    for number in count(1):
        place = state_file.path_of(store, number)
        state = state_file.read(place)
        if state is None or not state.url or not await knows_nonce(state.url, state.nonce):
            return place
    raise AssertionError("unreachable")


async def key_for(url: str, place: Path | None = None) -> str | None:
    """Return the key of this user's running server at `url`; None if that is another: no key leaves on a guess."""
    target = urlsplit(base_url(url))
    if not is_loopback(target.geturl()):
        return None
    for state in _known(place):
        at_target = is_loopback(state.url) and urlsplit(state.url).port == target.port
        if at_target and await knows_nonce(state.url, state.nonce):
            return state.key or None
    return None


def _known(place: Path | None) -> list[ServerState]:
    """Return what the state files say of servers that have not said that they stopped."""
    states = map(state_file.read, state_file.within(place or state_file.folder()))
    return [state for state in states if state is not None and state.url]


async def knows_nonce(url: str, nonce: str, *, seconds: float = ANSWER_SECONDS) -> bool:
    """Say whether the server that answers at `url` knows `nonce`. One that does not learns nothing of it."""
    challenge = SystemRandom().token(16).hex()
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
