"""What something cost, by currency: amounts as decimal text, so that cents add up. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import cast

from perdure.errors import InvalidInput

Costs = Mapping[str, str]
"""From currency to amount: `{"USD": "0.25"}`. What is not there cost nothing that anybody told of."""

_CURRENCY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,15}")
_MOST_CHARACTERS = 40


def cost_of(amount: float | Decimal | str, currency: str) -> tuple[str, str]:
    """Return a cost as (currency, amount) in the form that is kept. Raises `InvalidInput` (`bad_cost`)."""
    found = None if isinstance(amount, bool) else _number(amount)
    if found is None or found < 0:
        raise InvalidInput(f"a cost of {amount!r:.80}: expected a number, 0 or more.", code="bad_cost")
    text = format(found, "f")
    if len(text) > _MOST_CHARACTERS:
        raise InvalidInput(f"a cost of {text:.80}: it has more than {_MOST_CHARACTERS} digits.", code="bad_cost")
    if not _CURRENCY.fullmatch(currency):
        raise InvalidInput(
            f"a cost in {currency!r:.80}: a currency is its code, like USD, at most 16 characters.", code="bad_cost"
        )
    return currency, text


def total(costs: Iterable[Costs | object]) -> dict[str, str]:
    """Add costs up, by currency. What can be read by nobody counts nothing: a ledger must be readable."""
    sums: dict[str, Decimal] = {}
    for one in costs:
        found: Mapping[object, object] = cast("Mapping[object, object]", one) if isinstance(one, Mapping) else {}
        for currency, amount in found.items():
            number = _number(amount) if isinstance(amount, str) else None
            if isinstance(currency, str) and number is not None:
                sums[currency] = sums.get(currency, Decimal(0)) + number
    return {currency: format(amount, "f") for currency, amount in sorted(sums.items())}


def _number(amount: float | Decimal | str) -> Decimal | None:
    try:
        number = Decimal(str(amount).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= _MOST_CHARACTERS else None
