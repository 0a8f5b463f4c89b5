"""Another name for a step of a stuck execution: noted as a fact, for a step that is there, and for nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from database_work import counted
from engine_bench import Bench, bench_in, step
from perdure.core.events import LOG_FORMAT, Kind
from perdure.engine.mapping import MapStep, map_step
from perdure.engine.park import Halt, halt
from perdure.errors import Conflict, InvalidInput, NotFound


def stuck(bench: Bench) -> str:
    held = bench.owned()
    bench.record(held, step("charge"), step("buy/2/charge"))
    bench.do(halt, Halt(held.ref, held.fence, "stick", "mismatch", "the code does not ask for it"))
    return held.ref.execution


def mapped(bench: Bench, execution: str, old: str, new: str, company: str = "default") -> Any:
    return bench.do(map_step, MapStep(company, execution, old, new, "ann", "renamed in May"))


def test_a_mapping_is_a_fact_and_the_execution_waits_to_be_resumed(bench: Bench) -> None:
    execution = stuck(bench)
    seq = mapped(bench, execution, "charge", "charge_card")
    last = bench.last(execution)
    assert (last.seq, last.kind) == (seq, Kind.STEP_MAPPED)
    assert last.data == {"old": "charge", "new": "charge_card", "by": "ann", "reason": "renamed in May"}
    assert bench.state(execution)[0] == "stuck"
    assert bench.execution(execution)["log_format"] == LOG_FORMAT
    assert mapped(bench, execution, "buy/2/", "sell/2/") == seq + 1
    bench.signal(execution, "resume")
    assert bench.state(execution)[0] == "ready"


def test_a_mapping_that_is_said_again_is_one_though_somebody_resumed_since(bench: Bench) -> None:
    """Its commit may be reported lost."""
    execution = stuck(bench)
    row = MapStep("default", execution, "charge", "charge_card", "ann", "renamed in May")
    first, again = bench.twice(map_step, row)
    assert first == again
    bench.signal(execution, "resume")
    assert bench.do(map_step, row) == first
    assert bench.kinds(execution).count(Kind.STEP_MAPPED) == 1
    assert mapped(bench, execution, "charge", "other").code == "not_stuck"


@pytest.mark.parametrize(
    ("old", "new", "error", "code"),
    [
        ("nothing", "x", NotFound, "no_such_step"),
        ("buy/", "x", InvalidInput, "bad_address"),
        ("", "x", InvalidInput, "bad_address"),
        ("sell/", "x/", NotFound, "no_such_step"),
    ],
)
def test_what_the_log_has_not_cannot_be_mapped(bench: Bench, old: str, new: str, error: Any, code: str) -> None:
    found = mapped(bench, stuck(bench), old, new)
    assert isinstance(found, error)
    assert found.code == code


def test_a_long_log_is_looked_through_where_it_lies(tmp_path: Path) -> None:
    """Everybody's writes wait meanwhile: a log of a hundred thousand events is not to be read into memory for it."""
    with counted() as work, bench_in(tmp_path) as bench:
        held = bench.owned()
        bench.record(held, *(step(f"charge {number}") for number in range(200)))
        bench.do(halt, Halt(held.ref, held.fence, "stick", "mismatch", "the code does not ask for it"))
        work.clear()
        assert isinstance(mapped(bench, held.ref.execution, "charge 7", "charge_card"), int)
        assert work.rows < 50


def test_only_a_stuck_execution_of_ones_own_is_mapped(bench: Bench) -> None:
    assert isinstance(mapped(bench, stuck(bench), "charge", "x", company="other"), NotFound)
    found = mapped(bench, bench.owned().ref.execution, "charge", "x")
    assert isinstance(found, Conflict)
    assert found.code == "not_stuck"
