"""A schedule nobody made yet: `nightly`, every hour."""

from __future__ import annotations

from typing import Any

from engine_bench import AGENT, COMPANY, SPEC
from perdure.core import codec
from perdure.engine.schedule import MakeSchedule


def schedule(**options: Any) -> MakeSchedule:
    """Return it, with these fields."""
    given: dict[str, Any] = {
        "company": COMPANY,
        "name": "nightly",
        "agent": AGENT,
        "definition": codec.digest(dict(SPEC)),
        "spec": codec.encode(dict(SPEC)),
        "lane": "",
        "input": '{"day":1}',
        "cron": "0 * * * *",
        "zone": "UTC",
        "missed": "one",
        "by": "eve",
        **options,
    }
    return MakeSchedule(**given)
