"""The rooms demo as one JSON document: what `perdure demo rooms --json` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from perdure.demo.evidence import Claim
from perdure.demo.rooms_evidence import in_flight
from perdure.demo.rooms_story import RoomsStory
from perdure.testing.evidence import MODEL_REQUEST, Entry


def _asks(entry: Entry) -> bool:
    return entry.name == MODEL_REQUEST


def rooms_document(story: RoomsStory, claims: Sequence[Claim]) -> dict[str, Any]:
    """Return it. `at_seconds` count from the demo's begin; `ok` says that every claim holds."""

    def at(ms: int | None) -> float | None:
        return None if ms is None else round((ms - story.began_ms) / 1000, 3)

    return {
        "ok": all(claim.holds for claim in claims),
        "room": story.room,
        "models": {"scripted": True, "asked": sorted({entry.body["model"] for entry in story.asked if _asks(entry)})},
        "seconds": at(story.ended_ms),
        "kills": [
            {"role": life.role, "pid": life.pid, "at_seconds": at(life.ended_ms), "while": life.during}
            for life in story.lives
            if life.killed
        ],
        "in_flight": in_flight(story),
        "decisions": [{"of": one.tool, "decision": one.decision, "by": one.decided_by} for one in story.approvals],
        "messages": [{"from": f"{one.company}/{one.author}", "text": one.text} for one in story.messages],
        "ledger": [
            {"seq": line.seq, "act": line.act, "by": line.by, "about": line.about, "at_seconds": at(line.at_ms)}
            | {"woken_by": line.said.get("woken_by", ""), "on_word_of": line.said.get("on_word_of", "")}
            | {"hash": line.hash}
            for line in story.lines
        ],
        "verified": asdict(story.verified),
        "claims": [asdict(claim) for claim in claims],
        "folder": str(story.plan.folder),
    }
