"""Costs add up to the cent, by currency, and nothing that cannot be read keeps anything else from being read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from perdure.core.costs import cost_of, total
from perdure.errors import InvalidInput


def test_amounts_add_up_exactly() -> None:
    costs = [dict([cost_of(amount, "USD")]) for amount in (0.1, 0.2, "0.30", Decimal("1.405"))]
    assert total([*costs, dict([cost_of(3, "EUR")])]) == {"EUR": "3", "USD": "2.005"}
    assert total([]) == {}


@pytest.mark.parametrize("amount", [-0.01, float("nan"), float("inf"), "much", True, "1e99", "0." + "1" * 50])
def test_what_is_no_amount_is_refused(amount: Any) -> None:
    with pytest.raises(InvalidInput, match="cost") as caught:
        cost_of(amount, "USD")
    assert caught.value.code == "bad_cost"


@pytest.mark.parametrize("currency", ["", "$", "US D", "x" * 17])
def test_what_is_no_currency_is_refused(currency: str) -> None:
    with pytest.raises(InvalidInput, match="a currency is its code"):
        cost_of(1, currency)


@pytest.mark.parametrize("odd", [None, 5, "USD", {"USD": 5}, {"USD": "much"}, {"USD": "nan"}, {5: "1"}])
def test_what_cannot_be_read_counts_nothing(odd: Any) -> None:
    assert total([odd, {"USD": "1"}]) == {"USD": "1"}
