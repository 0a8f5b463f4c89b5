"""Measure what one execution costs here, in CPU and bytes, and predict by arithmetic what a million of them need.

The measured execution is that of `bench/steps.py`: six scripted model replies of a thousand characters, five calls.
First embedded on SQLite; then, where PostgreSQL's binaries are, as one server on a database of this bench's own, whose
CPU time is counted too. Driver, worker and tools run in the measured process and are part of its CPU time, so a server
that only serves costs less. The prediction is arithmetic and no measurement: it multiplies, and knows nothing of the
limits that come with size. Models, networks, tools that do something, and standbys are not in it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import steps

from perdure.database import open_database
from perdure.models.catalog import Catalog
from perdure.server.node import Node, Parts
from perdure.service_loop import ServiceLoop
from perdure.shared_store import open_node
from perdure.system import SystemClock, SystemRandom
from perdure.upkeep.checking import check_store
from perdure.worker.loop import Worker, WorkerOptions

SUPPORT = Path(__file__).parents[1] / "tests" / "support"
MILLION = 1_000_000
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
HOURS_A_MONTH = 730


@dataclass(frozen=True, slots=True)
class Unit:
    """What executions cost that were run."""

    store: str
    executions: int
    seconds: float
    cpu_seconds: float
    """Of the process with server, worker and driver."""
    database_seconds: float
    """CPU of the database's own processes; 0 where it has none."""
    bytes: int
    """By which the store grew, indexes and what is not yet vacuumed included."""

    @property
    def cpu_ms(self) -> float:
        return self.cpu_seconds * 1000 / self.executions

    @property
    def database_ms(self) -> float:
        return self.database_seconds * 1000 / self.executions

    @property
    def stored(self) -> float:
        return self.bytes / self.executions


@dataclass(frozen=True, slots=True)
class Assumed:
    """What is not measured but said."""

    busy: float
    """Share of a core that may be in use on average."""
    vcpu_hour: float
    gb_month: float
    retention_days: float
    copies: int
    """Of each stored byte that are paid for: standbys, backups."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What follows for a million executions."""

    per_second_and_core: float
    core_hours: float
    gb: float
    cpu_cost: float
    storage_cost: float

    @property
    def cost(self) -> float:
        return self.cpu_cost + self.storage_cost


def forecast(unit: Unit, assumed: Assumed) -> Forecast:
    """Multiply."""
    cpu_ms = unit.cpu_ms + unit.database_ms
    core_hours = cpu_ms * MILLION / 3_600_000 / assumed.busy
    gb = unit.stored * MILLION / 1e9
    months = assumed.retention_days * 24 / HOURS_A_MONTH
    return Forecast(
        per_second_and_core=1000 / cpu_ms * assumed.busy,
        core_hours=core_hours,
        gb=gb,
        cpu_cost=core_hours * assumed.vcpu_hour,
        storage_cost=gb * months * assumed.gb_month * assumed.copies,
    )


def measure(
    store: str, where: str, open_it: Callable[[], Node], spent: Callable[[], float], concurrency: int, seconds: float
) -> Unit:
    """Run executions for a while; return what they cost. A short run before it does not count."""
    _run(open_it, spent, concurrency, min(1.0, seconds))
    before = check_store(where, logs=False)
    took, cpu, database = _run(open_it, spent, concurrency, seconds)
    after = check_store(where, logs=False)
    count = sum(after.executions.values()) - sum(before.executions.values())
    return Unit(store, count, took, cpu, database, after.bytes - before.bytes)


def _run(
    open_it: Callable[[], Node], spent: Callable[[], float], concurrency: int, seconds: float
) -> tuple[float, float, float]:
    """Return how long it took, and the CPU time of this process and of the database's."""
    service = ServiceLoop("bench-service")
    service.start()
    node = open_it()
    node.start(service.loop)
    worker = Worker(node.tasks("default"), steps.agent.lanes(), WorkerOptions(slots=64, id_prefix="local/"))
    running = service.submit(worker.run())
    database, cpu, began = spent(), time.process_time(), time.perf_counter()
    try:
        service.wait(steps.drive(node.api("default"), concurrency, seconds))
        return time.perf_counter() - began, time.process_time() - cpu, spent() - database
    finally:
        worker.stop()
        running.result()
        node.stop()
        service.stop()


