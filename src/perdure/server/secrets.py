"""The secrets of every company, for this server: kept sealed in the store, opened here, told to nobody.

Values leave this module only for the request that uses them. What is read is believed for a moment, so a change made
at another server counts there within `BELIEVED_SECONDS`; one made here counts from the next request.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from perdure import log
from perdure.core.ports import Clock, Random
from perdure.core.redaction import Redaction, redaction
from perdure.core.secrets import MOST_SECRETS, Rotation, SecretView, no_secret
from perdure.engine.secrets import (
    ChangeSecrets,
    SealedKey,
    SealedSecret,
    Stored,
    change_secrets,
    companies_with_secrets,
    known_server_key,
    revision_of,
    stored_secrets,
)
from perdure.errors import LimitExceeded, NotFound, Retryable, UserError
from perdure.server import sealing, server_keys
from perdure.server.bridge import Bridge
from perdure.server.sealing import Damaged, Sealing
from perdure.server.server_keys import KEY_BYTES, KeyRing, ServerKey

said = log.get_log(__name__)

BELIEVED_SECONDS = 2.0
MOST_COMPANIES = 1_000
"""Whose secrets are kept open at a time."""
MOST_HIDDEN = 2_000
"""Values that are taken out of lines of the log; the oldest are forgotten."""
_TRIES = 20
"""Changes of one company's secrets that another server may be faster with, one after the other."""


@dataclass(frozen=True, slots=True)
class _Known:
    revision: int
    values: Mapping[str, str]
    until_ms: int


