"""What a demo is asked to do, and the folder it does it in. Reads the environment; starts nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from perdure.errors import InternalError, InvalidInput

SCRIPTED = "scripted/incident-report"

_EXAMPLE = "incident_report"


class Kill(StrEnum):
    """When the server dies. The client that began the run always dies first, in the middle of its first tool call."""

    AFTER_FIRST_TURN = "after-first-turn"
    """While a worker runs the next tool call: no model request is under way, so none is made twice."""
    MID_CALL = "mid-call"
    """While the answer to a model request is on its way: it has to be asked for again, and is paid for twice."""
    WHILE_WAITING = "while-waiting"
    """While a person is asked."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One demo."""

    folder: Path
    """Where everything goes: the example's programs, the store, logs, what tools make."""
    kill: Kill = Kill.AFTER_FIRST_TURN
    model: str = SCRIPTED

    @property
    def scripted(self) -> bool:
        """Whether the model is the one that comes with the demo."""
        return self.model == SCRIPTED

    @property
    def example(self) -> Path:
        """The copy of the example that is played."""
        return self.folder / _EXAMPLE

    @property
    def store(self) -> Path:
        return self.folder / "perdure.db"

    @property
    def logs(self) -> Path:
        """What each process said."""
        return self.folder / "logs"


def prepare(keep: Path | None) -> Path:
    """Return an empty folder: `keep`, or a new temporary one. Raises `InvalidInput` (`demo_folder`)."""
    try:
        if keep is None:
            return Path(tempfile.mkdtemp(prefix="perdure-demo-")).resolve()
        folder = keep.absolute()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        taken = next(folder.iterdir(), None)
    except OSError as error:
        named = "a temporary folder" if keep is None else str(keep)
        why = error.strerror or str(error)
        raise InvalidInput(
            f"{named} cannot be the demo's folder: {why}. Name a new one: --keep DIR.", code="demo_folder"
        ) from None
    if taken is not None:
        raise InvalidInput(
            f"{folder} is not empty ({taken.name}), and a demo starts with nothing. Name a new folder.",
            code="demo_folder",
        )
    return folder


def lay_out(plan: Plan) -> None:
    """Copy the example into the plan's folder."""
    plan.logs.mkdir(exist_ok=True)
    copy_example(_EXAMPLE, plan.example)


def copy_example(name: str, to: Path) -> None:
    """Copy an example's files. Raises `InternalError` (`demo_incomplete`) if this installation has none."""
    shutil.copytree(_example(name), to, ignore=shutil.ignore_patterns("__pycache__", ".*"))


def check_model(model: str, environ: Mapping[str, str] = os.environ) -> None:
    """See that a real model can be asked for. Raises `InvalidInput` that says what is missing and how to get it."""
    from perdure.models import providers  # noqa: PLC0415 - the scripted model needs none of it
    from perdure.models.port import ModelError  # noqa: PLC0415 - as above

    try:
        provider, _ = providers.find(model, None)
    except ModelError as error:
        raise InvalidInput(str(error), code=error.kind) from None
    if provider.key and not providers.key_for(provider, None, environ):
        raise InvalidInput(
            f"{model} needs a key: set {provider.key}. Without --model the demo plays with a scripted model, "
            "which needs none.",
            code="key",
        )


def _example(name: str) -> Path:
    """Return an example's folder: beside this file where Perdure is installed, in `examples` of its repository."""
    here = Path(__file__).resolve()
    for folder in (here.with_name(name), here.parents[3] / "examples" / name):
        if (folder / "README.md").is_file():
            return folder
    raise InternalError(
        f"the demo's example is missing from this installation ({here.parent}). Install perdure again.",
        code="demo_incomplete",
    )
