"""Find the PDF that a run made, and look whether it is what the tool said: bytes, digest, pages, words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from perdure.core.events import Event, Kind

LINES = 3
"""How many of its first lines are shown."""


@dataclass(frozen=True, slots=True)
class Report:
    """A PDF, as it is on the disk."""

    path: str
    bytes: int
    sha256: str
    pages: int
    first_lines: tuple[str, ...]
    holds: bool
    """Size and digest are those of the run record, and there is something to read."""


def report_in(events: Sequence[Event]) -> Report | None:
    """Return the last PDF that a tool call of the log left, or None if there is none, or it is gone."""
    records = [_artifact(event) for event in events if event.kind is Kind.TASK_COMPLETED]
    made = [record for record in records if record is not None]
    return _look(made[-1]) if made and Path(made[-1]["path"]).is_file() else None


def _artifact(event: Event) -> dict[str, Any] | None:
    value: Any = event.data["value"]
    artifacts: Any = cast("dict[str, Any]", value).get("artifacts") if isinstance(value, dict) else None
    for artifact in cast("list[dict[str, Any]]", artifacts or []):
        if str(artifact.get("path", "")).endswith(".pdf"):
            return artifact
    return None


def _look(artifact: dict[str, Any]) -> Report:
    path = Path(artifact["path"])
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    pages, lines = _read(path)
    as_told = (len(content), digest) == (artifact.get("bytes"), artifact.get("sha256"))
    return Report(str(path), len(content), digest, pages, tuple(lines[:LINES]), as_told and len(lines) > LINES)


def _read(path: Path) -> tuple[int, list[str]]:
    """Return the number of pages and the lines on them: none of a file that is no PDF."""
    from pypdf import PdfReader  # noqa: PLC0415 - a third of a second that only the end of the demo pays
    from pypdf.errors import PyPdfError  # noqa: PLC0415 - as above

    try:
        pages = PdfReader(path).pages
        lines = [line.strip() for page in pages for line in page.extract_text().splitlines() if line.strip()]
    except PyPdfError:
        return 0, []
    return len(pages), lines
