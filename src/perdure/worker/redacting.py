"""Have a tool's author take out of what a call leaves behind what must not be stored, before anything is written.

What he raises is not shown either: its text may hold what it was about.
"""

from __future__ import annotations

from typing import Any

from perdure.agent.tool import ToolDefinition


class NotRedacted(Exception):
    """It could not be told what may be stored. Its text has nothing of the value."""


def redacted(tool: ToolDefinition, value: Any) -> Any:
    """Return what may be stored of what a call gave. Raises `NotRedacted`."""
    redact = tool.options.redact
    if redact is None or value is None:
        return value
    try:
        return redact(value)
    except BaseException as error:  # noqa: BLE001 - it is the user's code
        raised = type(error).__qualname__
    raise NotRedacted(f"redact of tool {tool.name} raised {raised}, so nothing of what the call gave is kept")


def redacted_text(tool: ToolDefinition, text: str) -> str:
    """Return what may be stored of the text of an error. Never raises."""
    try:
        found = redacted(tool, text)
    except NotRedacted as error:
        return str(error)
    return found if isinstance(found, str) else f"redact of tool {tool.name} made no text of the text of its error"
