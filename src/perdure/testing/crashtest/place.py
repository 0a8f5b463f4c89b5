"""The folder of one run: which file is whose, and how a short note becomes visible whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything of one run is."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store.db"

    @property
    def bodies(self) -> Path:
        return self.folder / "bodies.jsonl"

    @property
    def world_log(self) -> Path:
        return self.folder / "world.jsonl"

    @property
    def client_log(self) -> Path:
        return self.folder / "client.jsonl"

    @property
    def state(self) -> Path:
        """What a user's state folder is to others."""
        return self.folder / "state"

    @property
    def outbox(self) -> Path:
        return self.state / "perdure" / "outbox"

    @property
    def own(self) -> Path:
        """The folder that the user's tools and stand-ins are given."""
        return self.folder / "own"

    def note(self, name: str) -> str:
        """Return what a process has written down, or nothing."""
        file = self.folder / name
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def write(self, name: str, text: str) -> None:
        """Have a note there, whole or not at all."""
        draft = self.folder / f"{name}.part"
        draft.write_text(text, encoding="utf-8")
        draft.replace(self.folder / name)
