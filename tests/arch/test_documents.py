"""What the documents claim about files is true, and what must never be in the repository is not."""

from __future__ import annotations

import re
import subprocess
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from source_tree import PACKAGE, ROOT, fail_on

STANDING = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "docs/decisions",
)


def tracked() -> list[Path]:
    """Return the files that the repository holds, or would if what is new were added."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=False,
        capture_output=True,
    )
    paths = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def texts(*patterns: str) -> list[tuple[str, str]]:
    """Return (path, text) of the tracked text files that match."""
    found: list[tuple[str, str]] = []
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns):
            try:
                found.append((name, path.read_text(encoding="utf-8")))
            except UnicodeDecodeError:
                continue
    return found


def test_the_standing_documents_are_there() -> None:
    fail_on(f"{name} is missing" for name in STANDING if not (ROOT / name).exists())


def test_paths_that_documents_name_exist() -> None:
    roots = (ROOT, PACKAGE, ROOT / "src")
    path = re.compile(r"`([\w.-]+/[\w./-]*|[\w-]+\.(?:py|md|sql|toml|txt))(?:::\w+)?`")
    fail_on(
        f"{name}: names `{match[1]}`, which is not there"
        for name, text in texts("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/decisions/*")
        for match in path.finditer(text)
        if not any((root / match[1]).exists() for root in roots) and not match[1].startswith(("v1/", "perdure-"))
    )


def test_paths_below_our_folders_exist_in_whatever_document_names_them() -> None:
    path = re.compile(r"`((?:bench|docs|examples|src|tests|tools)/[\w./-]+)(?:::\w+)?`")
    fail_on(
        f"{name}: names `{match[1]}`, which is not there"
        for name, text in texts("*.md")
        for match in path.finditer(text)
        if not (ROOT / match[1]).exists()
    )


LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
"""A link within the repository: path, and heading."""


def test_links_between_documents_hold() -> None:
    fail_on(
        f"{name}: links to {match[0]}, which is not there"
        for name, text in texts("*.md")
        for match in LINK.finditer(text)
        if not _leads_somewhere(ROOT / name, match[1], match[2])
    )


def test_every_page_is_reached_from_the_readme() -> None:
    """A page that nothing links to is read by nobody."""
    ahead, seen = [ROOT / "README.md"], {ROOT / "README.md"}
    while ahead:
        page = ahead.pop()
        for match in LINK.finditer(page.read_text(encoding="utf-8")):
            found = (page.parent / match[1]).resolve() if match[1] else page
            pages = set(found.glob("*.md") if found.is_dir() else [found]) - seen
            ahead += [one for one in pages if one.suffix == ".md" and one.is_file()]
            seen |= pages
    pages = [*texts("docs/*.md"), *texts("examples/*.md")]
    fail_on(f"{name}: no way leads there from README.md" for name, _ in pages if ROOT / name not in seen)


def test_the_page_of_extras_has_each_and_says_whether_all_brings_it() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (all_of,) = extras.pop("all")
    brought = set(all_of.removeprefix("perdure[").removesuffix("]").split(","))
    page = (ROOT / "docs" / "reference" / "extras.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \|.*\| (yes|no)\b[^|]*\|$", page, re.MULTILINE))
    assert told == {name: "yes" if name in brought else "no" for name in extras}


def _leads_somewhere(page: Path, path: str, heading: str | None) -> bool:
    target = page.parent / path if path else page
    if not target.exists():
        return False
    heads = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
    return not heading or heading in {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_decisions_say_context_decision_and_consequences() -> None:
    records = [(name, text) for name, text in texts("docs/decisions/*.md") if re.match(r"\d{4}-", Path(name).name)]
    numbers = sorted(int(Path(name).name[:4]) for name, _ in records)
    assert numbers == list(range(1, len(records) + 1))
    fail_on(
        f"{name}: no section {section!r}"
        for name, text in records
        for section in ("Context", "Decision", "Consequences")
        if f"\n## {section}\n" not in text
    )


def test_locks_hold_hashes_and_no_addresses() -> None:
    for name, text in texts("requirements/*.txt", "bench/peers/*.txt"):
        lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
        starts = [number for number, line in enumerate(lines) if not line.startswith(" ")]
        assert starts, f"{name} is empty"
        fail_on(
            f"{name}: {lines[number]} is not pinned with a hash"
            for number in starts
            if "==" not in lines[number] or "--hash=sha256:" not in "".join(lines[number + 1 : number + 2])
        )
        fail_on(f"{name}: {line}" for line in lines if re.search(r"://|^\s*--(?!hash)", line))


def test_runtime_lock_holds_what_the_project_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8")
    locked = {re.sub(r"[-_.]+", "-", name).lower() for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    wanted = [re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", line)[0]).lower() for line in project["dependencies"]]
    fail_on(f"{name} is declared and not locked: run ./dev lock" for name in wanted if name not in locked)


ANYBODYS = {"/", "/tmp", "/var/tmp", "/home"}
"""Folders that every machine has: naming one says nothing about any."""


def test_no_trace_of_a_machine() -> None:
    """No path of the machine that something was made on, no address of a package registry, no private key."""
    here = {str(ROOT.parent), str(Path.home())} - ANYBODYS
    traces = [re.escape(path) + "/" for path in sorted(here)] + [
        r'"resolved": *"http',
        r"https?://[^ \"']+\.(?:whl|tgz|tar\.gz)\b",
        r"(?:index-url|registry)[ =]+\"?https?://",
        r"-----BEGIN (?:\w+ )?PRIVATE KEY",
    ]
    pattern = re.compile("|".join(traces))
    fail_on(
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line) and name != "tests/arch/test_documents.py"
    )


def test_links_stay_in_the_repository() -> None:
    """A link out of it, laid in another clone, takes the place of whatever is there: of an environment, say."""
    listing = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, check=False, capture_output=True, text=True)
    links = [ROOT / line.split("\t")[1] for line in listing.stdout.splitlines() if line.startswith("120000")]
    fail_on(
        f"{link} leads out of the repository" for link in links if not link.resolve().is_relative_to(ROOT.resolve())
    )


def test_declared_skips_have_reasons_and_tests() -> None:
    for line in (ROOT / "tests" / "skips.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern, _, reason = line.partition(" -- ")
            file = pattern.split("::")[0].strip()
            if not reason.strip() or not list(ROOT.glob(file)):
                pytest.fail(f"tests/skips.txt: {line!r} has no reason, or no file", pytrace=False)
