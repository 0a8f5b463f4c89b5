"""What a row brings into a transaction counts, so that no batch of large values holds everybody else up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine_bench import COMPANY, Bench, completion, ref, task
from perdure.core.items import (
    BeginStep,
    EndStep,
    Item,
    OfferStep,
    OpenApproval,
    SimulatedStep,
    StartChild,
    StepDone,
)
from perdure.core.views import ForkEdits
from perdure.core.work import Held, Report
from perdure.engine.complete import Completion, complete
from perdure.engine.fork import Fork
from perdure.engine.held import Beats
from perdure.engine.park import Finish
from perdure.engine.record import Record
from perdure.engine.rule import Rule
from perdure.store.batch import MAX_BYTES
from store_operations import Waiter

LARGE = "x" * 600_000
TEXT = f'"{LARGE}"'
ARGS: dict[str, Any] = {"text": LARGE}


def of(item: Item) -> Record:
    return Record(ref("exe_1"), 1, 1, (item,))


@pytest.mark.parametrize(
    "row",
    [
        Completion(COMPANY, Report("exe_1", "tool", 1, "completed", LARGE)),
        Completion(COMPANY, Report("exe_1", "tool", 1, "completed", {"text": LARGE, "odd": "\ud800", "long": 2**70})),
        Completion(COMPANY, Report("exe_1", "tool", 1, "failed", saved=TEXT)),
        of(StepDone("a", "d", f'{{"value":{TEXT}}}')),
        of(EndStep("a", "d", "cla_1", "completed", TEXT)),
        of(SimulatedStep("a", "d", "charge", {}, TEXT)),
        of(StartChild("a", "d", "exe_2", {}, "clerk", "d", TEXT)),
        of(task("a", args=ARGS)),
        of(OpenApproval("a", "d", "apr_1", "post", ARGS)),
        of(BeginStep("a", "d", "cla_1", "charge", ARGS)),
        of(OfferStep("a", "d", "task", "charge", "a", ARGS)),
        Finish(ref("exe_1"), 1, 1, 0, "complete", f'{{"output":{TEXT}}}'),
        Rule(COMPANY, "exe_1", "tool", "happened", "ann", "", LARGE),
        Beats(COMPANY, "wrk_1", (Held("exe_1", "tool", 1, saved=TEXT),)),
    ],
    ids=lambda row: type(row).__name__ + "".join(f" {type(item).__name__}" for item in getattr(row, "items", ())),
)
def test_a_large_value_counts_towards_the_size_of_a_batch(row: Any) -> None:
    assert len(LARGE) <= row.size < len(LARGE) + 1_000


def test_large_results_that_come_together_are_one_transaction_each(bench: Bench) -> None:
    waiter = Waiter()
    for held in [bench.leased(task()) for _ in range(3)]:
        bench.writer.submit(complete, completion(held, value=LARGE), waiter)
    assert [bench.writer.run_batch() for _ in range(4)] == [1, 1, 1, 0]
    assert [str(entry.result) for entry in waiter.entries] == ["accepted"] * 3


def test_small_results_that_come_together_are_one_transaction(bench: Bench) -> None:
    waiter = Waiter()
    for held in [bench.leased(task()) for _ in range(3)]:
        bench.writer.submit(complete, completion(held, value={"n": 1}), waiter)
    assert bench.writer.run_batch() == 3


def test_a_fork_goes_alone_for_what_it_copies() -> None:
    """Of up to 32 MB, which it has yet to read."""
    fork = Fork("exe_2", COMPANY, "exe_1", 3, ForkEdits(), "ann")
    assert fork.size == replace(fork, at=9).size >= MAX_BYTES
