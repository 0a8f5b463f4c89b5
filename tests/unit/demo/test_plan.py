"""What a demo plays is the example that users edit, in a folder that was empty."""

from __future__ import annotations

import filecmp
import tempfile
import tomllib
from pathlib import Path

import pytest

from perdure.demo.plan import Plan, lay_out, prepare
from perdure.errors import InvalidInput

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "incident_report"


def test_what_is_played_is_the_example_itself(tmp_path: Path) -> None:
    plan = Plan(tmp_path)
    lay_out(plan)
    names = [path.name for path in EXAMPLE.iterdir() if path.is_file()]
    assert filecmp.cmpfiles(EXAMPLE, plan.example, names, shallow=False) == (names, [], [])


def test_the_wheel_carries_the_example_where_the_demo_looks_for_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {f"examples/{name}": f"perdure/demo/{name}" for name in ("incident_report", "two_companies")}


def test_a_demo_takes_a_new_folder_or_an_empty_one(tmp_path: Path) -> None:
    assert prepare(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert prepare(tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("taken", ["folder", "file"])
def test_a_folder_that_is_in_use_is_refused(tmp_path: Path, taken: str) -> None:
    keep = tmp_path
    if taken == "file":
        keep = tmp_path / "file"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidInput) as caught:
        prepare(keep)
    assert caught.value.code == "demo_folder"
    assert (tmp_path / "file").read_text() == "mine"


def test_a_machine_without_room_for_temporary_files_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(InvalidInput, match=r"a temporary folder cannot be .* --keep DIR") as caught:
        prepare(None)
    assert caught.value.code == "demo_folder"
