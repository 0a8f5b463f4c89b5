"""What a reply cost, from price data that ships with a package: no request is made to learn a price.

An estimate by list price. Unknown is None, never zero.
"""

from __future__ import annotations

from typing import Any

from perdure.models.port import Usage


def cost_usd(provider: str, model: str, usage: Usage, *, base_url: str | None = None) -> float | None:
    """Return the list price of a reply in US dollars, cached tokens at their own price, or None if it is not known.

    `provider` is the one whose own address answered. With `base_url`, an address of the agent's owner, only the
    address says who answered, so a model that merely shares a name with a dear one is not priced like it.
    """
    from genai_prices import Usage as Priced  # noqa: PLC0415 - 0.2 s that a process without models need not spend
    from genai_prices import calc_price  # noqa: PLC0415 - as above

    if not (usage.input_tokens or usage.output_tokens):
        return None
    where: dict[str, Any] = {"provider_id": provider} if base_url is None else {"provider_api_url": base_url}
    tokens = Priced(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        return float(calc_price(tokens, model, **where).total_price)
    except (LookupError, ValueError):  # an unknown model or address; counts that contradict each other
        return None