class Secrets:
    """Safe from any loop: what it keeps is replaced whole, never changed."""

    def __init__(self, bridge: Bridge, clock: Clock, random: Random, ring: KeyRing) -> None:
        self._bridge, self._clock, self._random, self._ring = bridge, clock, random, ring
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._changes = 0
        """Made here so far: what was read before one is not believed after it."""
        self._seen: OrderedDict[str, None] = OrderedDict()
        """Values that were open here, those of secrets that are gone too: they may still come back."""
        self._lock = threading.Lock()
        """Guards these two: secrets are opened on any loop."""
        self._hidden = Redaction()
        self._sealing: Sealing | None = None
        log.rewrites.append(self._hide)

    def close(self) -> None:
        """Keep nothing open any more."""
        self._known.clear()
        if self._hide in log.rewrites:
            log.rewrites.remove(self._hide)

    # -- use -----------------------------------------------------------------------------------------------------------

    async def of(self, company: str) -> Mapping[str, str]:
        """Return a company's secrets by name. One that has none costs a look at one row in each moment.

        Raises `UserError` (`secrets_key_missing`, `secrets_key_wrong`, `secret_damaged`, `missing_extra`).
        """
        known, changes, now_ms = self._known.get(company), self._changes, self._clock.monotonic_ms()
        if known is not None and now_ms < known.until_ms:
            return known.values
        revision = await self._bridge.glance(lambda reads: revision_of(reads, company))
        until_ms = now_ms + round(BELIEVED_SECONDS * 1000)
        if known is not None and known.revision == revision:
            found = replace(known, until_ms=until_ms)
        elif revision == 0:
            found = _Known(0, {}, until_ms)
        else:
            stored = await self._bridge.read(lambda reads: stored_secrets(reads, company))
            found = _Known(stored.revision, await self._opened(stored), until_ms)
        if changes == self._changes:
            self._keep(company, found)
        return found.values

    def _keep(self, company: str, found: _Known) -> None:
        self._known[company] = found
        while len(self._known) > MOST_COMPANIES:
            self._known.popitem(last=False)

    def _forget(self, company: str) -> None:
        self._changes += 1
        self._known.pop(company, None)

    def hide(self, *values: str) -> None:
        """Take values out of this process's log from now on."""
        with self._lock:
            if all(value in self._seen for value in values):
                return
            self._seen.update(dict.fromkeys(values))
            while len(self._seen) > MOST_HIDDEN:
                self._seen.popitem(last=False)
            self._hidden = redaction(self._seen)

    def _hide(self, line: str) -> str:
        return self._hidden.text(line)

    # -- verbs ---------------------------------------------------------------------------------------------------------

    async def views(self, company: str) -> list[SecretView]:
        """Return what is known of a company's secrets but their values. Needs no key."""
        stored = await self._bridge.read(lambda reads: stored_secrets(reads, company))
        return [SecretView(one.name, one.set_by, one.set_ms, one.version) for one in stored.secrets]

    async def set(self, company: str, name: str, value: str, by: str) -> SecretView:
        """Keep a value, which was checked, under a name, in place of the one that was there."""
        self.hide(value)
        await self._change(company, partial(self._to_set, name=name, value=value, by=by))
        said.info("secret.set", company=company, secret=name, by=by)
        for view in await self.views(company):
            if view.name == name:
                return view
        raise NotFound(no_secret(name), code="no_secret")  # it was deleted since

    async def delete(self, company: str, name: str) -> None:
        """Take one away. Raises `NotFound`. Needs no key, so that what nobody can open can be put away too."""
        seen = False

        async def plan(stored: Stored) -> ChangeSecrets | None:
            nonlocal seen
            if stored.key is not None and any(one.name == name for one in stored.secrets):
                seen = True
                return ChangeSecrets(stored.company, stored.revision, stored.key, drop=(name,))
            if seen:  # it went since: by somebody else, or by a change of ours that was committed and reported lost
                return None
            raise NotFound(no_secret(name), code="no_secret")

        await self._change(company, plan)
        said.info("secret.deleted", company=company, secret=name)

    async def rotate(self, company: str) -> Rotation:
        """Seal all of a company's secrets under a new data key, and that under the first server key: all or none."""
        change = await self._change(company, self._to_rotate)
        if change is None:
            return Rotation(0, 0, "")
        said.info("secrets.rotated", company=company, secrets=len(change.put), server_key=change.key.server_key)
        return Rotation(1, len(change.put), change.key.server_key)

    async def rotate_all(self) -> Rotation:
        """Do so for each company, one after the other. What was done before it is killed need not be done again."""
        done = Rotation(0, 0, "")
        for company in await self._bridge.read(companies_with_secrets):
            one = await self.rotate(company)
            done = Rotation(done.companies + one.companies, done.secrets + one.secrets, one.server_key)
        return done

    async def _change(
        self, company: str, plan: Callable[[Stored], Awaitable[ChangeSecrets | None]]
    ) -> ChangeSecrets | None:
        """Make a change of what is there; if somebody was faster, of what is there then. Return what was made."""
        for _ in range(_TRIES):
            change = await plan(await self._bridge.read(lambda reads: stored_secrets(reads, company)))
            if change is None or await self._bridge.run(change_secrets, change):
                self._forget(company)
                return change
        raise Retryable(f"the secrets of company {company} are being changed elsewhere all the time. Try again.")

    async def _to_set(self, stored: Stored, *, name: str, value: str, by: str) -> ChangeSecrets:
        if len(stored.secrets) >= MOST_SECRETS and all(one.name != name for one in stored.secrets):
            raise LimitExceeded(
                f"company {stored.company} has {MOST_SECRETS} secrets, which is the most. Delete one first.",
                code="too_many_secrets",
            )
        sealing = await self._loaded()
        key, data_key = await self._data_key(stored, sealing)
        secret = SealedSecret(name, stored.revision + 1, "", by, 0, key.id)
        sealed = sealing.seal_secret(stored.company, (key.id, data_key), secret, value)
        return ChangeSecrets(stored.company, stored.revision, key, (sealed,))

    async def _to_rotate(self, stored: Stored) -> ChangeSecrets | None:
        if stored.key is None or not stored.secrets:
            return None
        sealing, values = await self._loaded(), await self._opened(stored)
        key, data_key = self._new_key(stored.company, sealing, self._ring.found()[0])
        new = (key.id, data_key)
        put = tuple(sealing.seal_secret(stored.company, new, one, values[one.name]) for one in stored.secrets)
        return ChangeSecrets(stored.company, stored.revision, key, put)

    # -- keys ----------------------------------------------------------------------------------------------------------

    async def _data_key(self, stored: Stored, sealing: Sealing) -> tuple[SealedKey, bytes]:
        """Return the data key of a company; make one, and the server's own key, where nothing is under any."""
        if stored.key is not None and stored.secrets:
            return stored.key, self._unwrap(stored.company, stored.key, sealing)
        keys = self._ring.found()
        if not keys:
            wanted = await self._bridge.read(known_server_key)
            if wanted is not None:  # of other companies': a key of our own making would hide that theirs is missing
                raise server_keys.wrong(stored.company, wanted, keys, self._ring.own)
            keys = await asyncio.to_thread(self._ring.made, self._random)
        return self._new_key(stored.company, sealing, keys[0])

    def _new_key(self, company: str, sealing: Sealing, server_key: ServerKey) -> tuple[SealedKey, bytes]:
        id, data_key = f"dk_{self._random.token(8).hex()}", self._random.token(KEY_BYTES)
        return sealing.wrap(company, id, data_key, server_key), data_key

    def _unwrap(self, company: str, key: SealedKey, sealing: Sealing) -> bytes:
        keys = self._ring.found()
        for server_key in keys:
            if server_key.id == key.server_key:
                try:
                    return sealing.unwrap(company, key, server_key)
                except Damaged:
                    raise _damaged(company, "their key") from None
        raise server_keys.wrong(company, key.server_key, keys, self._ring.own)

    async def _opened(self, stored: Stored) -> dict[str, str]:
        """Return the values. One that cannot be opened refuses all: no other key may take its place."""
        if stored.key is None or not stored.secrets:
            return {}
        sealing = await self._loaded()
        data_key = self._unwrap(stored.company, stored.key, sealing)
        values: dict[str, str] = {}
        for one in stored.secrets:
            try:
                values[one.name] = sealing.open_secret(stored.company, (stored.key.id, data_key), one)
            except Damaged:
                raise _damaged(stored.company, one.name) from None
        self.hide(*values.values())
        return values

    async def _loaded(self) -> Sealing:
        self._sealing = self._sealing or await sealing.load(self._random)
        return self._sealing


def _damaged(company: str, what: str) -> UserError:
    return UserError(
        f"secrets of company {company}: the row of {what} was altered or moved, and cannot be opened. Set it "
        "again or delete it, or restore the store from a backup.",
        code="secret_damaged",
        company=company,
    )
