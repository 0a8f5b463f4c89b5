"""What people type for a moment is one, or is refused by its option's name."""

from __future__ import annotations

import contextlib
import time

import pytest
import typer

from perdure.cli.moments import moment_ms


def test_a_span_is_ago_and_a_date_is_itself() -> None:
    ago = moment_ms("2h", "--since")
    assert ago is not None
    assert abs(time.time() * 1000 - 7_200_000 - ago) < 60_000
    assert moment_ms("1970-01-02T00:00+00:00", "--since") == 86_400_000
    assert moment_ms(None, "--since") is None


def test_what_was_before_all_times_is_the_first() -> None:
    assert moment_ms("99999999d", "--since") == 0


@pytest.mark.parametrize("given", ["yesterday", "", "2", "d", "²d", "9" * 400 + "d", "2026-13-45"])
def test_what_is_no_time_is_refused(given: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no time"):
        moment_ms(given, "--since")


@pytest.mark.parametrize("given", ["0001-01-01", "9999-12-31T23:59"])
def test_the_ends_of_the_calendar_break_nothing(given: str) -> None:
    with contextlib.suppress(typer.BadParameter):
        assert (moment_ms(given, "--since") or 0) >= 0
