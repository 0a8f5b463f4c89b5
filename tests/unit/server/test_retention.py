"""A server looks seldom for what ended long ago, deletes it in small passes, and says how long the store keeps it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine_bench import Bench, bench_in
from perdure import AgentRuntime
from perdure.engine.blobs import MOST_LOOKED
from perdure.engine.park import Finish, finish
from perdure.engine.retention import DEFAULT_MS, OFF_MS, over_ms, set_retention
from perdure.errors import InvalidInput
from perdure.models.catalog import Catalog
from perdure.server.bridge import Bridge
from perdure.server.reading import Answer, Query, Reading
from perdure.server.retention import FIRST_LOOK_MS, LOOK_MS, Retention, parse_retention
from perdure.server.store_time import StoreTime
from perdure.server.sweeps import FORGET_LIMIT, SWEEP_SECONDS, Sweeps
from perdure.store.protocol import Store
from perdure.store.writer import InlineWriter
from which_store import rows_of

pytestmark = pytest.mark.anyio


class OwnWriter(InlineWriter):
    """Runs what is queued as soon as it is told that something is."""

    def wake(self) -> None:
        self.drain()


class Counted(Reading):
    """Reads, and counts the looks for what ended long ago."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.looks = 0

    def submit(self, query: Query, answer: Answer) -> None:
        self.looks += query is over_ms
        super().submit(query, answer)


@dataclass
class Stage:
    """A bench and the sweeps over it."""

    bench: Bench
    reading: Counted

    async def pass_by(self, seconds: float, rounds: int = 1) -> None:
        """Let time pass, and this many rounds of sweeps be made in it."""
        for _ in range(rounds):
            await self.bench.clock.asleep()
            self.bench.clock.advance(seconds / rounds)
        await self.bench.clock.asleep()

    def end(self, count: int) -> None:
        """Begin and end executions."""
        for _ in range(count):
            held = self.bench.owned()
            self.bench.do(finish, Finish(held.ref, held.fence, 1, 0, "complete", '{"output":{"result":1}}'))

    def left(self) -> int:
        return self.bench.read(lambda reads: sum(row["n"] for row in reads.rows("executions_by_state")))


@asynccontextmanager
async def swept(folder: Path, wanted_ms: int | None = None) -> AsyncIterator[Stage]:
    with bench_in(folder) as bench:
        reading = Counted(bench.store)
        bridge = Bridge(bench.store, OwnWriter(bench.store), reading=reading)
        retention = Retention(bridge, bench.clock, wanted_ms)
        sweeps = Sweeps(bridge, StoreTime(bridge, bench.clock), bench.clock, retention=retention)
        running = asyncio.create_task(sweeps.run())
        try:
            yield Stage(bench, reading)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            bridge.close()


async def test_a_server_with_nothing_to_delete_looks_once_in_five_minutes(tmp_path: Path) -> None:
    async with swept(tmp_path) as stage:
        stage.end(1)
        await stage.pass_by(FIRST_LOOK_MS / 1000 - 1, rounds=10)
        assert stage.reading.looks == 0
        await stage.pass_by(1)
        assert stage.reading.looks == 1
        await stage.pass_by(LOOK_MS / 1000 - 1, rounds=20)
        assert stage.reading.looks == 1
        await stage.pass_by(1)
        assert stage.reading.looks == 2
        assert stage.left() == 1


async def test_many_are_deleted_in_small_passes_one_a_round(tmp_path: Path) -> None:
    async with swept(tmp_path) as stage:
        stage.end(2 * FORGET_LIMIT + 1)
        await stage.pass_by(DEFAULT_MS / 1000)
        left = [stage.left()]
        for _ in range(3):
            await stage.pass_by(SWEEP_SECONDS)
            left.append(stage.left())
        assert left == [FORGET_LIMIT + 1, 1, 0, 0]


async def test_the_store_is_told_at_once_and_remembers(tmp_path: Path) -> None:
    async with swept(tmp_path, parse_retention("1h")) as stage:
        stage.end(1)
        await stage.pass_by(SWEEP_SECONDS)
    async with swept(tmp_path) as stage:
        await stage.pass_by(3600)
        assert stage.left() == 0


async def test_what_is_set_elsewhere_holds_here_too(tmp_path: Path) -> None:
    async with swept(tmp_path) as stage:
        stage.end(1)
        stage.bench.do(set_retention, OFF_MS)
        await stage.pass_by(10 * DEFAULT_MS / 1000)
        assert stage.left() == 1


async def test_a_look_for_large_values_is_bounded_and_the_next_goes_on_behind_it(tmp_path: Path) -> None:
    """However many are in use: what nobody refers to is found, and no look reads more than so many."""
    names = [{"company": "default", "hash": f"{number:064x}"} for number in range(MOST_LOOKED + 1)]
    async with swept(tmp_path) as stage:
        with stage.bench.store.write() as connection:
            connection.many("open_blob", [{**name, "bytes": 1, "now_ms": 0} for name in names])
            connection.many("use_blob", [{**name, "shard": 0, "execution": "exe_1"} for name in names[:-1]])

        def there(name: dict[str, str]) -> bool:
            return stage.bench.row("blob", **name) is not None

        await stage.pass_by(FIRST_LOOK_MS / 1000)
        assert there(names[-1])
        await stage.pass_by(LOOK_MS / 1000)
        assert not there(names[-1])
        assert there(names[0])


@pytest.mark.parametrize(
    ("text", "ms"), [("30d", DEFAULT_MS), (" 12H", 43_200_000), ("90m", 5_400_000), ("2w", 1_209_600_000)]
)
def test_times_are_read(text: str, ms: int) -> None:
    assert parse_retention(text) == ms


@pytest.mark.parametrize("text", ["off", "0", "OFF"])
def test_off_is_for_ever(text: str) -> None:
    assert parse_retention(text) == OFF_MS


@pytest.mark.parametrize("text", ["30", "0d", "-1d", "1y", "soon", "1.5d", "9999999d", ""])
def test_what_is_no_time_is_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"expected .*30d.*off") as refused:
        parse_retention(text)
    assert refused.value.code == "bad_retention"


OWN_FILE = pytest.mark.sqlite_only("a program's own server is always over a file")


@OWN_FILE
async def test_a_program_on_its_own_file_says_it_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_RETENTION", "7d")
    path = tmp_path / "p.db"

    async with AgentRuntime(store=path, models=Catalog(environ={})) as runtime:
        await runtime.executions_async()
        async with asyncio.timeout(60):
            while told(path) is None:  # noqa: ASYNC110 - it is said in another thread
                await asyncio.sleep(0.01)
    assert told(path) == str(parse_retention("7d"))


def told(path: Path) -> str | None:
    rows = rows_of(str(path), "SELECT value FROM meta WHERE key = 'retention_ms'")
    return rows[0][0] if rows else None


@OWN_FILE
async def test_a_program_whose_environment_says_nonsense_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_RETENTION", "a month")
    runtime = AgentRuntime(store=tmp_path / "p.db", models=Catalog(environ={}))
    with pytest.raises(InvalidInput, match="a month"), runtime:
        pass
