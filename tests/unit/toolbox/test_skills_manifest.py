"""A skill folder is read completely or refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.errors import InvalidInput
from perdure.toolbox.skills_manifest import MAX_MANIFEST_BYTES, read_skill

GOOD = """---
name: good
description: >-
  Does good
  things.
metadata:
  script: scripts/main.py
  price: 0.05
  category: tests
  env: A_KEY, OTHER_KEY
---

# good
"""


def folder(tmp_path: Path, text: str | bytes = GOOD, name: str = "good") -> Path:
    place = tmp_path / name
    (place / "scripts").mkdir(parents=True)
    (place / "scripts" / "main.py").write_text("")
    (place / "SKILL.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    return place


def refusal(place: Path) -> str:
    with pytest.raises(InvalidInput) as caught:
        read_skill(place)
    assert caught.value.code == "skill_invalid"
    assert str(place) in caught.value.message
    return caught.value.message


def test_every_field_is_read(tmp_path: Path) -> None:
    skill = read_skill(folder(tmp_path))
    assert (skill.name, skill.description, skill.price, skill.category) == ("good", "Does good things.", 0.05, "tests")
    assert skill.script == tmp_path / "good" / "scripts" / "main.py"
    assert skill.env == ("A_KEY", "OTHER_KEY")
    assert not skill.free
    assert skill.price_label == "$0.05"


@pytest.mark.parametrize(
    ("written", "label"), [("0", "(Free)"), ('"$0.10"', "$0.10"), ("0.0025", "$0.0025"), ("2", "$2.00")]
)
def test_prices_are_shown_to_the_last_part_that_matters(tmp_path: Path, written: str, label: str) -> None:
    skill = read_skill(folder(tmp_path, GOOD.replace("price: 0.05", f"price: {written}")))
    assert skill.price_label == label


def test_what_is_left_out_has_defaults(tmp_path: Path) -> None:
    skill = read_skill(folder(tmp_path, "---\nname: good\ndescription: Does good.\n---\n"))
    assert skill.free
    assert skill.category == "general"
    assert skill.script is not None, "the only script there is"


def test_windows_line_ends_and_a_byte_order_mark_are_taken(tmp_path: Path) -> None:
    assert read_skill(folder(tmp_path, b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())).name == "good"


def test_a_skill_without_a_script_is_instructions(tmp_path: Path) -> None:
    place = folder(tmp_path, "---\nname: good\ndescription: Does good.\n---\n")
    (place / "scripts" / "main.py").unlink()
    assert read_skill(place).script is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: good", "name: Good", "`name` must be"),
        ("name: good", "name: other", "rename one"),
        ("name: good", "name: [1]", "`name` must be"),
        ("description: >-\n  Does good\n  things.", "description: ''", "`description` must say"),
        ("description: >-\n  Does good\n  things.", "description: " + "x" * 1025, "1024"),
        ("price: 0.05", "price: -1", "US dollars"),
        ("price: 0.05", "price: .inf", "US dollars"),
        ("price: 0.05", "price: yes", "US dollars"),
        ("price: 0.05", "price: cheap", "US dollars"),
        ("scripts/main.py", "scripts/absent.py", "no such file"),
        ("scripts/main.py", "../../etc/passwd", "outside the folder"),
        ("scripts/main.py", "/bin/sh", "outside the folder"),
        ("A_KEY, OTHER_KEY", "A-KEY", "names of variables"),
        ("metadata:\n", "metadata: text\nx:\n", "`key: value`"),
        ("---\nname", "name", "between two lines"),
        ("category: tests", "category: [", "cannot be read"),
        ("category: tests", "category: !!python/object/apply:os.getcwd []", "cannot be read"),
        ("category: tests", "category: 2001-99-99", "cannot be read"),
        ("category: tests", "category: " + "[" * 5000, "cannot be read"),
    ],
)
def test_a_flaw_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    assert said in refusal(folder(tmp_path, GOOD.replace(old, new, 1)))


def test_a_script_that_leaves_by_a_link_is_refused(tmp_path: Path) -> None:
    place = folder(tmp_path)
    (place / "scripts" / "main.py").unlink()
    (place / "scripts" / "main.py").symlink_to("/bin/sh")
    assert "outside the folder" in refusal(place)


def test_a_manifest_that_is_too_large_or_not_text_is_refused(tmp_path: Path) -> None:
    assert "larger than" in refusal(folder(tmp_path, GOOD + "x" * MAX_MANIFEST_BYTES))
    assert "not UTF-8" in refusal(folder(tmp_path / "b", GOOD.encode() + b"\xff"))
    assert "cannot be read" in refusal(tmp_path / "absent")
