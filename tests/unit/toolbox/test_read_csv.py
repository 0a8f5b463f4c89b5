"""read-csv: its figures are those of the file, and a file it cannot read is named with the reason."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[3] / "src" / "perdure" / "skills" / "read-csv" / "scripts"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("read_csv")


def read(script: Any, tmp_path: Path, text: str | bytes, **options: Any) -> dict[str, Any]:
    file = tmp_path / "table.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    given: dict[str, Any] = {"limit": 500, "group_by": [], "delimiter": None} | options
    report = script.read(file, given["limit"], given["group_by"], given["delimiter"])
    json.dumps(report, allow_nan=False)
    return report


def test_every_column_is_summarised_by_its_kind(script: Any, tmp_path: Path) -> None:
    report = read(script, tmp_path, "n,when,word,none\n1,2026-01-05,a,\n2.5,2026-01-06T10:00:00Z,b,\n,2026-01-12,a,\n")
    assert report["rowCount"] == 3
    assert report["summary"]["n"] == {
        "kind": "number",
        "empty": 1,
        "min": 1,
        "max": 2.5,
        "mean": 1.75,
        "median": 1.75,
        "sum": 3.5,
    }
    assert report["summary"]["when"]["byWeekday"] == {"Monday": 2, "Tuesday": 1}
    assert report["summary"]["word"] == {"kind": "text", "empty": 0, "distinct": 2, "top": {"a": 2, "b": 1}}
    assert report["summary"]["none"] == {"kind": "empty", "empty": 3}


def test_figures_are_about_all_rows_whatever_the_limit(script: Any, tmp_path: Path) -> None:
    text = "id,team\n" + "".join(f"x{n},{'ab'[n % 2]}\n" for n in range(50))
    report = read(script, tmp_path, text, limit=3, group_by=["team"])
    assert (report["rowCount"], report["rowsIncluded"], len(report["rows"])) == (50, 3, 3)
    assert report["summary"]["team"]["top"] == {"a": 25, "b": 25}
    assert report["groups"][0]["groups"] == [{"values": ["a"], "count": 25}, {"values": ["b"], "count": 25}]
    assert "top" not in report["summary"]["id"], "there is nothing to count in a column of ids"


def test_rows_stop_before_they_flood_the_reader(script: Any, tmp_path: Path) -> None:
    report = read(script, tmp_path, "a\n" + ("x" * 10_000 + "\n") * 300)
    assert report["rowCount"] == 300
    assert 90 < report["rowsIncluded"] < 110


def test_time_between_dates_names_the_longest(script: Any, tmp_path: Path) -> None:
    text = (
        "id,opened,closed\na,2026-01-05T10:00:00Z,2026-01-05T11:00:00+01:00\nb,2026-01-05,2026-01-07\nc,2026-01-05,\n"
    )
    (span,) = read(script, tmp_path, text)["durations"]
    assert (span["from"], span["to"], span["rowsWithBoth"], span["medianMinutes"]) == ("opened", "closed", 2, 1440.0)
    assert span["longest"][0]["row"]["id"] == "b"
    assert span["longest"][1]["minutes"] == 0.0


@pytest.mark.parametrize("part", ["weekday", "hour", "date", "month"])
def test_groups_take_parts_of_dates(script: Any, tmp_path: Path, part: str) -> None:
    report = read(script, tmp_path, "t\n2026-01-05T09:30:00Z\n2026-01-05T09:50:00Z\n", group_by=[f"t:{part}"])
    value = {"weekday": "Monday", "hour": "09", "date": "2026-01-05", "month": "2026-01"}[part]
    assert report["groups"][0]["groups"] == [{"values": [value], "count": 2}]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a;b\n1;2\n", {}),
        ("a\tb\n1\t2\n", {}),
        ("a~b\n1~2\n", {"delimiter": "~"}),
        ('a,b\n"1","2"\n\n', {}),
        ("\ufeffa,b\r\n1,2\r\n", {}),
        ("a,b\n1,2\n".encode("utf-16"), {}),
    ],
)
def test_the_ways_that_programs_write_csv_are_read(
    script: Any, tmp_path: Path, text: str | bytes, options: dict[str, str]
) -> None:
    report = read(script, tmp_path, text, **options)
    assert (report["columns"], report["rows"]) == (["a", "b"], [["1", "2"]])


def test_odd_tables_are_read_and_said_to_be_odd(script: Any, tmp_path: Path) -> None:
    report = read(script, tmp_path, 'a,a,\n1,2,3,4\n5\n"x\u2028y\nz",6,7\n')
    assert report["columns"] == ["a", "a_2", "column_3"]
    assert report["rows"] == [["1", "2", "3"], ["5", "", ""], ["x\u2028y\nz", "6", "7"]]
    assert report["raggedRows"] == 2


def test_numbers_that_no_float_holds_are_text(script: Any, tmp_path: Path) -> None:
    report = read(script, tmp_path, "n,i\n12345678901234567890,nan\n1e400,inf\n")
    assert [report["summary"][name]["kind"] for name in ("n", "i")] == ["text", "text"]


def test_letters_of_older_encodings_are_read(script: Any, tmp_path: Path) -> None:
    assert read(script, tmp_path, "name\nM\xfcller\n".encode("cp1252"))["rows"] == [["Müller"]]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("", {}, "empty"),
        ("\n \n", {}, "empty"),
        (b"PK\x03\x04\x00\x00", {}, "not text"),
        ("a,b\n", {"delimiter": "::"}, "one character"),
        ("severity\nx\n", {"group_by": ["severty"]}, "Did you mean 'severity'?"),
        ("a\nx\n", {"group_by": ["zzz"]}, "There are: a"),
        ("a\nx\n", {"group_by": ["a:year"]}, "no part of a date"),
    ],
)
def test_what_cannot_be_read_is_said(
    script: Any, tmp_path: Path, text: str | bytes, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(script.Refused, match=said.replace("?", r"\?")):
        read(script, tmp_path, text, **options)


def test_a_folder_and_an_absent_folder_are_said(script: Any, tmp_path: Path) -> None:
    with pytest.raises(script.Refused, match="is a folder"):
        script.read(tmp_path, 1, [], None)
    with pytest.raises(script.Refused, match="folder does not exist"):
        script.read(tmp_path / "absent" / "x.csv", 1, [], None)
