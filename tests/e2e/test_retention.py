"""`perdure server --retention` is remembered by the store, whoever serves it next and does not say."""

from __future__ import annotations

from pathlib import Path

from cli_processes import Home, until
from which_store import rows_of


def kept_ms(home: Home) -> str | None:
    rows = rows_of(home.store_address, "SELECT value FROM meta WHERE key = 'retention_ms'")
    return rows[0][0] if rows else None


def test_a_server_tells_its_store_and_the_next_leaves_it_so(tmp_path: Path) -> None:
    home = Home(tmp_path)
    try:
        first = home.serve("--retention", "12h")
        until(lambda: kept_ms(home) == str(12 * 3_600_000), "the time that was given")
        until(lambda: "retention.set" in first.events(), "a line in the log")
        assert first.end() == 0
        second = home.serve()
        assert home.json("executions", "list")["items"] == []
        assert second.end() == 0
        assert "retention.set" not in second.events()
        assert kept_ms(home) == str(12 * 3_600_000)
        assert home.command("db", "check").returncode == 0
    finally:
        home.close()


def test_a_time_that_is_none_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    home = Home(tmp_path)
    done = home.command("server", "--retention", "a month")
    assert done.returncode == 2
    assert "30d" in done.stderr
    assert not home.store.exists()
