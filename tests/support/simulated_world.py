"""One seed of the simulation: a world with its mishaps, run to quiet, and judged. The same seed is the same run.

What a seed may bring is drawn first (`Profile`); then the mishaps happen for some virtual seconds, then all is well and
everything has to come to its end.
"""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from perdure import log
from perdure.core import codec
from perdure.core.views import StartRequest
from perdure.errors import LeaseLost, Retryable, StoreFailed
from perdure.store.sqlite import open_sqlite
from perdure.testing.clock import START_WALL_MS, FakeClock, SeededRandom
from perdure.worker.declared import start_request
from simulated_agents import AGENT, TOOLS, Outside, errand
from simulated_client import Client, Notebook
from simulated_judge import Verdict, judge, read_logs
from simulated_lives import LEASE_MS, Land, Machine, SkewedClock
from simulated_network import FAIR, Network, Weather
from simulated_processes import Process, ProcessLoop, run_processes
from simulated_store import SOUND, Disk

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
MOST_ROUNDS = 400_000
QUIET_SECONDS = 600.0
"""How long everything may take to end once all is well."""
STEPS = ("write", "write", "charge", "charge", "sleep", "bell", "write+charge", "charge+bell", "child")


@dataclass(frozen=True, slots=True)
class Profile:
    """What a seed may bring. Drawn, so that no two sorts of trouble always come together."""

    servers: int
    workers: int
    plans: tuple[tuple[tuple[str, ...], ...], ...]
    """Of each agent's run: the tools of each turn."""
    errands: tuple[tuple[str, ...], ...]
    weather: Weather
    disk: Disk
    refuses: float
    slow: float
    kills: float
    """Mean virtual seconds between two; 0 is none. Likewise what follows."""
    stops: float
    leaves: float
    """Of workers that are asked to end, and end in order."""
    cuts: float
    steps: float
    """Of the wall clock."""
    meddle: float
    seconds: float
    """How long mishaps happen."""

    @classmethod
    def of(cls, dice: random.Random) -> Profile:
        def maybe(chance: float, low: float, high: float) -> float:
            return dice.uniform(low, high) if dice.random() < chance else 0.0

        names = [one.__name__ for one in TOOLS]
        functions = dice.random() < 0.5
        weather = Weather(maybe(0.4, 0.02, 0.3), maybe(0.4, 0.02, 0.3), maybe(0.3, 0.05, 0.3), maybe(0.3, 0.02, 0.2))
        disk = Disk(
            refused=maybe(0.25, 0.01, 0.2), unsure=maybe(0.3, 0.01, 0.3), full=maybe(0.1, 0.02, 0.2),
            fails=maybe(0.15, 0.002, 0.02), dies=maybe(0.4, 0.005, 0.05), slow=maybe(0.2, 0.02, 0.2),
        )  # fmt: skip
        return cls(
            servers=dice.choice((1, 1, 2)),
            workers=dice.choice((1, 2, 2)),
            plans=tuple(_plan(dice, names) for _ in range(dice.choice((1, 2) if functions else (1, 2, 3)))),
            errands=tuple(_errand(dice) for _ in range(dice.choice((1, 2)) if functions else 0)),
            weather=weather,
            disk=disk,
            refuses=maybe(0.3, 0.05, 0.3),
            slow=maybe(0.4, 0.05, 0.6),
            kills=maybe(0.6, 1, 6),
            stops=maybe(0.5, 1, 6),
            leaves=maybe(0.3, 2, 8),
            cuts=maybe(0.3, 3, 10),
            steps=maybe(0.2, 3, 10),
            meddle=maybe(0.4, 0.2, 1),
            seconds=dice.uniform(4, 16),
        )


