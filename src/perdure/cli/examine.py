"""What the doctor looks at when no execution is named: this installation, the store, the server. Changes nothing."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

from perdure.cli import moments, phrases
from perdure.cli.connect import Target, find
from perdure.cli.terminal import home_short
from perdure.client.discover import knows_nonce
from perdure.client.http import HttpApi
from perdure.core.schedules import ScheduleView
from perdure.core.views import Finding, ServerInfo
from perdure.database import is_address
from perdure.errors import InvalidInput, PerdureError, Unauthorized, Unreachable
from perdure.runtime import default_store
from perdure.store.ownership import read_hint
from perdure.version import VERSION
from perdure.wire import state_file

SQLITE_OLDEST = (3, 35, 0)
"""`RETURNING` came with it."""
SQLITE_SOUND = (3, 51, 3)
"""Before it, two connections that write or checkpoint at one time could corrupt a WAL file."""
SKEW_MS = 60_000
EXTRAS = {
    "openai": ("openai", "OPENAI_API_KEY"),
    "anthropic": ("anthropic", "ANTHROPIC_API_KEY"),
    "google": ("google.genai", "GOOGLE_API_KEY"),
    "postgres": ("psycopg", None),
    "secrets": ("cryptography", None),
    "mcp": ("mcp", None),
    "a2a": ("a2a", None),
    "vectors": ("wordllama", None),
}
"""Extra: what it installs, and the variable that holds its key."""


def examine(server: str | None) -> list[Finding]:
    """Return findings, the basic ones first."""
    return [*_installation(), *_store(), *asyncio.run(_server(server))]


def _installation() -> Iterator[Finding]:
    python = f"Python {platform.python_version()} ({sys.executable})"
    yield Finding("ok", f"perdure {VERSION}, {python}, {platform.system()} {platform.release()}")
    yield _sqlite()
    there = [name for name, (module, _) in EXTRAS.items() if _installed(module)]
    keys = [key for _, key in EXTRAS.values() if key and os.environ.get(key)]
    missing = sorted(EXTRAS.keys() - set(there))
    said = f"extras installed: {', '.join(there) or 'none'}; not: {', '.join(missing) or 'none'}"
    yield Finding("ok", f"{said}. Keys in this environment: {', '.join(keys) or 'none'}")


def _sqlite() -> Finding:
    found = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < SQLITE_OLDEST:
        return Finding("problem", f"SQLite {found} is too old; 3.35 or newer is needed. Use a newer Python build.")
    if sqlite3.sqlite_version_info < SQLITE_SOUND:
        return Finding(
            "note",
            f"SQLite {found}: before 3.51.3 a second writer or checkpointer can corrupt a WAL file. Perdure writes and "
            "checkpoints on one connection, so it is not affected; let no other program write to its file.",
        )
    return Finding("ok", f"SQLite {found}")


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _store() -> Iterator[Finding]:
    named = os.environ.get("PERDURE_STORE") or str(default_store())
    if is_address(named):
        yield _database(named)
        return
    place = Path(named)
    shown = home_short(str(place))
    if not place.exists():
        yield Finding("ok", f"store {shown}: not there yet; the first server or runtime makes it")
        return
    if not os.access(place, os.R_OK | os.W_OK):
        yield Finding("problem", f"store {shown}: this user may not read and write it")
    size = place.stat().st_size
    hint = read_hint(place)
    owner = "nobody says that he owns it"
    if hint is not None:
        owner = f"its last owner was process {hint.pid}"
        if hint.address and asyncio.run(knows_nonce(hint.address, hint.nonce)):
            owner = f"owned by process {hint.pid}, which answers at {hint.address}"
        elif hint.address:
            owner += f", which does not answer at {hint.address}"
    yield Finding("ok", f"store {shown}: {size:,} bytes; {owner}")


def _database(address: str) -> Finding:
    """Name a database without its password. Whether it answers, its servers know."""
    try:
        from perdure.store.postgres_link import Address
    except ImportError:
        said = "PERDURE_STORE is the address of a PostgreSQL, which a server needs psycopg for"
        return Finding("problem", said, "pip install 'perdure[postgres]'")
    try:
        return Finding("ok", f"store {Address(address).shown}: reached through its servers")
    except InvalidInput as error:
        return Finding("problem", error.message)


async def _server(server: str | None) -> list[Finding]:
    try:
        target = await find(server)
    except Unreachable as error:
        return [Finding("note", error.message, "perdure server")]
    except PerdureError as error:
        return [Finding("problem", error.message)]
    api = HttpApi(target.url, target.key)
    try:
        return await _answers(api, target)
    except Unauthorized as error:
        return [Finding("problem", f"the server at {target.url} answers, but refuses the key. {error.message}")]
    except PerdureError as error:
        return [Finding("problem", error.message)]
    finally:
        await api.aclose()


async def _answers(api: HttpApi, target: Target) -> list[Finding]:
    sent_ms = moments.now_ms()
    info = await api.info()
    took = phrases.duration(moments.now_ms() - sent_ms)
    findings = [
        Finding("ok", f"server {target.url}: answers in {took}, {_key(target)}; {info.dialect}, perdure {info.version}")
    ]
    if info.version != VERSION:
        findings.append(Finding("note", f"the server is perdure {info.version}, this is {VERSION}"))
    findings.append(_clock(info, sent_ms))
    workers = await api.workers()
    if workers:
        named = ", ".join(f"{one.name} ({phrases.plural(len(one.lanes), 'tool')})" for one in workers)
        findings.append(Finding("ok", f"{phrases.plural(len(workers), 'worker')}: {named}"))
    else:
        findings.append(
            Finding("note", "no worker is connected: tools wait until one is", "perdure worker MODULE:AGENT")
        )
    findings += [_paused(one) for one in await api.schedules() if one.paused]
    return findings


def _paused(schedule: ScheduleView) -> Finding:
    last = f"; it began {schedule.last_execution} last" if schedule.last_execution else ""
    what = f"schedule {schedule.name} ({schedule.cron}, {schedule.zone}) is paused and begins nothing{last}"
    return Finding("note", what, f"perdure schedules resume {schedule.name}")


def _key(target: Target) -> str:
    if os.environ.get("PERDURE_API_KEY"):
        return "takes the key of PERDURE_API_KEY"
    return f"takes the key that stands in {home_short(str(state_file.folder()))}" if target.key else "asks for no key"


def _clock(info: ServerInfo, now_ms: int) -> Finding:
    ahead = info.started_ms - now_ms
    if ahead > SKEW_MS:
        what = f"the server says it started {phrases.duration(ahead)} from now: its clock or this one is wrong"
        return Finding("problem", what)
    return Finding("ok", f"clock: the server started {phrases.ago(info.started_ms, now_ms)}")
