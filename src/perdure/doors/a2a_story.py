"""What A2A shows of a task, told from its execution's log and from nothing else. Pure.

Whoever reads the same log tells the same story: every server, a stream that begins late, and who is told by push. What
comes out are the protocol's objects as JSON, of version 1.0.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from perdure.core import codec, states
from perdure.core.a2a import A2aTask
from perdure.core.codec import Json
from perdure.core.events import Event, Kind

Object = dict[str, Any]
"""An object of the protocol, as JSON."""

SUBMITTED = "TASK_STATE_SUBMITTED"
WORKING = "TASK_STATE_WORKING"
INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
ENDS = {
    Kind.COMPLETED: "TASK_STATE_COMPLETED",
    Kind.FAILED: "TASK_STATE_FAILED",
    Kind.CANCELLED: "TASK_STATE_CANCELED",
}
"""How a task ends, by how its log does."""
ENDED = {
    "TASK_STATE_COMPLETED": states.Execution.COMPLETED,
    "TASK_STATE_FAILED": states.Execution.FAILED,
    "TASK_STATE_CANCELED": states.Execution.CANCELLED,
}
"""And in which state its execution is then."""
GOES_ON = frozenset({SUBMITTED, WORKING, INPUT_REQUIRED})

ARTIFACT = "result"
"""The one artifact of a task: what its agent answered."""
SHOWN = 2_000
"""Letters of a call's arguments in the words about it."""


class Story:
    """One task. Feed it events in their order: each gives the updates that it means, mostly none."""

    def __init__(self, execution: str, context: str, message: str) -> None:
        """`message`: the id of the one that it began with."""
        self.execution = execution
        self.seq = 0
        """The last event that this is the story of."""
        self._context, self._message = context, message
        self._at_ms = 0
        """When it came to stand as it does."""
        self._history: list[Object] = []
        self._artifacts: list[Object] = []
        self._calls: dict[str, Object] = {}
        """By address: the calls that wait for a person's yes."""
        self._halted = ""
        """Why it does not go on before a person has seen to it."""
        self._end: tuple[str, str] | None = None
        """The state that it ended in, and why it failed."""

    # -- how it stands -------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """How it stands, in the protocol's word."""
        if self._end is not None:
            return self._end[0]
        if self._calls or self._halted:
            return INPUT_REQUIRED
        return WORKING if self.seq > 1 else SUBMITTED

    @property
    def ended(self) -> bool:
        return self._end is not None

    @property
    def settled(self) -> bool:
        """Whether nothing happens to it by itself any more: it has ended, or waits for somebody."""
        return self.ended or self.state == INPUT_REQUIRED

    def task(self, history: int | None = None, *, artifacts: bool = True) -> Object:
        """Return all of it. `history`: so many of the last messages; None: all there are."""
        said = self._history if history is None else self._history[-history:] if history > 0 else []
        found: Object = {
            "id": self.execution,
            "contextId": self._context,
            "status": self._status(),
            "metadata": {"seq": self.seq},
        }
        if said:
            found["history"] = said
        if artifacts and self._artifacts:
            found["artifacts"] = self._artifacts
        return found

    def _status(self) -> Object:
        status: Object = {"state": self.state, "timestamp": _moment(self._at_ms)}
        if parts := self._words():
            status["message"] = self._said("ROLE_AGENT", f"{self.execution}-{self.seq}", parts)
        return status

    def _words(self) -> list[Object]:
        """Return the parts of the message that says why it stands as it does."""
        if self._end is not None:
            return [{"text": self._end[1]}] if self._end[1] else []
        halted: list[Object] = [{"text": self._halted}] if self._halted else []
        calls: list[Object] = []
        for call in self._calls.values():
            given = codec.encode(call["args"])
            cut = given if len(given) <= SHOWN else f"{given[:SHOWN]}…"
            words = f"The call {call['tool']}({cut}) waits for a person's decision: approval {call['approval']}."
            calls += [{"text": words}, {"data": {"approval": call["approval"], "tool": call["tool"]}}]
        return [*halted, *calls]

    def _said(self, role: str, id: str, parts: list[Object]) -> Object:
        return {"messageId": id, "role": role, "parts": parts, "taskId": self.execution, "contextId": self._context}

    # -- how it goes on ------------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> list[Object]:
        """Take the next event; return the updates that it means: `statusUpdate`, `artifactUpdate`."""
        before = self.state, self._words()
        self.seq = event.seq
        made = self._take(event)
        if (self.state, self._words()) == before:
            return made
        self._at_ms = event.at_ms
        update: Object = {**self._named(), "status": self._status()}
        return [*made, {"statusUpdate": update}]

    def reach(self, seq: int, at_ms: int) -> list[Object]:
        """Say that the log goes as far as that, and that what was not fed changes nothing but that it is at work.
        Returns the update that this means, if it does."""
        before = self.state
        self.seq = max(self.seq, seq)
        if self.state == before:
            return []
        self._at_ms = at_ms
        return [{"statusUpdate": {**self._named(), "status": self._status()}}]

    def _take(self, event: Event) -> list[Object]:
        data = event.data
        match event.kind:
            case Kind.STARTED:
                self._at_ms = event.at_ms
                self._hear(self._message, data["input"])
            case Kind.MESSAGE:
                self._hear(str(data.get("dedupe") or f"{self.execution}-{event.seq}"), data["text"])
            case Kind.WAIT_OPENED if data.get("kind") == "approval":
                self._calls[event.address] = {"approval": data["id"], "tool": data["tool"], "args": data["args"]}
            case Kind.WAIT_RESOLVED:
                self._calls.pop(event.address, None)
            case Kind.PAUSED:
                self._halted = _why("Paused", data)
            case Kind.STUCK:
                self._halted = _why("Stuck", data)
            case Kind.RESUMED:
                self._halted = ""
            case Kind.CANCEL_REQUESTED:
                self._halted = ""
                self._calls.clear()
            case Kind.COMPLETED | Kind.FAILED | Kind.CANCELLED:
                return self._finish(event)
            case _:
                pass
        return []

    def _hear(self, id: str, said: Json) -> None:
        self._history.append(self._said("ROLE_USER", id, [_part(said)]))

    def _finish(self, event: Event) -> list[Object]:
        data = event.data
        why = f"{data.get('code', 'failed')}: {data.get('error', '')}" if event.kind is Kind.FAILED else ""
        self._end = ENDS[event.kind], why
        if event.kind is not Kind.COMPLETED:
            return []
        output: Json = data["output"]
        result = output.get("result") if isinstance(output, dict) else output
        artifact: Object = {"artifactId": ARTIFACT, "name": ARTIFACT, "parts": [_part(result)]}
        self._artifacts.append(artifact)
        return [{"artifactUpdate": {**self._named(), "artifact": artifact, "lastChunk": True}}]

    def _named(self) -> Object:
        return {"taskId": self.execution, "contextId": self._context, "metadata": {"seq": self.seq}}


