"""Every figure that is claimed has a script that prints it. Each runs here, as briefly as it can; nothing is judged."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from compare import two_sizes
from compared import bars, rows
from compared.figures import Figures, Verdict
from compared.report import quiet
from compared.run import FEWER, MORE
from compared.running import kind_of
from plain_http import Client, Refused
from room_timing import Route, shown
from step_log import Told, told
from workloads import spent

BENCH = Path(__file__).parents[2] / "bench"
BRIEFLY = {
    "capacity": ["--seconds", "0.3", "--concurrency", "5"],
    "ceiling": ["--seconds", "0.1"],
    "ceiling_http": ["--seconds", "0.1"],
    "compare": ["--only=w1", "--peers=", "--rows=function, SQLite", "--rounds=1", "--seconds=0.1", "--no-bar"],
    "dispatch": ["--count", "3"],
    "growth": ["--lengths", "10", "50", "--counts", "200", "--rounds", "1", "--seconds", "0.3", "--no-bar"],
    "idle": ["--workers", "2", "--seconds", "1", "--no-bar"],
    "live_text": ["--replies", "2", "--pieces", "10", "--no-bar"],
    "long_logs": ["--events", "600", "--turns", "6", "--no-bar"],
    "recovery": ["--sizes", "100", "--no-bar"],
    "room_search": ["--texts", "300", "--no-bar"],
    "room_timing": ["--rounds", "2", "--no-bar"],
    "room_vectors": ["--sizes", "300", "--no-bar"],
    "search": ["--executions", "2000"],
    "startup": ["--runs", "1", "--seconds", "0.5"],
    "steps": ["--rounds", "1", "--seconds", "0.3", "--concurrency", "5", "--no-bar", "--http"],
    "ui": ["--no-bar"],
    "timers": ["--timers", "200", "--window", "1", "--leases", "3"],
    "writer": ["--rounds", "1", "--seconds", "0.1"],
}


@pytest.mark.bench
@pytest.mark.parametrize("name", sorted(BRIEFLY))
def test_a_bench_runs_and_prints_a_figure(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH / f"{name}.py"), *BRIEFLY[name]]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    assert any(character.isdigit() for character in ran.stdout)


def test_every_bench_is_run_here() -> None:
    assert {path.stem for path in BENCH.glob("*.py")} == BRIEFLY.keys()


def measured(**rates: float) -> Figures:
    """Return figures of W1 at 50, by the names of peers; `ours` is that of the embedded function."""
    figures = Figures()
    for name, rate in rates.items():
        row = rows.FUNCTION if name == "ours" else next(row for row in rows.PEERS if row.peer == name)
        figures.add(row.name, "w1/50", {"steps_per_second": rate})
    return figures


def over(figures: Figures, whose: str) -> Verdict:
    """Return the verdict on the embedded function against somebody."""
    found = bars.judge(figures, ["w1"])
    return next(one for one in found if one.what == f"{rows.FUNCTION.name}, 50 at a time, steps/s over {whose}")


def test_a_bar_is_a_ratio_to_what_others_did_in_the_same_run() -> None:
    assert over(measured(ours=700, restate=100), "Restate").held
    missed = over(measured(ours=699, restate=100), "Restate")
    assert missed.judged
    assert not missed.held
    assert missed.shown().startswith("MISSED")


def test_what_could_not_be_measured_is_neither_held_nor_missed() -> None:
    nobody = over(measured(ours=700), "Restate")
    assert not nobody.held
    assert not nobody.judged
    assert nobody.shown().startswith("not judged")


def test_one_missed_bar_fails_the_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    assert bars.tell([Verdict("a", 2, 1), Verdict("b", None, 1)])
    assert not bars.tell([Verdict("a", 2, 1), Verdict("b", 2, 1, at_most=True)])
    assert "1 held, 1 missed, 0 not judged" in capsys.readouterr().out


def test_the_best_mode_of_a_peer_is_what_counts_and_the_median_of_its_rounds() -> None:
    figures = measured(ours=3_000)
    for name, rates in (("DBOS, SQLite", (10, 20, 900)), ("DBOS, PostgreSQL", (100, 101, 99))):
        for rate in rates:
            figures.add(name, "w1/50", {"steps_per_second": rate})
    found = over(figures, "DBOS")
    assert found.found == 30
    assert found.held


def test_a_peer_that_stores_less_is_no_measure() -> None:
    [local] = [row for row in rows.PEERS if not row.equal]
    figures = measured(ours=100)
    figures.add(local.name, "w1/1", {"gap_p50_ms": 0.01})
    assert all(verdict.bar != 0.01 for verdict in bars.judge(figures, ["w1", "w2"]))


def test_a_long_comparison_asks_for_the_memory_of_those_that_one_run_had_more() -> None:
    figures = Figures()
    row, wakes = rows.FUNCTION.name, {"wake_few_ms": 2.0, "bytes": 2_000, "resumed_per_second": 500}
    figures.add(row, "w4", {"parked": 100, "memory_kb": 9.0, "wake_many_ms": 2.0, **wakes})
    assert not [one for one in bars.judge(figures, ["w4"]) if "among 4,000" in one.what]
    figures.add(row, FEWER, {"parked": 1_000, "memory_kb": 2.0, "wake_many_ms": 2.0, **wakes})
    figures.add(row, MORE, {"parked": 4_000, "memory_kb": 0.575, "wake_many_ms": 5.0, **wakes})
    found = {one.what: one for one in bars.judge(figures, ["w4"])}
    assert found[f"{row}, KB of memory for each from 1,000 to 4,000"].found == pytest.approx(0.1)
    wake = found[f"{row}, waking one among 4,000, over one among few"]
    assert (wake.found, wake.held) == (2.5, False)


@pytest.mark.parametrize("text", ["", "100", "100,", "10,200", "200,100", "a,b", "100,200,300"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="FEWER,MORE"):
        two_sizes(text)
    assert two_sizes("100,200") == (100, 200)


def test_what_several_processes_of_one_role_spend_is_one_figure() -> None:
    class Contender:
        def processes(self) -> dict[str, int]:
            return {"driver": os.getpid(), "server 1": os.getpid(), "server 2": os.getpid()}

    found = spent(Contender())  # type: ignore[arg-type]
    assert found.keys() == {"driver", "server"}
    assert found["server"] >= 2 * found["driver"] > 0


def test_every_peer_has_a_runner_and_a_lock() -> None:
    peers = {row.peer for row in rows.PEERS}
    assert peers == {path.stem for path in (BENCH / "peers").glob("*.txt")}
    assert {*peers, rows.OURS, rows.CEILING} == {path.stem[3:] for path in (BENCH / "peers").glob("on_*.py")}


def test_a_folder_in_memory_is_told_from_one_on_a_disk() -> None:
    mounts = "/dev/sda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n"
    assert kind_of(Path("/tmp/bench"), mounts) == "tmpfs"
    assert kind_of(Path("/home/bench"), mounts) == "ext4"


def test_a_step_log_gives_whole_lines_and_leaves_the_last_one_while_it_is_written(tmp_path: Path) -> None:
    log = tmp_path / "steps.log"
    log.write_text("w3-1 0 17 99\nw3-1 1 1", encoding="utf-8")
    assert told(log) == [Told("w3-1", 0, 17, 99)]


def test_a_machine_that_had_other_work_to_do_is_said_to() -> None:
    assert "SOMETHING ELSE" in quiet([0.1, 0.2, 0.9])
    assert "SOMETHING ELSE" not in quiet([0.9, 0.99, 0.1])


@pytest.mark.anyio
async def test_the_plain_client_reads_whole_and_chunked_answers_and_keeps_its_connection() -> None:
    answers = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        b"HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\ntwice"[:-1],
    ]
    connections = 0
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for answer in answers:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        client = Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert await client.ask("GET", "/a") == b"hi"
        assert await client.ask("GET", "/b") == b"abcde"
        with pytest.raises(Refused, match="409 twic"):
            await client.ask("GET", "/c")
        await client.close()
        await left.wait()
    assert connections == 1


@pytest.mark.parametrize(("later_us", "tells"), [(0, False), (15, False), (40, True)])
def test_a_room_that_answers_later_is_told_above_noise_and_bar(later_us: float, tells: bool) -> None:
    """Answers scatter by a hundred microseconds, now and then by a thousand; a channel of forty shows all the same."""
    dice = Random(5)

    def took() -> float:
        return 500 + dice.gauss(0, 100) + (1_000 if dice.random() < 0.05 else 0)

    route = Route("GET /v1/rooms/ID", [took() + later_us for _ in range(400)], [took() for _ in range(400)])
    assert route.tells(shown(route, Random(6))) == tells
