"""Budgets of a company for its agents in rooms, by the day in UTC: what they hold, and whether a request fits. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from perdure.errors import InvalidInput

DAY_MS = 86_400_000
MICROS = 1_000_000
"""Of a US dollar."""
MOST_USD = 1_000_000_000.0
MOST_TOKENS = 10**15
OUTPUT_TOKENS = 8_192
"""What a reply may have where its agent does not say, once its company has a budget."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A cap on a day, for all of a company's agents in rooms or for those that it names. None: no cap of that kind."""

    room: str = ""
    """Empty: in all rooms."""
    agent: str = ""
    """Empty: of all agents."""
    usd: float | None = None
    tokens: int | None = None
    unpriced_usd: float | None = None
    """What a request counts for whose price is not known. None: such a request is not made under a cap in dollars."""


@dataclass(frozen=True, slots=True)
class BudgetView:
    """A budget, and how it stands today."""

    room: str
    agent: str
    usd: float | None
    tokens: int | None
    unpriced_usd: float | None
    spent_usd: float
    spent_tokens: int
    reserved_usd: float
    """By requests under way, and by those whose end nobody saw: these may have been billed."""
    reserved_tokens: int
    until_ms: int
    """When the day ends, by the store's clock."""


@dataclass(frozen=True, slots=True)
class Need:
    """The most that a request may cost."""

    tokens: int
    micros: int | None
    """None: its price is not known."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a day has seen, requests under way included."""

    micros: int = 0
    tokens: int = 0


def check_budget(budget: Budget) -> None:
    """Raise `InvalidInput` (`bad_budget`) for one that cannot be."""
    for name, amount, most in (
        ("usd", budget.usd, MOST_USD),
        ("tokens", budget.tokens, MOST_TOKENS),
        ("unpriced_usd", budget.unpriced_usd, MOST_USD),
    ):
        if amount is not None and not (math.isfinite(amount) and 0 <= amount <= most):
            raise InvalidInput(f"{name} should be 0 to {most:,.0f}, found {amount!r:.40}.", code="bad_budget")
    if budget.unpriced_usd is not None and budget.usd is None:
        raise InvalidInput("unpriced_usd goes with usd: what a request of unknown price counts for.", code="bad_budget")
    for name, text in (("room", budget.room), ("agent", budget.agent)):
        if len(text) > 200 or not (text.isprintable() or not text):
            raise InvalidInput(f"{name} should be a name, found {text!r:.80}.", code="bad_budget")


def micros_of(usd: float | None) -> int | None:
    """Return dollars as stored, rounded up: a cost is never counted for less."""
    return None if usd is None else math.ceil(round(usd * MICROS, 3))


def usd_of(micros: int | None) -> float | None:
    return None if micros is None else micros / MICROS


def charge_of(need: Need, budgets: Iterable[Budget]) -> int:
    """Return the micro-dollars that a request counts for before its cost is known."""
    if need.micros is not None:
        return need.micros
    return max((micros_of(one.unpriced_usd) or 0 for one in budgets), default=0)


def over(budget: Budget, spent: Spent, need: Need, charge: int) -> str:
    """Say why a request does not fit, or nothing."""
    cap = micros_of(budget.usd)
    if cap is not None and need.micros is None and budget.unpriced_usd is None:
        return "the price of its model is not known, and the budget does not say what such a request counts for"
    if cap is not None and spent.micros + charge > cap:
        left = max(cap - spent.micros, 0)
        return (
            f"${left / MICROS:.6g} of ${budget.usd:.6g} are left today, and the request may cost ${charge / MICROS:.6g}"
        )
    if budget.tokens is not None and spent.tokens + need.tokens > budget.tokens:
        left = max(budget.tokens - spent.tokens, 0)
        return f"{left:,} of {budget.tokens:,} tokens are left today, and the request may take {need.tokens:,}"
    return ""


def named(company: str, budget: Budget) -> str:
    """Return a budget in words."""
    whose = f"{company}/{budget.agent}" if budget.agent else company
    return f"the budget of {whose}{' in ' + budget.room if budget.room else ''}"
