"""Ask a server for a foreign room and for one that is not there, many times in turn: does the time tell which is which?

Over real HTTP, at a server in a process of its own, by every route of rooms, as a company that is not in the room. The
two requests of a round come one right after the other, in an order of chance, so that whatever else the machine does
hits both. Prints for each route the difference of the middles, the noise, which is the difference that 95 of 100
shuffles of the same times stay below, and p: how many shuffles make a larger one. Exit code 1 if a route's difference
is larger than in any shuffle, and above the bar.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from foreign_rooms import OWN_LIST, ROOM_ROUTES, Pair, World, pairs, world
from http_server import process

BAR_US = 20.0
"""Microseconds that a difference may have: nobody sees them over a network that is not this machine's own."""
SHUFFLES = 1_000
WARM_UP = 5


@dataclass(frozen=True, slots=True)
class Route:
    """What asking by one route took, in microseconds: for the room, and for what is not there, round by round."""

    name: str
    real: list[float]
    twin: list[float]

    @property
    def difference(self) -> float:
        return median(self.real) - median(self.twin)

    def shuffled(self, chance: Random) -> list[float]:
        """Return the differences when chance says in each round which time was whose, the smallest first."""
        rounds = list(zip(self.real, self.twin, strict=True))
        found: list[float] = []
        for _ in range(SHUFFLES):
            swapped = [(b, a) if chance.getrandbits(1) else (a, b) for a, b in rounds]
            found.append(abs(median(a for a, _ in swapped) - median(b for _, b in swapped)))
        return sorted(found)

    def tells(self, p: float) -> bool:
        """Say whether the time tells a room from none, `p` being of its difference: no shuffle came near."""
        return p <= 1 / SHUFFLES and abs(self.difference) > BAR_US


class Asker:
    """One connection to a server, with one company's key."""

    def __init__(self, address: tuple[str, int], key: str) -> None:
        self._connection = http.client.HTTPConnection(*address, timeout=30)
        self._headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}

    def took(self, method: str, path: str, body: object) -> float:
        """Ask; return how long the answer took, in microseconds."""
        content = None if body is None else json.dumps(body)
        began = time.perf_counter_ns()
        self._connection.request(method, path, content, self._headers)
        reply = self._connection.getresponse()
        reply.read()
        took = (time.perf_counter_ns() - began) / 1000
        if reply.status != 404:
            raise SystemExit(f"{method} {path} was answered with {reply.status}; 404 is expected")
        return took


def one_each(here: World) -> dict[str, Pair]:
    """Return for each route the first request there is: all that it names is the room's own id."""
    routes = [route for route in ROOM_ROUTES if route not in OWN_LIST]
    return {" ".join(route): next(iter(pairs(here, [route]))) for route in routes}


def measure(asker: Asker, name: str, one: Pair, rounds: int, chance: Random) -> Route:
    """Ask for a room and for its twin, in turn."""
    real, twin = (one.method, one.real, one.real_body), (one.method, one.twin, one.twin_body)
    took: dict[bool, list[float]] = {True: [], False: []}
    for number in range(WARM_UP + rounds):
        first = bool(chance.getrandbits(1))
        for is_real in (first, not first):
            microseconds = asker.took(*(real if is_real else twin))
            if number >= WARM_UP:
                took[is_real].append(microseconds)
    return Route(name, took[True], took[False])


def shown(route: Route, chance: Random) -> float:
    """Print one; return its p."""
    shuffled = route.shuffled(chance)
    p = (1 + sum(one >= abs(route.difference) for one in shuffled)) / (1 + len(shuffled))
    noise = shuffled[round(len(shuffled) * 0.95) - 1]
    figures = f"{median(route.twin):8.0f} us   {route.difference:+7.1f} us   noise {noise:6.1f} us   p {p:.3f}"
    print(f"{route.name:48} {figures}")
    return p


async def made(place: Path) -> World:
    async with world(place) as here:
        return here


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=400, help="pairs of requests for each route")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-bar", action="store_true", help="only print")
    options = parser.parse_args()
    chance = Random(options.seed)  # noqa: S311 - an order, and shuffles
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "s.db"
        here = asyncio.run(made(place))
        with process(place) as server:
            asker = Asker(server.address, here.stranger)
            routes = [measure(asker, *one, options.rounds, chance) for one in one_each(here).items()]
    found = [(shown(route, chance), route) for route in routes]
    told = [route for p, route in found if route.tells(p)]
    small = sum(p < 0.05 for p, _ in found)
    largest = max(abs(route.difference) for route in routes)
    by_chance = len(found) / 20
    print(f"{len(found)} routes, {options.rounds} rounds each; p below 0.05 at {small}, by chance at {by_chance:.0f}")
    print(f"largest difference {largest:.1f} us; above noise and bar ({BAR_US:.0f} us): {len(told)}")
    return int(bool(told) and not options.no_bar)


if __name__ == "__main__":
    sys.exit(main())
