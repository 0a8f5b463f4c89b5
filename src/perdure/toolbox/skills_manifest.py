"""Read one skill folder: the front matter of its SKILL.md, checked, as a `Skill`.

Reads files and runs nothing. The format is the open one of https://agentskills.io: YAML between two `---` lines, then
markdown for the model. Ours in `metadata`: `script`, `price`, `category`, `env`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

from perdure.errors import InvalidInput

MANIFEST = "SKILL.md"
MAX_MANIFEST_BYTES = 256 * 1024

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that was found and read. Its script has not been looked into."""

    name: str
    description: str
    folder: Path
    script: Path | None
    """None: the skill is only instructions for a model, nothing to run."""
    price: float = 0.0
    """US dollars for one run."""
    category: str = "general"
    env: tuple[str, ...] = ()
    """Names of environment variables that its script may see beside the usual ones, such as a key it needs."""

    @property
    def free(self) -> bool:
        return self.price == 0

    @property
    def price_label(self) -> str:
        """`(Free)`, or the price to the last cent that matters: `$0.05`, `$0.0025`."""
        if self.free:
            return "(Free)"
        cents = f"{self.price:.2f}"
        return f"${cents}" if math.isclose(float(cents), self.price) else f"${self.price:.6f}".rstrip("0")


def read_skill(folder: Path) -> Skill:
    """Return the skill in `folder`. Raises `InvalidInput` (`skill_invalid`) that names the folder and the fix."""
    try:
        fields = _front_matter(folder / MANIFEST)
        metadata = _mapping(fields.get("metadata"), "metadata")
        return Skill(
            name=_name(fields.get("name"), folder),
            description=_description(fields.get("description")),
            folder=folder.resolve(),
            script=_script(metadata.get("script"), folder.resolve()),
            price=_price(metadata.get("price", 0)),
            category=str(metadata.get("category", "general")),
            env=_env(metadata.get("env", "")),
        )
    except _Flaw as flaw:
        raise InvalidInput(f"skill folder {folder}: {flaw}", code="skill_invalid", folder=str(folder)) from None


class _Flaw(Exception):
    """What is wrong with a manifest; `read_skill` adds where."""


def _front_matter(manifest: Path) -> dict[str, object]:
    try:
        with manifest.open("rb") as source:
            raw = source.read(MAX_MANIFEST_BYTES + 1)
        text = raw.decode()
    except OSError as error:
        raise _Flaw(f"{MANIFEST} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise _Flaw(f"{MANIFEST} is not UTF-8 text.") from None
    if len(raw) > MAX_MANIFEST_BYTES:
        raise _Flaw(f"{MANIFEST} is larger than {MAX_MANIFEST_BYTES // 1024} KB; move detail into other files.")
    match = _FRONT_MATTER.match(text)
    if not match:
        raise _Flaw(f"{MANIFEST} must open with YAML between two lines of `---`.")
    try:
        return _mapping(yaml.safe_load(match[1]), "the front matter")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = str(error).replace("\n", " ") or type(error).__name__
        raise _Flaw(f"the YAML in {MANIFEST} cannot be read: {line:.300}") from None


def _mapping(value: object, what: str) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Flaw(f"{what} must be `key: value` lines, and is a {type(value).__name__}.")
    return {str(key): item for key, item in cast("dict[object, object]", value).items()}


def _name(value: object, folder: Path) -> str:
    if not isinstance(value, str) or len(value) > 64 or not _NAME.fullmatch(value):
        raise _Flaw(f"`name` must be 1 to 64 of a-z, 0-9 and single hyphens, and is {value!r:.80}.")
    if value != folder.resolve().name and value != folder.name:
        raise _Flaw(f"`name` is {value!r}, the folder is {folder.name!r}: rename one of them.")
    return value


def _description(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Flaw("`description` must say what the skill does and when to use it.")
    if len(value) > 1024:
        raise _Flaw(f"`description` has {len(value)} characters; 1024 is the most.")
    return " ".join(value.split())


def _script(value: object, folder: Path) -> Path | None:
    if value is None:
        found = sorted(folder.glob("scripts/*.py"))
        return found[0].resolve() if len(found) == 1 else None
    script = (folder / str(value)).resolve()
    if not script.is_relative_to(folder):
        raise _Flaw(f"`metadata.script` is {value!r}, which lies outside the folder.")
    if not script.is_file():
        raise _Flaw(f"`metadata.script` is {value!r}, and there is no such file.")
    return script


def _price(value: object) -> float:
    try:
        price = float(str(value).strip().removeprefix("$"))
    except ValueError:
        price = math.nan
    if isinstance(value, bool) or not math.isfinite(price) or price < 0:
        raise _Flaw(f"`metadata.price` must be US dollars for one run, such as 0.05, and is {value!r:.80}.")
    return price


def _env(value: object) -> tuple[str, ...]:
    names = str(value).replace(",", " ").split()
    for name in names:
        if not _ENV_NAME.fullmatch(name):
            raise _Flaw(f"`metadata.env` must be names of variables with spaces between, and has {name!r:.80}.")
    return tuple(names)
