"""The model of a crash test: answers from a script, or with recorded replies. No provider is asked.

Runs in the world's process, which writes each request down before it is answered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any, cast

from perdure.core.events import Kind
from perdure.errors import InvalidInput
from perdure.models.port import ModelError, ModelReply, ModelRequest
from perdure.models.recorded import reply_from_json, reply_to_json, request_from_json
from perdure.models.scripted import Step, say, turns
from perdure.testing.crashtest.subject import Subject, load_script, takes_json
from perdure.testing.world import Body, Script

STATUS = {"transient": 503, "key": 401, "quota": 402, "unknown_model": 404}
"""How a failure that a script plays is told over HTTP; any other is a 400."""


class _Played(Exception):
    """A failure that the script plays."""

    def __init__(self, error: ModelError) -> None:
        super().__init__(error.message)
        self.status = STATUS.get(error.kind, 400)


def answering(subject: Subject) -> Script:
    """Return what answers model requests, both as JSON. The same request gets the same reply in every run."""
    if subject.replies:
        recorded = read_replies(Path(subject.replies))
        return lambda body: _recorded(recorded, body)
    script = load_script(subject)
    if callable(script):
        return lambda body: _by_function(script, body)
    steps = cast("Sequence[Step]", script)
    return lambda body: _json(_by_list(steps, _request(body)))


def _by_function(script: Callable[..., Any], body: Body) -> Body:
    try:
        found = script(body if takes_json(script) else _request(body))
        if isawaitable(found):
            found = asyncio.run(cast("Coroutine[Any, Any, Any]", found))
    except ModelError as error:
        raise _Played(error) from error
    return cast("Body", found) if isinstance(found, dict) else _json(found)


def _by_list(steps: Sequence[Step], request: ModelRequest) -> ModelReply:
    """Return the reply of this turn. After the last one it is said again: a crash may bring the model more news."""
    turn = turns(request)
    step = steps[min(turn, len(steps) - 1)] if steps else say("Done.")
    reply = step(request) if callable(step) else step
    return say("Done.") if turn >= len(steps) and reply.tool_calls else reply


def _recorded(replies: Mapping[str, Body], body: Body) -> Body:
    """Return the reply that was recorded at the same step; a last word for steps that the recorded run had not."""
    step = str(body.get("call", "")).partition("/")[2]
    found = replies.get(step)
    return found if found is not None else _json(say("Done."))


def _request(body: Body) -> ModelRequest:
    return request_from_json(cast("Any", body))


def _json(reply: ModelReply) -> Body:
    return cast("Body", reply_to_json(reply))


# Recorded replies.


def replies_of(events: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Body], str | None]:
    """Return the model's replies in a log by their steps, and what the execution was given if that is text."""
    replies: dict[str, Body] = {}
    given: str | None = None
    for event in events:
        data: Mapping[str, Any] = event.get("data") or {}
        if event.get("kind") == Kind.STARTED and isinstance(data.get("input"), str):
            given = data["input"]
        value = data.get("value")
        reply = cast("Mapping[str, Any]", value).get("reply") if isinstance(value, Mapping) else None
        if event.get("kind") == Kind.STEP_RECORDED and isinstance(reply, dict):
            replies[str(event.get("address"))] = cast("Body", reply)
    return replies, given


def read_events(path: Path) -> list[dict[str, Any]]:
    """Return the events of a file: an export of `perdure effects list --jsonl`, or events as JSON lines, or a list.

    Raises `InvalidInput` (`bad_replies`) if it holds more than one execution, or no reply.
    """
    events = [_event(record) for record in _records(path) if record.get("record") in (None, "event")]
    executions = {str(event["execution"]) for event in events if event.get("execution")}
    if len(executions) > 1:
        raise _bad(path, f"holds {len(executions)} executions; write one out: --execution ID")
    if not replies_of(events)[0]:
        raise _bad(path, "holds no model's reply: expected the events of an execution of an agent")
    return events


def write_replies(path: Path, replies: Mapping[str, Body]) -> None:
    """Keep replies for the processes of the runs."""
    path.write_text(json.dumps(replies), encoding="utf-8")


def read_replies(path: Path) -> dict[str, Body]:
    """Return what `write_replies` kept."""
    found: dict[str, Body] = json.loads(path.read_text(encoding="utf-8"))
    for reply in found.values():
        reply_from_json(cast("Any", reply))
    return found


def _records(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("["):
            found: Any = json.loads(text)
        else:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
            if len(found) == 1 and isinstance(found[0], dict) and "items" in found[0]:
                found = found[0]["items"]
    except (OSError, ValueError) as error:
        raise _bad(path, f"cannot be read: {error}") from error
    if not all(isinstance(one, dict) for one in found):
        raise _bad(path, "holds something else than events")
    return cast("list[dict[str, Any]]", found)


def _event(record: dict[str, Any]) -> dict[str, Any]:
    """Return an event with its data decoded: an export has it as text."""
    data = record.get("data")
    return {**record, "data": json.loads(data)} if isinstance(data, str) else record


def _bad(path: Path, why: str) -> InvalidInput:
    return InvalidInput(f"replies {str(path)!r}: it {why}.", code="bad_replies")
