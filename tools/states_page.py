"""Write docs/concepts/states.md from the state tables. `--check` only says whether it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from perdure.core import states

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "states.md"
HEAD = """# States

Made from `src/perdure/core/states.py` by `tools/states_page.py`; a test keeps it true. A pair of state and event that
is not listed is refused.
"""


def render() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for title, kind, table in (
        ("Execution", states.Execution, states.EXECUTION_TABLE),
        ("Task", states.Task, states.TASK_TABLE),
        ("Waitpoint", states.Waitpoint, states.WAITPOINT_TABLE),
        ("Task in a room", states.RoomTask, states.ROOM_TASK_TABLE),
        ("Membership of a room", states.Membership, states.MEMBERSHIP_TABLE),
    ):
        parts.append(f"\n## {title}\n\n```mermaid\nstateDiagram-v2")
        parts += [f"    {state} --> {after}: {event}" for (state, event), after in table.items()]
        ends = [state for state in kind if not any(state == before for before, _ in table)]
        parts += [f"    {state} --> [*]" for state in ends]
        parts.append("```")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == render() else f"{PAGE} is out of date: run {sys.argv[0]}")
    PAGE.write_text(render(), encoding="utf-8")
