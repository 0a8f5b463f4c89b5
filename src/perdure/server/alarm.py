"""Say in the server's log what a person has to look at: effects that nobody knows of, and words that proved wrong.

Reads the hints of a commit and changes nothing. No arguments, no results: those stand in the execution's log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perdure.core.events import Kind
from perdure.log import get_log
from perdure.store.protocol import Params
from perdure.store.tx import Note

log = get_log(__name__)

Publish = Callable[[Sequence[Note]], None]

_EVENTS = {Kind.TASK_UNCERTAIN: "effect.uncertain", Kind.EFFECT_CONTRADICTED: "effect.contradicted"}


def with_alarms(publish: Publish) -> Publish:
    """Return `publish`, which also warns of what was committed. Called on the writer's thread."""

    def publish_and_warn(notes: Sequence[Note]) -> None:
        publish(notes)
        for note in notes:
            for row in note.rows:
                if row["kind"] in _EVENTS:
                    _warn(row)

    return publish_and_warn


def _warn(row: Params) -> None:
    execution, address = row["execution"], row["address"]
    command = "perdure effects rule" if row["kind"] == Kind.TASK_UNCERTAIN else "perdure prove"
    rest = f" '{address}' happened|run|give-up" if row["kind"] == Kind.TASK_UNCERTAIN else ""
    log.warning(_EVENTS[Kind(row["kind"])], execution=execution, task=address, action=f"{command} {execution}{rest}")
