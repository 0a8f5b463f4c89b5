"""Keep the hooks of rooms: rows beside the keys, by their hashes, and no key themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core import codec, states
from perdure.core.credentials import hash_of
from perdure.core.hooks import HOOK, Hook, HookView
from perdure.engine.rooms_members import find_member, missing_room, standing
from perdure.errors import Conflict, NotFound, PerdureError
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Reads, Row
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class AddHook:
    """A new hook, whose secret the caller made."""

    hook: Hook
    secret: str


@dataclass(frozen=True, slots=True)
class RemoveHook:
    """A hook that is to take nothing any more."""

    company: str
    name: str


@operation()
def add_hook(tx: Tx, rows: Sequence[AddHook]) -> Steps[HookView | PerdureError]:
    """Keep hooks of companies that are in their rooms. The same again changes nothing."""
    yield ()
    return [_add(tx, row) for row in rows]


def _add(tx: Tx, row: AddHook) -> HookView | PerdureError:
    hook = row.hook
    tx.speak_for(hook.company)
    if standing(tx, hook.room, hook.company) != states.Membership.JOINED:
        return missing_room(hook.room)
    member = find_member(tx, hook.room, hook.to)
    if isinstance(member, PerdureError):
        return member
    for known in tx.rows("hooks_of", company=hook.company, kind=HOOK):
        if _hook(hook.company, known) == hook and known["hash"] == hash_of(row.secret):
            return _view(known)
        if _hook(hook.company, known).name == hook.name:
            return Conflict(
                f"{hook.company} has a hook {hook.name!r}. Remove it first, or choose another name.", code="hook_exists"
            )
    name = codec.encode([hook.name, hook.room, hook.to])
    given = {"company": hook.company, "name": name, "prefix": HOOK, "now_ms": tx.now_ms}
    if not tx.run("insert_key", hash=hash_of(row.secret), **given):
        return Conflict("this secret was used before: make a new one, of chance.", code="hook_exists")
    return HookView(hook.name, hook.room, hook.to, tx.now_ms)


@operation()
def remove_hook(tx: Tx, rows: Sequence[RemoveHook]) -> Steps[None]:
    """Take hooks away; again changes nothing. Who wants to know whether there is one looks before (`known_hook`)."""
    yield ()
    for row in rows:
        for known in tx.rows("hooks_of", company=row.company, kind=HOOK):
            if _hook(row.company, known).name == row.name:
                tx.run("delete_login", kind=HOOK, hash=known["hash"], after_ms=0)
    return [None] * len(rows)


def hooks_view(reads: Reads, company: str) -> list[HookView]:
    """Return a company's hooks, by name."""
    return sorted((_view(row) for row in reads.rows("hooks_of", company=company, kind=HOOK)), key=lambda one: one.name)


def known_hook(reads: Reads, company: str, name: str) -> HookView:
    """Return a company's hook. Raises `NotFound`."""
    for one in hooks_view(reads, company):
        if one.name == name:
            return one
    raise NotFound(f"there is no hook {name[:80]!r}. `perdure rooms hooks` lists yours.", hook=name[:80])


def hook_of(reads: Reads, secret: str) -> Hook | None:
    """Return what a secret stands for, or None if there is no such hook (any more)."""
    row = reads.row("login_by_hash", kind=HOOK, hash=hash_of(secret), after_ms=0)
    return None if row is None else _hook(row["company"], row)


def _hook(company: str, row: Row) -> Hook:
    name, room, to = codec.decode(row["name"])
    return Hook(company, name, room, to)


def _view(row: Row) -> HookView:
    name, room, to = codec.decode(row["name"])
    return HookView(name, room, to, row["created_ms"])
