"""A row that was damaged, or altered by another program, is named: whoever needs it hears which, and nothing is wrong
with anybody else's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calendar_starts import schedule
from engine_bench import COMPANY, Bench, once, task
from perdure.core.approval import ApprovalRules
from perdure.core.credentials import hash_of
from perdure.core.items import OpenApproval, OpenToken
from perdure.core.queues import DeadFilter
from perdure.core.views import ExecutionFilter
from perdure.core.work import Failure
from perdure.engine.dead import dead_page
from perdure.engine.query import approvals_of
from perdure.engine.query_list import execution_page
from perdure.engine.resolve import Decide, decide
from perdure.engine.revive import Revive, revive
from perdure.engine.rule import Rule, rule
from perdure.engine.schedule import ChangeSchedule, change_schedule, make_schedule, schedules_view
from perdure.engine.token import EndToken, end_token
from perdure.errors import Conflict
from which_store import rows_of, store_at

Act = Callable[[], Any]
NO = Failure("tool_error", "no", permanent=True)
CUT = '{"cut off": tr'


def message(bench: Bench) -> Act:
    held = bench.owned()
    bench.signal(held.ref.execution, "send", text="hi", dedupe="k")
    return lambda: bench.signal(held.ref.execution, "send", text="hi", dedupe="k")


def approval(bench: Bench, decision: Any = "approve", **more: Any) -> Act:
    bench.waiting(OpenApproval("tool/approval", "d", "apr_1", "post", {"n": 1}, ApprovalRules(not_by_starter=True)))
    return lambda: bench.do(decide, Decide(COMPANY, "apr_1", decision, "ann", "", **more))


def edit(bench: Bench) -> Act:
    return approval(bench, "edit", args={"n": 2})


def edited(bench: Bench) -> Act:
    again = edit(bench)
    again()
    return again


def approvals(bench: Bench) -> Act:
    approval(bench)
    return lambda: bench.read(lambda reads: approvals_of(reads, COMPANY))


def token(bench: Bench) -> Act:
    bench.waiting(OpenToken("token yes", "d", "tok_1", "yes", hash_of("secret"), "https://perdure.example"))
    end = EndToken("complete", hash=hash_of("secret"), value="1", by="token")
    bench.do(end_token, end)
    return lambda: bench.do(end_token, end)


def calendar(bench: Bench) -> Act:
    bench.do(make_schedule, schedule())
    return lambda: bench.read(lambda reads: schedules_view(reads, COMPANY))


def tick(bench: Bench) -> Act:
    bench.do(make_schedule, schedule())
    return lambda: bench.do(change_schedule, ChangeSchedule(COMPANY, "nightly", "trigger", "n"))


def tags(bench: Bench) -> Act:
    bench.started(tags=("urgent",))
    return lambda: bench.read(lambda reads: execution_page(reads, COMPANY, ExecutionFilter(), limit=10))


def report(bench: Bench) -> Act:
    held = bench.leased(task())
    return lambda: bench.report(held, "failed", failure=Failure("tool_error", "no"))


def dead(bench: Bench) -> Act:
    held = bench.leased(task())
    bench.report(held, "failed", failure=NO)
    return lambda: bench.do(revive, Revive(COMPANY, held.execution, held.address, "ann", ""))


def dead_ones(bench: Bench) -> Act:
    dead(bench)
    return lambda: bench.read(lambda reads: dead_page(reads, COMPANY, DeadFilter(), None, 10))


def ruled(bench: Bench) -> Act:
    held = bench.uncertain()
    word = Rule(COMPANY, held.execution, held.address, "give_up", "ann", "seen", None)
    bench.do(rule, word)
    return lambda: bench.do(rule, word)


def approved(bench: Bench) -> Act:
    held = bench.leased(once(approval="tool/approval"))
    return lambda: bench.begin(held)


@pytest.mark.parametrize("written", [CUT, "7"], ids=["cut off", "of another shape"])
@pytest.mark.parametrize(
    ("make", "table", "column", "where"),
    [
        (message, "events", "data", "kind = 'message'"),
        (approval, "events", "data", "kind = 'started'"),
        (approval, "waitpoints", "rules", "id = 'apr_1'"),
        (approvals, "waitpoints", "rules", "id = 'apr_1'"),
        (edit, "events", "data", "kind = 'waitpoint_opened'"),
        (dead, "events", "data", "kind = 'task_scheduled'"),
        (dead, "tasks", "rules", "address = 'tool'"),
        (dead_ones, "events", "data", "kind = 'task_failed'"),
        (report, "tasks", "rules", "address = 'tool'"),
        (ruled, "events", "data", "kind = 'effect_ruled'"),
        (approved, "events", "data", "kind = 'task_scheduled'"),
        (tags, "lineage", "tags", "tags IS NOT NULL"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused_by_its_name(
    make: Callable[[Bench], Act], table: str, column: str, where: str, written: str, bench: Bench, tmp_path: Path
) -> None:
    act = make(bench)
    rows_of(store_at(tmp_path / "p.db"), f"UPDATE {table} SET {column} = :written WHERE {where}", {"written": written})
    assert_refused(act)
    other = bench.owned()
    assert bench.signal(other.ref.execution, "send", text="hi", dedupe="k") == 2


@pytest.mark.parametrize(
    ("make", "table", "column"),
    [
        (edited, "waitpoints", "value"),
        (token, "waitpoints", "value"),
        (calendar, "schedules", "input"),
        (tick, "schedules", "input"),
    ],
)
def test_a_value_that_cannot_be_read_is_refused_by_its_name(
    make: Callable[[Bench], Act], table: str, column: str, bench: Bench, tmp_path: Path
) -> None:
    act = make(bench)
    rows_of(store_at(tmp_path / "p.db"), f"UPDATE {table} SET {column} = :written", {"written": CUT})
    assert_refused(act)


def assert_refused(act: Act) -> None:
    with pytest.raises(Conflict, match="cannot be read") as refused:
        act()
    assert refused.value.code == "row_damaged"
