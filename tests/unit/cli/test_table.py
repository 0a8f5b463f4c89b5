"""Tables in a terminal: one line a row, ids whole, nothing that moves the cursor."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perdure.cli.terminal import grid, state_text

EXECUTION = "exe_06h2fw9rqw8c5kfrtsba6ng4r4"


def shown(table: Table, width: int) -> list[str]:
    out = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    out.print(table)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().splitlines()


def executions() -> Table:
    table = grid("ID", "AGENT", "STATE", "STARTED", "TOOK")
    table.add_row(EXECUTION, "incident_report_agent", state_text("completed"), "2 min 10 s ago", "1 min 12 s")
    return table


@pytest.mark.parametrize("width", [200, 80, 60, 40])
def test_an_id_is_whole_and_a_row_is_one_line(width: int) -> None:
    head, row = shown(executions(), width)
    assert EXECUTION in row
    assert max(len(head), len(row)) <= width


def test_nothing_is_cut_where_there_is_room() -> None:
    assert "…" not in "".join(shown(executions(), 100))


def test_what_two_columns_take_is_whole_in_both() -> None:
    table = grid("OUTCOME", "CALL", "EXECUTION", "ADDRESS", "NOTE")
    table.add_row(state_text("uncertain"), Text("send_refund(" * 5), EXECUTION, "turn 12/tool/call_1", "by ann" * 9)
    (_, row) = shown(table, 80)
    assert EXECUTION in row
    assert "turn 12/tool/call_1" in row


def test_texts_of_others_cannot_move_the_cursor() -> None:
    table = grid("ID", "WHY")
    table.add_row("1", "be\x1b[2Jtrayed\nand more")
    table.add_row("2", Text("be\x1b[2Jtrayed", style="red"))
    rows = shown(table, 80)
    assert len(rows) == 3
    assert "\x1b" not in "".join(rows)
    assert r"be\x1b[2Jtrayed" in rows[2]


def test_a_cell_that_says_so_wraps() -> None:
    table = grid("BOUNDARY", "OUTCOME")
    table.add_row("lease.before", Text("1 ok  " * 20, no_wrap=False))
    assert len(shown(table, 60)) > 2