def on_sqlite(folder: Path, concurrency: int, seconds: float) -> Unit:
    """Measure a server embedded in this process, on one file."""
    where = folder / "capacity.db"

    def open_it() -> Node:
        return open_node(where, Catalog(scripted={"w1": steps.script}))

    return measure("SQLite", str(where), open_it, lambda: 0.0, concurrency, seconds)


def on_postgres(concurrency: int, seconds: float) -> Unit | None:
    """Measure a server in this process on a database of its own. None: there are no binaries for one."""
    sys.path.insert(0, str(SUPPORT))
    import postgres_server  # noqa: PLC0415 - the tests', and only here

    binaries = postgres_server.find_binaries()
    if binaries is None:
        return None
    with postgres_server.running_server(binaries) as server:
        assert server.process is not None
        leader = server.process.pid

        def open_it() -> Node:
            parts = Parts(Catalog(scripted={"w1": steps.script}), SystemClock(), SystemRandom())
            return open_database(server.address, parts)[0]

        return measure("PostgreSQL", server.address, open_it, lambda: family_seconds(leader), concurrency, seconds)


def family_seconds(leader: int) -> float:
    """Return the CPU time that a process, its children that live, and those that it has seen end have used."""
    ticks = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            facts = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended just now
            continue
        if entry.name == str(leader):
            ticks += sum(map(int, facts[11:15]))
        elif facts[1] == str(leader):
            ticks += int(facts[11]) + int(facts[12])
    return ticks / TICKS_A_SECOND


def show(unit: Unit, assumed: Assumed) -> None:
    """Print what was measured, and then what follows from it."""
    seen = forecast(unit, assumed)
    per_day_gb = seen.gb / MILLION * seen.per_second_and_core * 86_400
    print(f"{unit.store}, measured: {unit.executions:,} executions of {steps.STEPS} steps in {unit.seconds:.1f} s")
    print(f"  {unit.executions / unit.seconds:10,.0f} executions/s by this process")
    print(f"  {unit.cpu_ms:10.2f} ms CPU an execution in it, and {unit.database_ms:.2f} in the database")
    print(f"  {unit.stored:10,.0f} bytes an execution, {unit.stored / steps.STEPS:,.0f} a step")
    print(f"{unit.store}, predicted with cores {assumed.busy:.0%} busy:")
    print(f"  {seen.per_second_and_core:10,.0f} executions/s a core")
    print(f"  {seen.core_hours:10,.2f} core hours a million executions: {seen.cpu_cost:,.2f}")
    print(f"  {seen.gb:10,.2f} GB a million, kept {assumed.retention_days:g} days, {assumed.copies} times: ", end="")
    print(f"{seen.storage_cost:,.2f}")
    print(f"  {seen.cost:10,.2f} a million executions altogether")
    print(f"  {per_day_gb * assumed.retention_days:10,.0f} GB held if one core is that busy all the time")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10.0, help="of measurement, on each database")
    parser.add_argument("--no-postgres", action="store_true", help="SQLite only")
    parser.add_argument("--busy", type=float, default=0.6, help="share of a core that may be used (0.6)")
    parser.add_argument("--vcpu-hour", type=float, default=0.05, help="price of a core for an hour (0.05)")
    parser.add_argument("--gb-month", type=float, default=0.12, help="price of a stored GB for a month (0.12)")
    parser.add_argument("--retention-days", type=float, default=30.0, help="how long what ended is kept (30)")
    parser.add_argument("--copies", type=int, default=2, help="of each byte, standbys and backups included (2)")
    given = parser.parse_args()
    assumed = Assumed(given.busy, given.vcpu_hour, given.gb_month, given.retention_days, given.copies)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        show(on_sqlite(Path(folder), given.concurrency, given.seconds), assumed)
    found = None if given.no_postgres else on_postgres(given.concurrency, given.seconds)
    if found is not None:
        show(found, assumed)
    elif not given.no_postgres:
        print("PostgreSQL: no binaries were found, so it was not measured")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
