"""Find skills and run them: the Python side of `perdure skills`.

A run is one child process and one record. Nothing here asks for approval: who may spend money is decided above.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NoReturn

from perdure.core.codec import Json
from perdure.core.ids import new_id
from perdure.core.ports import Clock
from perdure.errors import InvalidInput, NotFound, PerdureError
from perdure.system import SystemClock, SystemRandom
from perdure.toolbox.skills_manifest import MANIFEST, Skill, read_skill
from perdure.toolbox.skills_process import EXIT_CANNOT_RUN, EXIT_UNKNOWN, run_script

PATH_VARIABLE = "PERDURE_SKILLS_PATH"
"""Folders of skill folders, separated as in PATH."""

OUT_VARIABLE = "PERDURE_SKILLS_OUT"
"""Where runs leave their files. Default: `.skills/exports` below the current folder."""

DEFAULT_OUT = Path(".skills/exports")
DEFAULT_TIMEOUT = timedelta(minutes=5)
MAX_ARTIFACTS = 1000

_BUNDLED = Path(__file__).resolve().parent.parent / "skills"
_INHERITED = frozenset(
    "PATH HOME USER LOGNAME LANG LANGUAGE TZ TMPDIR TEMP TMP VIRTUAL_ENV PYTHONPATH PYTHONHOME LD_LIBRARY_PATH "
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy "
    "SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA PROGRAMDATA USERPROFILE".split()
)


@dataclass(frozen=True, slots=True)
class Catalog:
    """What was found: each name once, in alphabetical order."""

    skills: tuple[Skill, ...]
    problems: tuple[str, ...]
    """One sentence for each folder that looks like a skill and cannot be used."""

    def find(self, name: str) -> Skill:
        """Return the skill called `name`. Raises `NotFound` (`unknown_skill`) that names the nearest ones."""
        for skill in self.skills:
            if skill.name == name:
                return skill
        near = nearest(name, [skill.name for skill in self.skills])
        hint = f"did you mean {near!r}?" if near else "`perdure skills list` shows those there are."
        raise NotFound(f"there is no skill {name!r:.80}; {hint}", code="unknown_skill", nearest=near)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a run left behind."""

    path: str
    """Absolute."""
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What one run did. `to_json` gives the form that `perdure skills run --json` prints."""

    id: str
    skill: str
    status: Literal["completed", "failed"]
    exit_code: int
    """0 completed; 124 too slow, 125 too much output, 126 not startable, 127 no such skill; else the script's own."""
    stdout: str
    stderr: str
    artifacts: tuple[Artifact, ...]
    price: float
    """US dollars."""
    duration_ms: int
    started_at: str
    """ISO 8601, UTC."""
    output: Json
    """What the script printed, if it is one JSON value (whole, or on the last line); else None."""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "skill": self.skill,
            "status": self.status,
            "exitCode": self.exit_code,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "artifacts": [{"path": a.path, "bytes": a.bytes, "sha256": a.sha256} for a in self.artifacts],
            "price": self.price,
            "durationMs": self.duration_ms,
            "startedAt": self.started_at,
            "output": self.output,
        }


def list_skills(dirs: Iterable[Path | str] = ()) -> tuple[Skill, ...]:
    """Return the usable skills, by name. `dirs` are looked into before the usual places."""
    return read_catalog(dirs).skills


def read_catalog(dirs: Iterable[Path | str] = ()) -> Catalog:
    """Read `dirs`, PERDURE_SKILLS_PATH, `./skills` and the bundled skills; the first of a name wins.

    A broken skill folder is a problem in the catalog and hides nothing else. Raises `InvalidInput` (`no_such_dir`) for
    a folder in `dirs` that does not exist.
    """
    skills: dict[str, Skill] = {}
    problems: list[str] = []
    for place in _places(dirs, problems):
        for folder in _skill_folders(place):
            try:
                skill = read_skill(folder)
            except InvalidInput as error:
                problems.append(error.message)
            else:
                skills.setdefault(skill.name, skill)
    return Catalog(tuple(skills[name] for name in sorted(skills)), tuple(problems))


