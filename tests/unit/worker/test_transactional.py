"""A `transactional` tool has to leave a record under its own key, in a thread, on the loop and as a step."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from durables import to_the_end
from memory_tasks import MemoryTasks
from perdure import ToolContext, tool
from perdure.agent.tool import definition_of
from perdure.core.work import Report
from perdure.flow import StepFailed, step, this_step
from perdure.ledger import once
from perdure.system import SystemClock
from working import at_work, make_worker

pytestmark = pytest.mark.anyio


async def report_of(body: Callable[..., Any]) -> Report:
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), body)):
        address = source.add(definition_of(body).name, delivery="transactional")
        await source.reported(address)
    return source.rows[address].reports[0]


def keep(path: Path, key: str, value: int) -> int:
    with closing(sqlite3.connect(path)) as connection, once(connection, key) as effect:
        return effect.value if effect.done else effect.record(value)


async def test_what_is_recorded_under_the_key_of_the_call_is_its_result(tmp_path: Path) -> None:
    @tool(delivery="transactional")
    def book(ctx: ToolContext) -> int:
        return keep(tmp_path / "mine.db", ctx.idempotency_key, 7)

    @tool(delivery="transactional")
    async def book_on_the_loop(ctx: ToolContext) -> int:
        return await asyncio.to_thread(keep, tmp_path / "mine.db", ctx.idempotency_key, 8)

    for body, value in ((book, 7), (book_on_the_loop, 7)):  # the same key, as a second attempt has
        report = await report_of(body)
        assert (report.outcome, report.value) == ("completed", value)


async def test_a_body_that_never_used_the_ledger_fails_for_good() -> None:
    @tool(delivery="transactional")
    def book() -> str:
        return "booked"

    @tool(delivery="transactional")
    async def book_on_the_loop() -> str:
        return "booked"

    for body in (book, book_on_the_loop):
        report = await report_of(body)
        assert report.failure is not None
        assert (report.failure.code, report.failure.permanent) == ("no_ledger_record", True)
        assert "perdure.ledger.once" in report.failure.message


async def test_another_key_is_refused_before_anything_happens(tmp_path: Path) -> None:
    @tool(delivery="transactional")
    def book() -> int:
        return keep(tmp_path / "mine.db", "a key of my own", 7)

    report = await report_of(book)
    assert report.failure is not None
    assert (report.failure.code, report.failure.permanent) == ("wrong_ledger_key", True)
    with closing(sqlite3.connect(tmp_path / "mine.db")) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_a_step_is_held_to_it_too(tmp_path: Path) -> None:
    async def book() -> int:
        return keep(tmp_path / "mine.db", this_step().key, 7)

    async def forget() -> int:
        return 7

    async def main() -> list[Any]:
        first = await step(book, delivery="transactional")
        with pytest.raises(StepFailed) as failed:
            await step(forget, delivery="transactional")
        return [first, failed.value.code, failed.value.attempts]

    assert to_the_end(main).output == [7, "no_ledger_record", 1]
