"""A demo as one JSON document: what `perdure demo --json` prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from perdure.core.events import Event, Kind, reply_in
from perdure.demo.evidence import Evidence
from perdure.demo.story import Story


def document(story: Story, evidence: Evidence) -> dict[str, Any]:
    """Return it. `at_seconds` count from the demo's begin; `ok` says that every claim holds."""

    def at(ms: int | None) -> float | None:
        return None if ms is None else round((ms - story.began_ms) / 1000, 3)

    return {
        "ok": evidence.holds,
        "execution": story.execution,
        "status": story.view.state,
        "result": story.result,
        "model": {"name": story.plan.model, "scripted": story.plan.scripted},
        "seconds": at(story.ended_ms),
        "kills": [
            {"role": life.role, "pid": life.pid, "at_seconds": at(life.ended_ms), "while": life.during}
            for life in sorted(story.lives, key=lambda life: life.ended_ms or 0)
            if life.killed
        ],
        "nothing_alive": {
            "seconds": round(evidence.dark_ms / 1000, 3),
            "windows": [
                {"role": dark.role, "from_seconds": at(dark.from_ms), "to_seconds": at(dark.to_ms)}
                for dark in evidence.dark
            ],
        },
        "model_calls": asdict(evidence.calls),
        "attempts": [{"step": step, "what": what, "attempts": count} for step, what, count in evidence.attempts],
        "approvals": list(_approvals(story)),
        "timeline": [{"at_seconds": at(at_ms), **line} for at_ms, line in sorted(_timeline(story), key=_time)],
        "artifacts": [asdict(evidence.report)] if evidence.report else [],
        "claims": [asdict(claim) for claim in evidence.claims],
        "folder": str(story.plan.folder),
    }


def _approvals(story: Story) -> Iterator[dict[str, Any]]:
    answers = {event.address: event.data for event in story.events if event.kind is Kind.WAIT_RESOLVED}
    for event in story.events:
        if event.kind is Kind.WAIT_OPENED:
            said = answers.get(event.address, {})
            call = {"id": event.data["id"], "tool": event.data["tool"], "args": event.data["args"]}
            yield call | {"decision": said.get("decision"), "by": said.get("by")}


def _time(line: tuple[int, dict[str, Any]]) -> int:
    return line[0]


def _timeline(story: Story) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield what happened to the processes and what the log says, each with its time."""
    for life in story.lives:
        yield life.started_ms, {"process": "started", "role": life.role, "pid": life.pid, "command": life.command}
        if life.ready_ms is not None:
            yield life.ready_ms, {"process": "ready", "role": life.role, "pid": life.pid}
        if life.ended_ms is not None and life.killed:
            yield life.ended_ms, {"process": "killed", "role": life.role, "pid": life.pid, "while": life.during}
    for event in story.events:
        yield event.at_ms, {"event": event.kind.value, "seq": event.seq, **_details(event)}


def _details(event: Event) -> dict[str, Any]:
    details: dict[str, Any] = {"step": event.address} if event.address else {}
    if reply := reply_in(event):
        details["calls"] = [call["name"] for call in reply["tool_calls"]]
    for name in ("tool", "args", "attempt", "worker", "why", "decision", "by"):
        if name in event.data:
            details[name] = event.data[name]
    return details