def story_of(task: A2aTask) -> Story:
    """Return the story of a task as far as it was read."""
    story = Story(task.execution, task.context, task.message)
    for event in task.events:
        story.feed(event)
    story.reach(task.last_seq, task.updated_ms)
    return story


def as_of_0_3(task: Object) -> Object:
    """Return a task as version 0.3 writes it: what those are told by push who asked in that version."""
    found = {**task, "kind": "task", "status": _status_of_0_3(task["status"])}
    if "history" in task:
        found["history"] = [_message_of_0_3(one) for one in task["history"]]
    if "artifacts" in task:
        found["artifacts"] = [{**one, "parts": _parts_of_0_3(one["parts"])} for one in task["artifacts"]]
    return found


def _status_of_0_3(status: Object) -> Object:
    found = {**status, "state": status["state"].removeprefix("TASK_STATE_").lower().replace("_", "-")}
    return {**found, "message": _message_of_0_3(status["message"])} if "message" in status else found


def _message_of_0_3(message: Object) -> Object:
    role = message["role"].removeprefix("ROLE_").lower()
    return {**message, "kind": "message", "role": role, "parts": _parts_of_0_3(message["parts"])}


def _parts_of_0_3(parts: list[Object]) -> list[Object]:
    return [_part_of_0_3(part) for part in parts]


def _part_of_0_3(part: Object) -> Object:
    if "text" in part:
        return {"kind": "text", **part}
    data = part["data"]
    return {"kind": "data", "data": data if isinstance(data, dict) else {"value": data}}


def _part(value: Json) -> Object:
    """Return what was said as a part of a message: text as text, all else as data."""
    return {"text": value} if isinstance(value, str) else {"data": value}


def _why(word: str, data: dict[str, Any]) -> str:
    said = str(data.get("message") or data.get("explanation") or "")
    return f"{word} ({data['reason']}). {said}".rstrip()


def _moment(at_ms: int) -> str:
    """Return a time of the store's clock as the protocol writes it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