def _plan(dice: random.Random, names: list[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(dice.choice(names) for _ in range(dice.choice((1, 1, 2)))) for _ in range(dice.choice((1, 2))))


def _errand(dice: random.Random) -> tuple[str, ...]:
    return tuple(dice.choice(STEPS) for _ in range(dice.randint(1, 4)))


@dataclass(frozen=True, slots=True)
class Run:
    """What one seed came to."""

    seed: int
    trace: str
    virtual_seconds: float
    verdict: Verdict


def simulate(seed: int, profile: Profile | None = None) -> Run:
    """Run one seed to its verdict. Raises `Standstill` or `Escape` where the world could not go on."""

    async def main(loop: ProcessLoop) -> Verdict:
        with _hearing() as errors:
            verdict = await _World(loop, seed, folder / "p.db", profile).run()
        return replace(verdict, violations=(*verdict.violations, *dict.fromkeys(errors)))

    with _folder() as folder:
        found = run_processes(seed, main, MOST_ROUNDS)
    return Run(seed, found.trace, found.virtual_seconds, found.value)


class _Errors(logging.Handler):
    """Hears what the product itself calls a bug: errors that it did not expect."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, (Retryable, StoreFailed, LeaseLost)):
            event = str(record.msg).split(" ", 1)[0]
            self.heard.append(f"logged {event}: {type(error).__name__}: {error}"[:300])


@contextmanager
def _hearing() -> Iterator[list[str]]:
    errors, logger, rewrites = _Errors(), logging.getLogger("perdure"), [*log.rewrites]
    logger.addHandler(errors)
    try:
        yield errors.heard
    finally:
        logger.removeHandler(errors)
        log.rewrites[:] = (
            rewrites  # a server that was killed takes nothing back, and in its own process nothing is left
        )


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="perdure-simulated-", dir=MEMORY))
    try:
        (folder / "p.db").write_bytes(_empty_store())
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _empty_store() -> bytes:
    """Return a store's file as it is made once: making it costs more than many a seed."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        open_sqlite(Path(folder) / "p.db", clock=FakeClock(START_WALL_MS), random=SeededRandom(1)).close()
        return (Path(folder) / "p.db").read_bytes()


@dataclass
class _World:
    loop: ProcessLoop
    seed: int
    file: Path
    profile: Profile | None

    async def run(self) -> Verdict:
        dice = random.Random(self.seed)
        profile = self.profile or Profile.of(dice)
        self.outside = Outside(random.Random(dice.random()), profile.refuses, profile.slow)
        net = Network(random.Random(dice.random()), profile.weather)
        self.land = Land(self.loop, dice, self.file, self.outside, net, owned=profile.servers == 1, disk=profile.disk)
        self.book = Notebook(self.outside)
        self.done = asyncio.Event()
        self.calm = False
        self.struck = 0
        self.machines: dict[Machine, Callable[[Process], Coroutine[Any, Any, None]]] = {}
        store_clock = self._clock()
        for number in range(profile.servers):
            machine = Machine(f"server {number + 1}", store_clock)
            self.machines[machine] = self.land.server(machine)
        for number in range(profile.workers):
            machine = Machine(f"worker {number + 1}", self._clock())
            self.machines[machine] = self.land.worker(machine)
        if profile.errands:
            machine = Machine("functions", self._clock())
            self.machines[machine] = self.land.functions(machine)
        client = Machine("client", self._clock())
        self.machines[client] = self._client(client, profile)
        for machine, main in self.machines.items():
            self._boot(machine, main)
        await self._mishaps(profile, dice)
        return await self._quiet(profile)

    def _clock(self) -> SkewedClock:
        return SkewedClock(self.loop, START_WALL_MS)

    def _client(self, machine: Machine, profile: Profile) -> Callable[[Process], Coroutine[Any, Any, None]]:
        wishes: dict[str, StartRequest] = {}
        for number, plan in enumerate(profile.plans):
            text = codec.encode([list(turn) for turn in plan], "plan")
            wishes[f"agent {number}"] = start_request(AGENT, (text,), {}, f"agent {number}")
        for number, ops in enumerate(profile.errands):
            wishes[f"errand {number}"] = start_request(errand, (list(ops),), {}, f"errand {number}")

        async def main(process: Process) -> None:
            api = self.land.api(process, machine.clock)
            await Client(api, self.book, self.outside, self.land.own_dice()).see_through(wishes, profile.meddle)
            self.done.set()

        return main

    # -- mishaps -------------------------------------------------------------------------------------------------------

    def _boot(self, machine: Machine, main: Callable[[Process], Coroutine[Any, Any, None]]) -> None:
        process = self.land.boot(machine, main)

        def again() -> None:
            self.struck += 1
            pause = 0.05 if self.calm else self.land.dice.choice((0.05, 0.5, 4.0))
            self.land.net.later(pause, self._boot, machine, main)

        process.on_end.append(again)

    async def _mishaps(self, profile: Profile, dice: random.Random) -> None:
        kinds = (
            (profile.kills, self._kill),
            (profile.stops, self._stop),
            (profile.leaves, self._leave),
            (profile.cuts, self._cut),
            (profile.steps, self._step),
        )
        happening = [self.loop.create_task(self._again(mean, what, dice)) for mean, what in kinds if mean]
        await asyncio.sleep(profile.seconds)
        for one in happening:
            one.cancel()

    async def _again(self, mean: float, what: Callable[[random.Random], None], dice: random.Random) -> None:
        while True:
            await asyncio.sleep(dice.expovariate(1 / mean))
            what(dice)

    def _any(self, dice: random.Random) -> Machine:
        return dice.choice(list(self.machines))

    def _kill(self, dice: random.Random) -> None:
        process = self._any(dice).process
        if process is not None:
            process.kill()

    def _stop(self, dice: random.Random) -> None:
        process = self._any(dice).process
        if process is not None and process.running:
            self.struck += 1
            process.stop()
            self.land.net.later(dice.choice((0.5, 2.0, 4.0, 8.0)), process.go_on)

    def _leave(self, dice: random.Random) -> None:
        leavable = [machine for machine in self.machines if machine.leave is not None]
        if leavable:
            machine, seconds = dice.choice(leavable), dice.choice((0.0, 1.0, 10.0))
            leave, process = machine.leave, machine.process
            if leave is not None and process is not None:
                process.call(lambda: leave(seconds))

    def _cut(self, dice: random.Random) -> None:
        net, client = self.land.net, self._any(dice)
        for host in net.hosts:
            if client.name != host:
                self.struck += 1
                net.cut.add((client.name, host))
        net.later(dice.choice((1.0, 4.0, 9.0)), net.heal)

    def _step(self, dice: random.Random) -> None:
        self.struck += 1
        self._any(dice).clock.skew_ms += dice.choice((-600_000, -5_000, -400, 400, 5_000, 60_000))

    # -- the end -------------------------------------------------------------------------------------------------------

    async def _quiet(self, profile: Profile) -> Verdict:
        """Let all be well, wait until everything has ended, and judge."""
        self.calm = True
        net, land = self.land.net, self.land
        net.weather, land.disk = FAIR, SOUND
        for store in land.stores.values():
            store.disk = SOUND
        net.heal()
        self.outside.refuses = 0.0
        for machine in self.machines:
            if machine.process is not None and machine.process.stopped:
                machine.process.go_on()
        ended = True
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                await self.done.wait()
        except TimeoutError:
            ended = False
        await asyncio.sleep(2 * LEASE_MS / 1000)  # whoever was too late may still act, and is seen
        logs = read_logs(self.file)
        verdict = judge(
            logs, self.outside, self.book, land.moments, ended=ended,
            late=bool(profile.stops or profile.cuts or profile.weather != FAIR or profile.slow or profile.disk.slow),
        )  # fmt: skip
        mishaps = self.struck + net.mishaps
        self.loop.note(verdict.fingerprint)
        return verdict.with_mishaps(mishaps, net.requests)
