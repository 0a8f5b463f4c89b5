"""What each action may expect of a crash: the delivery modes, and what a failed attempt leads to under each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from perdure.core import states


class Delivery(StrEnum):
    """Chosen by the author of an action."""

    REPEATABLE = "repeatable"
    """Reads and other calls that change nothing: may run again at will."""
    AT_LEAST_ONCE = "at_least_once"
    """Is done at least once; every attempt carries the same idempotency key. The default for tools."""
    AT_MOST_ONCE = "at_most_once"
    """The body starts once or never. An outcome nobody reported is `uncertain`, and somebody rules."""
    TRANSACTIONAL = "transactional"
    """Its effect and a record of it commit in one transaction of the caller's own database (`perdure.ledger`). It is
    tried like `at_least_once`, with the same key; the record is what keeps it from acting twice."""


NOT_DONE = "not_done"
"""Code of a failure by which the author of a tool vouches that nothing happened."""
UNSERIALISABLE = "unserialisable"
TOO_LARGE = "too_large"
UNKEPT = frozenset({UNSERIALISABLE, TOO_LARGE})
"""Codes of failures of what a body gave, not of the body: it ran to its end, and may have acted."""


class Verdict(StrEnum):
    """What a failed attempt leads to."""

    RETRY = "retry"
    TAKE_BACK = "take_back"
    """A retry of what had begun, on its author's word that nothing happened."""
    DIE = "die"
    LOSE = "lose"
    """Nobody knows whether it acted."""


@dataclass(frozen=True, slots=True)
class Tries:
    """How often a task was tried, and what may still be done."""

    state: str
    attempt: int
    """Tries so far, this one included; of what had begun, its claims."""
    most: int
    permanent: bool = False
    """Asking again cannot change the failure, or nobody wants it any more."""
    not_done: bool = False
    """The author's word that nothing happened."""
    key_forgotten: bool = False
    """By the next try, whoever is called will not know its key any more."""
    unkept: bool = False
    """It acts and it returned, and what it returned cannot be kept: that must not look as if it had failed."""


def after_failure(tries: Tries) -> Verdict:
    """Say what follows a failed attempt.

    Begun means that it may have acted, so it is tried again only on its author's word that it did not. Anything else
    may be, so many times in all, unless the failure is of a kind that asking again cannot change, or the key that
    makes asking again safe would be forgotten by then. What acted and brought a result that cannot be kept waits for a
    person at first sight: told that it failed, a model would do it once more.
    """
    begun = tries.state in (states.Task.BEGUN, states.Task.UNCERTAIN)
    if (begun and not tries.not_done) or tries.unkept:
        return Verdict.LOSE
    if tries.permanent or tries.attempt >= tries.most:
        return Verdict.DIE
    if begun:
        return Verdict.TAKE_BACK
    return Verdict.LOSE if tries.key_forgotten and not tries.not_done else Verdict.RETRY


def tighten(delivery: Delivery, floor: Delivery) -> Delivery:
    """Return the stricter of an author's choice and a policy's. A policy never loosens anything.

    Under the floor `at_most_once`, what would be tried again after a crash is not. `repeatable` stays as it is: such a
    call changes nothing, so nothing is gained by having a person rule on it; and so does `transactional`.
    """
    if (delivery, floor) == (Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE):
        return floor
    return delivery


def floor_of(name: str) -> Delivery:
    """Return the policy of that name. Raises `ValueError` for what is none: a floor says how strict acting must be."""
    floor = Delivery(name)
    if floor in (Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE):
        return floor
    raise ValueError(name)


_PROBE = "?probe"
"""In no name that anybody may give: a probe is a task, a tool and a lane of its own, and no older worker takes it."""


def probe_address(address: str) -> str:
    """Return the address of the task that finds out what became of the one at `address`."""
    return address + _PROBE


def probed_address(address: str) -> str:
    """Return the address that a probe is about; any other address is its own."""
    return address.removesuffix(_PROBE)


def probe_tool(tool: str) -> str:
    """Return the name under which workers serve the probe of a tool."""
    return tool + _PROBE


def probed_tool(tool: str) -> str:
    """Return the tool that a probe is about; any other tool is its own."""
    return tool.removesuffix(_PROBE)


_SIMULATION = "?simulate"
"""As above: what stands in for a tool in a fork is served under a name that no tool can have."""


def simulation_tool(tool: str) -> str:
    """Return the name under which the simulation of a tool is served."""
    return tool + _SIMULATION


def simulated_tool(tool: str) -> str:
    """Return the tool that a simulation stands in for; any other tool is its own."""
    return tool.removesuffix(_SIMULATION)


def is_simulation(tool: str) -> bool:
    """Say whether a task of this name runs a simulation, which acts on nothing."""
    return tool.endswith(_SIMULATION)
