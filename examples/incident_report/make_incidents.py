"""Write `incidents.csv`: a quarter of incidents at a shop that does not exist, the same ones every time.

The data is invented; one thing in it is worth finding. Run it as `python make_incidents.py > incidents.csv`.
"""

from __future__ import annotations

import csv
import random
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import IO

SEED = 20260105
FIRST_DAY = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
WEEKS = 13

COLUMNS = (
    "id",
    "opened_at",
    "acknowledged_at",
    "resolved_at",
    "severity",
    "service",
    "region",
    "cause",
    "title",
    "customer_impact_minutes",
)
REGIONS = {"eu-west": 5, "us-east": 4, "ap-south": 2}
SEVERITIES = {"SEV1": 3, "SEV2": 14, "SEV3": 45, "SEV4": 38}
MEDIAN_MINUTES = {"SEV1": 55, "SEV2": 110, "SEV3": 260, "SEV4": 540}

SERVICES = {
    "search": 9,
    "catalog": 8,
    "identity": 6,
    "payments": 7,
    "notifications": 8,
    "inventory": 7,
    "warehouse-sync": 6,
}
"""How often each fails by itself. `checkout` is not among them: it has its own story below."""

TITLES = {
    "capacity": ["{} latency above 2 s at peak", "{} queue 40 minutes behind", "Connection pool of {} exhausted"],
    "dependency": ["{} times out on its provider", "{} answers 502 while DNS flaps", "Upstream of {} drops requests"],
    "configuration": ["Feature flag switches {} to an empty backend", "{} reads an expired certificate"],
    "deploy": ["{} error rate up after release", "{} restarts in a loop after release"],
    "hardware": ["Node of {} lost its disk", "{} replica 15 minutes behind after a host failure"],
    "data": ["{} rejects records with an empty currency", "Duplicate rows in the {} index"],
}
CAUSES = {"capacity": 9, "dependency": 10, "configuration": 5, "deploy": 6, "hardware": 4, "data": 4}

CHECKOUT_TITLES = (
    "checkout returns 500 for carts with vouchers after weekly release",
    "checkout payment step hangs after weekly release",
    "checkout error rate at 12% after weekly release",
    "checkout sessions lost after weekly release",
)


@dataclass(frozen=True, slots=True)
class Incident:
    opened: datetime
    severity: str
    service: str
    cause: str
    title: str
    minutes: int | None
    """Until resolved; None: still open."""


def main(out: IO[str]) -> None:
    dice = random.Random(SEED)  # noqa: S311 - invented data
    incidents = [*_everyday(dice), *_checkout(dice), *_memorable()]
    incidents.sort(key=lambda incident: incident.opened)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, incident in enumerate(incidents, start=1):
        writer.writerow(_row(number, incident, dice))


def _everyday(dice: random.Random) -> list[Incident]:
    """What goes wrong on any day: less at the weekend, more by day than by night."""
    incidents: list[Incident] = []
    for day in range(WEEKS * 7):
        weekend = day % 7 >= 5
        for _ in range(max(0, round(dice.gauss(1.6 if weekend else 3.6, 1.1)))):
            hour = min(23, max(0, round(dice.gauss(13, 5))))
            service, cause = _pick(dice, SERVICES), _pick(dice, CAUSES)
            opened = FIRST_DAY + timedelta(days=day, hours=hour, minutes=dice.randrange(60))
            title = dice.choice(TITLES[cause]).format(service)
            incidents.append(_incident(dice, opened, _pick(dice, SEVERITIES), service, cause, title))
    return incidents


def _checkout(dice: random.Random) -> list[Incident]:
    """The pattern: `checkout` is released on Mondays at 09:00 and fails in the two hours after, most weeks."""
    incidents: list[Incident] = []
    for week in range(WEEKS):
        monday = FIRST_DAY + timedelta(weeks=week)
        for _ in range(0 if week == 5 else dice.choice((2, 2, 3, 3, 4))):
            opened = monday + timedelta(hours=9, minutes=5 + dice.randrange(110))
            severity = dice.choice(("SEV2", "SEV2", "SEV3", "SEV1"))
            incidents.append(_incident(dice, opened, severity, "checkout", "deploy", dice.choice(CHECKOUT_TITLES)))
        if dice.random() < 0.7:
            opened = monday + timedelta(days=dice.randrange(7), hours=dice.randrange(24), minutes=dice.randrange(60))
            cause = dice.choice(("dependency", "capacity"))
            title = dice.choice(TITLES[cause]).format("checkout")
            incidents.append(_incident(dice, opened, "SEV3", "checkout", cause, title))
    return incidents


def _memorable() -> list[Incident]:
    """The slowest one, and three that nobody has closed yet."""
    last = FIRST_DAY + timedelta(weeks=WEEKS, days=-2)
    return [
        Incident(
            datetime(2026, 2, 11, 16, 42, tzinfo=UTC),
            "SEV2",
            "payments",
            "data",
            "payments ledger disagrees with the bank by 1,204 transfers",
            6 * 24 * 60 + 197,
        ),
        Incident(last + timedelta(hours=8, minutes=12), "SEV4", "search", "capacity", "search suggestions stale", None),
        Incident(
            last + timedelta(hours=30, minutes=3), "SEV3", "inventory", "data", "inventory counts below zero", None
        ),
        Incident(last + timedelta(hours=41, minutes=37), "SEV3", "identity", "dependency", "identity mails late", None),
    ]


def _incident(dice: random.Random, opened: datetime, severity: str, service: str, cause: str, title: str) -> Incident:
    minutes = round(MEDIAN_MINUTES[severity] * dice.lognormvariate(0, 0.6))
    return Incident(opened, severity, service, cause, title, max(6, min(minutes, 4 * 24 * 60)))


def _row(number: int, incident: Incident, dice: random.Random) -> list[object]:
    limit = incident.minutes if incident.minutes is not None else 60
    acknowledged = incident.opened + timedelta(minutes=max(1, min(round(dice.lognormvariate(1.6, 0.7)), limit - 1)))
    resolved = "" if incident.minutes is None else _iso(incident.opened + timedelta(minutes=incident.minutes))
    noticed = min(incident.minutes or 0, 360)
    share = {"SEV1": 0.9, "SEV2": 0.6, "SEV3": 0.2, "SEV4": 0.0}[incident.severity]
    return [
        f"INC-{2400 + number}",
        _iso(incident.opened),
        _iso(acknowledged),
        resolved,
        incident.severity,
        incident.service,
        _pick(dice, REGIONS),
        incident.cause,
        incident.title,
        round(noticed * share * dice.uniform(0.5, 1.0)),
    ]


def _pick(dice: random.Random, weights: dict[str, int]) -> str:
    return dice.choices(list(weights), list(weights.values()))[0]


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    main(sys.stdout)
