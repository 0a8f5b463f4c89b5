"""What the web UI is told of the crash demo that a server plays for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemoWorker:
    """A process that runs the demo's tools, or did. Times in milliseconds since 1970."""

    worker: str
    """As the log names it; empty until it is connected."""
    pid: int
    started_ms: int
    ready_ms: int | None = None
    """When it was connected."""
    ended_ms: int | None = None
    killed: bool = False
    """It died of SIGKILL, and of nothing else."""


@dataclass(frozen=True, slots=True)
class DemoView:
    """The demo as it stands."""

    available: bool
    """False: this server plays none for this caller, and the rest says nothing."""
    execution: str | None = None
    """The last run that was begun by this server; None before the first."""
    runs: bool = False
    steps: int = 0
    """How many steps a run has from its beginning to its end: model calls, and calls of tools."""
    kills_left: int = 0
    workers: tuple[DemoWorker, ...] = ()
    """Those of the last run, in the order of their start."""