def run_skill(
    name: str,
    args: Sequence[str] = (),
    *,
    dirs: Iterable[Path | str] = (),
    out: Path | str | None = None,
    timeout: timedelta = DEFAULT_TIMEOUT,
    clock: Clock | None = None,
) -> RunRecord:
    """Run a skill's script here and now, and return the record of the run, also of one that failed.

    The script sees: the current folder, the usual environment variables (no keys, unless its manifest names them) and
    SKILL_OUT_DIR, a new folder of its own below `out` (default: PERDURE_SKILLS_OUT, else `./.skills/exports`).
    Raises `NotFound` (`unknown_skill`), `InvalidInput` (`skill_has_no_script`, `skill_not_started`, `skill_bad_args`,
    `skills_out_unusable`). Calling twice runs twice.
    """
    clock = clock or SystemClock()
    skill = read_catalog(dirs).find(name)
    if skill.script is None:
        raise InvalidInput(
            f"skill {name!r} has no script to run: it is instructions for a model, in {skill.folder / MANIFEST}.",
            code="skill_has_no_script",
        )
    run_id = new_id("run", clock, SystemRandom())
    started_at = _iso(clock)
    folder = _export_folder(out, run_id)
    ended = run_script(
        skill.script,
        args,
        cwd=Path.cwd(),
        env=_environment(os.environ, skill, folder),
        timeout_ms=round(timeout.total_seconds() * 1000),
        clock=clock,
    )
    return RunRecord(
        id=run_id,
        skill=name,
        status="completed" if ended.exit_code == 0 else "failed",
        exit_code=ended.exit_code,
        stdout=ended.stdout,
        stderr=ended.stderr,
        artifacts=_artifacts(folder),
        price=skill.price,
        duration_ms=ended.duration_ms,
        started_at=started_at,
        output=_parsed(ended.stdout),
    )


def refusal(name: str, error: PerdureError, clock: Clock | None = None) -> RunRecord:
    """Return the record of a run that never began because of `error`: failed, at no cost.

    For callers that read nothing but records, so that a model which chose a wrong name is told so.
    """
    clock = clock or SystemClock()
    return RunRecord(
        id=new_id("run", clock, SystemRandom()),
        skill=name,
        status="failed",
        exit_code=EXIT_UNKNOWN if isinstance(error, NotFound) else EXIT_CANNOT_RUN,
        stdout="",
        stderr=error.message + "\n",
        artifacts=(),
        price=0.0,
        duration_ms=0,
        started_at=_iso(clock),
        output=None,
    )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name`, words in any order, or None if none is near."""

    def likeness(candidate: str) -> float:
        plain = difflib.SequenceMatcher(None, name, candidate).ratio()
        words = difflib.SequenceMatcher(None, sorted(name.split("-")), sorted(candidate.split("-"))).ratio()
        return max(plain, words)

    best = max(known, key=likeness, default=None)
    return best if best is not None and likeness(best) >= 0.6 else None


def _places(dirs: Iterable[Path | str], problems: list[str]) -> list[Path]:
    places: list[Path] = []
    for given in dirs:
        if not Path(given).is_dir():
            raise InvalidInput(f"{given} is not a folder; one that holds skill folders is needed.", code="no_such_dir")
        places.append(Path(given))
    for part in filter(None, os.environ.get(PATH_VARIABLE, "").split(os.pathsep)):
        if Path(part).is_dir():
            places.append(Path(part))
        else:
            problems.append(f"{PATH_VARIABLE} names {part}, which is not a folder.")
    return [*places, Path("skills"), _BUNDLED]


def _skill_folders(place: Path) -> list[Path]:
    if (place / MANIFEST).is_file():
        return [place]
    try:
        return sorted(child for child in place.iterdir() if (child / MANIFEST).is_file())
    except OSError:  # `./skills` need not be there, nor be ours
        return []


def _export_folder(out: Path | str | None, run_id: str) -> Path:
    root = Path(out or os.environ.get(OUT_VARIABLE) or DEFAULT_OUT).absolute()
    folder = root / run_id
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        _refuse_out(root, error)
    return folder


def _refuse_out(root: Path, error: OSError) -> NoReturn:
    raise InvalidInput(
        f"files of runs cannot be written to {root}: {error.strerror}. Choose a folder with --out or {OUT_VARIABLE}.",
        code="skills_out_unusable",
    ) from None


def _environment(source: Mapping[str, str], skill: Skill, folder: Path) -> dict[str, str]:
    # A list of what is passed and not of what is held back: a skill is somebody else's code, and keys have any name.
    wanted = _INHERITED.union(skill.env)
    kept = {key: value for key, value in source.items() if key in wanted or key.startswith(("LC_", "XDG_"))}
    own = {"SKILL_NAME": skill.name, "SKILL_OUT_DIR": str(folder), "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return kept | own


def _artifacts(folder: Path) -> tuple[Artifact, ...]:
    """List the files of a run, links left out; remove the folder if it is empty."""
    found: list[Artifact] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and len(found) < MAX_ARTIFACTS:
            with path.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            found.append(Artifact(str(path), path.stat().st_size, digest))
    if not found:
        try:
            folder.rmdir()
        except OSError:  # empty folders of the script's, or links: they stay
            pass
    return tuple(found)


def _parsed(stdout: str) -> Json:
    lines = stdout.strip().splitlines()
    for text in (stdout, lines[-1] if lines else ""):
        try:
            return json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            continue
    return None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _iso(clock: Clock) -> str:
    instant = datetime.fromtimestamp(clock.wall_ms() / 1000, tz=UTC)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
