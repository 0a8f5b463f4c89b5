"""SQL files: what the loader takes, what it refuses, and what no query may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.errors import InternalError
from perdure.store.sql_store import Query, load_queries, parse, statements

BASE = "-- name: {name}\n-- Does something.\nSELECT :a AS a, :b AS b, :a AS again FROM t;\n"


def folder(path: Path, **files: str) -> Path:
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / f"{name}.sql").write_text(text, encoding="utf-8")
    return path


def test_parameters_come_in_the_order_of_their_first_use(tmp_path: Path) -> None:
    query = load_queries("sqlite", folder(tmp_path / "sql", one=BASE.format(name="mine")))["mine"]
    assert query == Query("mine", "SELECT :a AS a, :b AS b, :a AS again FROM t", ("a", "b"))


def test_an_override_replaces_its_query_for_its_dialect_alone(tmp_path: Path) -> None:
    base = folder(tmp_path / "sql", one=BASE.format(name="mine"))
    overrides = tmp_path / "overrides"
    folder(overrides / "postgres", one="-- name: mine\n-- differs because: it must.\nSELECT 2 AS a;\n")
    assert load_queries("postgres", base, overrides=overrides)["mine"].sql == "SELECT 2 AS a"
    assert load_queries("sqlite", base, overrides=overrides)["mine"].params == ("a", "b")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BASE.format(name="lock_executions"), "of that name already"),
        (BASE.format(name="twice") * 2, "of that name already"),
        ("-- name: cast\n-- Casts.\nSELECT :a::text;", "::"),
        ("-- name: two\n-- Two.\nSELECT 1; SELECT 2;", "2 statements"),
        ("-- name: none\n-- Nothing.\n", "0 statements"),
    ],
)
def test_a_bad_query_is_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InternalError, match=why):
        load_queries("sqlite", folder(tmp_path / "sql", bad=text))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-- name: unknown\n-- differs because: it must.\nSELECT 1;", "overrides nothing"),
        ("-- name: insert_event\n-- Does something.\nSELECT 1;", "differs because"),
        ("-- name: insert_event\n-- differs because:\nSELECT 1;", "differs because"),
        ("-- name: insert_event\n-- differs because: it must.\nSELECT 1;" * 2, "overridden twice|2 statements"),
    ],
)
def test_a_bad_override_is_refused(tmp_path: Path, text: str, why: str) -> None:
    folder(tmp_path / "sqlite", bad=text)
    with pytest.raises(InternalError, match=why):
        load_queries("sqlite", overrides=tmp_path)


def test_literals_and_comments_are_not_looked_into() -> None:
    script = "SELECT ':x; --' AS \"a;b\" /* ; */; -- more; :y\nSELECT :z;;"
    assert statements(script) == ["SELECT ':x; --' AS \"a;b\"", "SELECT :z"]
    assert parse("q", script).params == ("z",)
    assert parse("q", "SELECT ':x', :z").render(lambda name: f"<{name}>", str.lower) == "select ':x', <z>"
