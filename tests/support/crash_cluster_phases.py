"""The phases of the long crash run over PostgreSQL: a server at each of its failpoints, and storms over a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import postgres_server
from crash_case import Case, Nudge, Outcome, Storm, Strike
from crash_cases import Cases, outcomes, take
from crash_cluster import LONGEST_STALL, STALLS
from crash_net import WAYS, why_not
from crash_on_postgres import OnPostgres
from crash_phase import Phase, Room, Tally
from crash_points import LATE, Point, points
from crash_postgres import room_for_servers

ERRANDS = (
    *(("crowd",), ("crowd", "tokens"), ("crowd", "send"), ("crowd", "children"), ("crowd", "pause", "revive")),
    *(("crowd", "doubt"), ("crowd", "fork", "cancel"), ("crowd", "queues", "schedule")),
)
"""What clients do in storms, in turn."""
DENSE, SPARSE = (14, 0.4), (5, 2.5)
"""Blows, and seconds between them: so that one meets what another left, and so that each has time to pass."""
PROMOTED = 10
"""Of so many storms, in one a standby takes the place of the primary."""
WORK = {"model.send": 2, "record.before_commit": 2, "complete.before_commit": 1, "complete.after_commit": 1}
"""Points in the work of the server that holds an execution, and which pass of them is meant. At none of them another
thread is about to ask a model: a request that was begun leaves when a stopped process goes on, however late that is."""
LEASE_MS = 2_000
TRIES = 3
LINGER_SECONDS = 0.25
ENOUGH = 100_000
DEADLINE_SECONDS = 150.0


def kill_at_failpoints(room: Room, tally: Tally) -> None:
    """Kill the one server of a database at each of its points."""
    due = [point for point in points(in_database=True) if point.holder == "server" and not point.unreached]
    first = room.seed % len(due)
    cases = [(lambda point=point: _at(point)) for point in (*due[first:], *due[:first])]
    done = 0
    for outcome in _outcomes(cases, room, tally):
        for name in (LONGEST_STALL, STALLS):  # nobody is there who could go on
            outcome.counts.pop(name, None)
        take(outcome, tally)
        done += 1
        for point in outcome.unfired:
            tally.violated("failpoints", f"{outcome.name}: {point} is never passed on PostgreSQL")
    if done < len(due):
        tally.not_covered.append(f"{len(due) - done} of {len(due)} points of servers on PostgreSQL, for want of time")


def _at(point: Point) -> Case:
    return replace(point.case((point.holder,)), deadline_seconds=DEADLINE_SECONDS)


def single_faults() -> list[Case]:
    """Return cases in which one thing befalls the server that holds an execution, and lasts until that has ended."""
    killed = [_fault(point, "kill") for point in WORK]
    stopped = [_fault(point, "stop", Nudge("event:completed", "cont", "server")) for point in WORK]
    cut = [
        _fault(
            point,
            f"{how} {way}",
            Nudge("strike:1", f"{how} {way}", "server"),
            Nudge("nudge:1", "cont", "server"),
            Nudge("event:completed", "heal", "server"),
        )
        for how in ("cut", "hide")
        for way in WAYS
        for point in WORK
    ]
    return [*killed, *stopped, *(() if why_not() else cut)]


def _fault(point: str, what: str, *nudges: Nudge) -> Case:
    """Return a case. The client's next life asks another server than the one that is struck."""
    return Case(
        name=f"{what} at {point}",
        strikes=(Strike(point, "server", WORK[point], ("server",) if what == "kill" else ()),),
        nudges=(*nudges, Nudge("strike:1", "kill", "client")),
        layout="cluster",
        setup={"lease_ms": LEASE_MS},
        expect=LATE,
        deadline_seconds=DEADLINE_SECONDS,
    )


def measure_stalls(room: Room, tally: Tally) -> None:
    """See how long the execution stands still in each. What takes too long thrice is no accident of the machine's."""
    left, longest = single_faults(), 0
    if why := why_not():
        tally.not_covered.append(f"nothing was cut off: {why}")
    alone = replace(room, jobs=1)
    for number in range(TRIES):
        slow: dict[str, str] = {}
        for outcome in _outcomes([(lambda case=case: case) for case in left], alone, tally):
            stall = outcome.counts.pop(LONGEST_STALL, 0)
            slow |= {outcome.name: outcome.slow} if outcome.counts.pop(STALLS, 0) else {}
            longest = longest if outcome.slow else max(longest, stall)
            take(outcome, tally)
        left = [case for case in left if case.name in slow]
        if not left:
            break
        tally.counts["measured again"] += len(left) if number < TRIES - 1 else 0
    for case in left:
        tally.violated("stall", f"{case.name}: {slow[case.name]}, with leases of {LEASE_MS} ms")
    tally.counts["longest stall after one fault, ms"] = longest


def storm_clusters(room: Room, tally: Tally) -> None:
    """Have storms go over clusters until the time is up."""
    longest = 0
    for outcome in _outcomes(storms(room.seed), room, tally):
        longest = max(longest, outcome.counts.pop(LONGEST_STALL, 0))
        take(outcome, tally)
    tally.counts[LONGEST_STALL] = longest


def storms(seed: int) -> Cases:
    """Return more storms than there is time for."""

    def case(number: int) -> Case:
        blows, seconds = SPARSE if number % 4 == 3 else DENSE
        storm = Storm(seed * ENOUGH + number, blows, mean_seconds=seconds, stop_seconds=1.5)
        return Case(
            name=f"storm {storm.seed} (cluster)",
            storm=storm,
            layout="cluster",
            setup={"errands": list(ERRANDS[number % len(ERRANDS)]), "linger_seconds": LINGER_SECONDS},
            expect=LATE,
            deadline_seconds=DEADLINE_SECONDS,
            standby=number % PROMOTED == PROMOTED - 1,
        )

    return [(lambda number=number: case(number)) for number in range(ENOUGH)]


def _outcomes(cases: Cases, room: Room, tally: Tally) -> Iterator[Outcome]:
    if postgres_server.find_binaries() is None:
        tally.not_covered.append("nothing on PostgreSQL: there are no binaries of it")
        return
    with room_for_servers() as under:
        yield from outcomes(cases, room, OnPostgres(under))


PHASES = (  # a taste of each in an hour of everything; alone, they have all of the time
    Phase("PostgreSQL", kill_at_failpoints, 4, due={"runs": 20}),
    Phase("single faults", measure_stalls, 3, due={"runs": 4}),
    Phase("cluster", storm_clusters, 5, due={"kills in flight": 50, "database crashes": 3}),
)
