"""What one execution did, and whether anything can have been done or paid twice: read off its log, through the API.

The log is followed by its hashes first. One that was changed proves nothing, and nothing is said of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from perdure.core import codec, states
from perdure.core.chain import Checked, Follower, Link, LogPage
from perdure.core.events import Event, Kind
from perdure.core.ledger import InlineSteps, ModelCalls
from perdure.core.spoken import plural
from perdure.core.views import EffectView, InlineStepView, ModelCallView
from perdure.wire.api import Api
from perdure.wire.pages import all_effects


@dataclass(frozen=True, slots=True)
class Verified:
    """What following one log found."""

    execution: str
    events: int
    unhashed: int
    """So many events at the beginning are older than the chain: it does not cover them."""
    head: str
    broken_at: int | None
    """The first `seq` that is not what it was; None if all are."""
    why: str

    @property
    def holds(self) -> bool:
        return self.broken_at is None


@dataclass(frozen=True, slots=True)
class Account:
    """One execution: whether its log holds, and what the log says it did."""

    verified: Verified
    agent: str
    state: str
    effects: tuple[EffectView, ...]
    """Empty if the log does not hold: it says nothing then."""
    model_calls: tuple[ModelCallView, ...]
    steps: tuple[InlineStepView, ...] = ()
    """Those that a durable function ran itself."""
    forked: Event | None = None
    """Where the log of a fork begins to be its own."""


async def account_of(api: Api, execution: str) -> Account:
    """Read a whole log, follow its chain, and tell what it says. Raises `NotFound`."""
    follower, calls, steps, page, forked = Follower(execution), ModelCalls(), InlineSteps(), None, None
    async for page in pages_of(api, execution):
        follower.take(page.links)
        links = [] if follower.broken else [link for link in page.links if link.seq <= page.events]  # no evidence
        for event in map(event_of, links):
            calls.take(event)
            steps.take(event)
            forked = event if event.kind is Kind.FORKED else forked
    assert page is not None
    found = verified(execution, follower.end(page.head, page.last_seq))
    if not found.holds:
        return Account(found, page.agent, page.state, (), ())
    effects = [one async for one in all_effects(api, execution)]  # with the attempts under way, which no log knows
    return Account(found, page.agent, page.state, tuple(effects), tuple(calls.found), tuple(steps.found), forked)


@dataclass(frozen=True, slots=True)
class Proof:
    """The answer to "was anything done twice?"."""

    execution: str
    agent: str
    state: str
    log: Verified
    twice: bool | None
    """None: the log proves nothing."""
    verdict: str
    """One line."""
    effects: int
    model_calls: int
    doubted_calls: tuple[ModelCallView, ...]
    """Those that may have been paid twice."""
    doubted_steps: tuple[InlineStepView, ...]
    """Those that may have been tried twice."""


async def proof_of(api: Api, execution: str) -> Proof:
    """Read a whole log, and say what it proves. Raises `NotFound`."""
    found = await account_of(api, execution)
    verdict, sure = verdict_of(found)
    return Proof(
        execution=execution,
        agent=found.agent,
        state=found.state,
        log=found.verified,
        twice=None if sure is None else not sure,
        verdict=verdict,
        effects=len(found.effects),
        model_calls=len(found.model_calls),
        doubted_calls=tuple(one for one in found.model_calls if one.doubt),
        doubted_steps=tuple(one for one in found.steps if one.doubt),
    )


def verdict_of(found: Account) -> tuple[str, bool | None]:
    """Return the closing line, and whether nothing can have been done twice: None if the log proves nothing."""
    if not found.verified.holds:
        return f"Nothing is proven: {found.verified.why}.", None
    twice = [one for one in found.effects if one.confirmed > 1]
    doubted = [one for one in found.effects if one.doubt and one.confirmed <= 1]
    paid = [one for one in found.model_calls if one.doubt]
    tried = [one for one in found.steps if one.doubt]
    parts = [
        f"{plural(len(twice), 'effect')} reported done more than once" if twice else "",
        f"{plural(len(doubted), 'effect')} possibly done more than once" if doubted else "",
        f"{plural(len(paid), 'model call')} possibly paid twice" if paid else "",
        f"{plural(len(tried), 'step')} possibly tried twice" if tried else "",
    ]
    unknown = sum(one.state == states.Task.UNCERTAIN for one in found.effects)
    open_ends = f" Whether {plural(unknown, 'effect')} happened at all is unknown." if unknown else ""
    if said := ", ".join(part for part in parts if part):
        return f"{'Yes' if twice else 'Possibly'}: {said}, as the lines above say.{open_ends}", False
    simulated = sum(one.simulated for one in found.effects) + sum(one.simulated for one in found.steps)
    counts = f"{plural(sum(not one.simulated for one in found.effects), 'effect')}, "
    counts += f"{plural(len(found.model_calls), 'model call')}{f', {simulated} simulated' if simulated else ''}"
    return f"No: nothing was done or paid twice ({counts}; {_covered(found)}).{open_ends}", True


def _covered(found: Account) -> str:
    log = found.verified
    older = f"; the first {log.unhashed} are older than the chain and not covered" if log.unhashed else ""
    return f"all {plural(log.events, 'event')} hashed, up to {log.head or 'none'}{older}{_copied(found.forked)}"


def _copied(forked: Event | None) -> str:
    """Say whose the first events are: this chain proves that they were copied, and the origin's that they happened."""
    if forked is None:
        return ""
    head = forked.data.get("head") or "none"
    return f"; those before {forked.seq} are copies of {forked.data['origin']}, up to its hash {head}"


async def pages_of(api: Api, execution: str) -> AsyncIterator[LogPage]:
    """Yield a log page by page; the last one says where the log ended when it was read."""
    after = 0
    while True:
        page = await api.log(execution, after=after)
        yield page
        if not page.links or page.links[-1].seq >= page.last_seq:
            return
        after = page.links[-1].seq


def event_of(link: Link) -> Event:
    """Decode a stored row."""
    return Event(link.seq, Kind(link.kind), link.address, link.digest, codec.decode(link.data), link.at_ms)


def verified(execution: str, found: Checked) -> Verified:
    """Say of which execution something was found."""
    return Verified(execution, found.links, found.unhashed, found.head, found.broken_at, found.why)
