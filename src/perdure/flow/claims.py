"""Claims of `at_most_once` steps that a run makes itself: which body may start, and which was begun by another life.

A claim is durable before its body starts, and its nonce says whose it is. One that was begun by another run of the
execution, of which nobody reported the end, is said to be lost: somebody rules; it is never begun again by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from perdure.core.events import Event, Kind
from perdure.core.items import BeginStep, EndStep, Item
from perdure.flow.asks import Ask
from perdure.flow.bodies import Bodies
from perdure.flow.context import Body, Pending


@dataclass(slots=True)
class _Claim:
    ask: Ask
    item: BeginStep
    body: Body
    made: bool = False
    """Whether this run itself had it written; a claim that was in the log before is another life's."""
    latest: Event | None = None
    """What was said of it last."""
    seen: bool = True
    """Whether what follows from that was done."""


class Claims:
    """The claims of one run. Owner: its desk."""

    def __init__(self, bodies: Bodies, new_id: Callable[[str], str]) -> None:
        self._bodies = bodies
        self._new_id = new_id
        self._claims: dict[str, _Claim] = {}
        self.known = False
        """Whether there ever was one: most runs have none, and pay nothing for it."""

    def add(self, pending: Pending, item: BeginStep, body: Body) -> None:
        """Know of a step that the code asked for."""
        self.known = True
        self._claims[pending.ask.address] = _Claim(pending.ask, item, body)

    def made(self, address: str) -> None:
        """Know that this run is about to write a claim."""
        self._claims[address].made = True

    def heard(self, ask: Ask, event: Event) -> None:
        """Take what the log says of a claim."""
        if (claim := self._claims.get(ask.address)) is not None:
            claim.latest, claim.seen = event, ask.answered

    def ended(self, address: str) -> None:
        """Forget a claim of which the code has been told the end."""
        self._claims.pop(address, None)

    @property
    def open(self) -> bool:
        """Whether it is unknown of any what became of it."""
        return any(map(_open, self._claims.values()))

    def follow(self) -> Iterator[Item]:
        """The log is used up: start bodies whose claim stands, and give what is to be written about others."""
        for claim in self._claims.values():
            if claim.seen or claim.latest is None:
                continue
            claim.seen = True
            match claim.latest.kind:
                case Kind.TASK_BEGUN if claim.made and claim.latest.data.get("nonce") == claim.item.nonce:
                    if claim.ask.abandoned:
                        yield EndStep(claim.ask.address, claim.ask.digest, claim.item.nonce, "cancelled")
                    else:
                        self._bodies.start_claimed(claim.ask, claim.body, claim.item.nonce)
                case Kind.TASK_BEGUN:
                    yield EndStep(claim.ask.address, claim.ask.digest, "", "lost")
                case Kind.EFFECT_RULED if not claim.ask.abandoned:
                    claim.item = replace(claim.item, address=claim.ask.address, nonce=self._new_id("cla"))
                    claim.made = True
                    yield claim.item
                case _:
                    continue


def _open(claim: _Claim) -> bool:
    given_up = claim.ask.abandoned and claim.latest is not None and claim.latest.kind is Kind.EFFECT_RULED
    return claim.latest is not None and not claim.ask.answered and not given_up
