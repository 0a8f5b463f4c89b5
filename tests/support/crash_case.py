"""One crash run as data: who is killed where, what else happens, and what came of it. Travels as JSON."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

ROLES = ("client", "worker", "server")
LAYOUTS = {
    "separate": {"client": "client", "worker": "worker", "server": "server"},
    "joint": {"client": "client", "worker": "client", "server": "server"},
    "embedded": {"client": "client", "worker": "client", "server": "client"},
    "cluster": {
        name: name for name in ("client", "worker", "worker2", "worker3", "worker4", "server", "server2", "server3")
    },
}
"""Which process plays each role: three, or the client runs the tools too, or one process is everything; or several
servers share a database, and have several workers."""


@dataclass(frozen=True, slots=True)
class Strike:
    """When a process passes a point for the n-th time in one life, these roles are killed with -9."""

    point: str
    holder: str
    """The role that passes the point."""
    nth: int = 1
    victims: tuple[str, ...] = ()
    """Roles. None: the holder is stopped there and stays so until a nudge has it go on."""
    life: int = 1
    """The first of the holder's lives in which it counts."""
    optional: bool = False
    """Nothing is wrong if the point is not passed any more."""


@dataclass(frozen=True, slots=True)
class Nudge:
    """When something is seen, do something to a role."""

    when: str
    """`event:KIND[@N]` in the main execution's log, `world:NAME[@N]` in the world's, `strike:N` once that many fired,
    or `nudge:N` once that many were given."""
    act: str
    """`kill`, `term`, `stop`, `cont`, `start`; `skip` has the server's clock jump by `after` seconds instead."""
    role: str = "server"
    after: float = 0.0
    """Seconds to let pass."""


@dataclass(frozen=True, slots=True)
class Storm:
    """Blows that fall at moments a seed chooses, on whoever lives then."""

    seed: int
    blows: int
    mean_seconds: float
    """Between two of them, on average."""
    stop_seconds: float
    """How long a stopped process stays so: longer than a lease."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    name: str
    strikes: tuple[Strike, ...] = ()
    nudges: tuple[Nudge, ...] = ()
    storm: Storm | None = None
    inject: str = ""
    """What strace does to a system call of the server's first life: `fdatasync:signal=KILL:when=3`."""
    layout: str = "separate"
    faults: dict[str, str] = field(default_factory=dict[str, str])
    """Failpoints of a role's first life, beside the strikes."""
    setup: dict[str, Any] = field(default_factory=dict[str, Any])
    """Fields of `crash_roles.Setup`."""
    expect: dict[str, Any] = field(default_factory=dict[str, Any])
    """Fields of `perdure.testing.checker.Expect`."""
    standby: bool = False
    """Whether the database has a synchronous standby, which takes its place in the middle of the storm."""
    memory_bytes: int = 0
    """The limit of the control group that the client lives in; 0 is none."""
    deadline_seconds: float = 60.0
    """After which it has failed. No measure: most take two or three, on a loaded machine many times that."""

    @property
    def planned_kills(self) -> int:
        """How many processes its strikes kill at least."""
        return sum(
            len({LAYOUTS[self.layout].get(role, role) for role in one.victims})
            for one in self.strikes
            if not one.optional
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Case:
        strikes = tuple(Strike(**{**one, "victims": tuple(one["victims"])}) for one in data["strikes"])
        nudges = tuple(Nudge(**one) for one in data["nudges"])
        storm = Storm(**data["storm"]) if data.get("storm") else None
        return cls(**{**data, "strikes": strikes, "nudges": nudges, "storm": storm})


@dataclass(slots=True)
class Outcome:
    """What came of a run. Its driver fills it in."""

    name: str
    problems: list[str] = field(default_factory=list[str])
    """What kept promises exclude. None: the run ended right."""
    unfired: list[str] = field(default_factory=list[str])
    """Points that were to be passed and were not."""
    kills: int = 0
    """Processes that were killed at points, or by a storm while an execution was in flight."""
    injected: bool = False
    """Whether what was done to a system call of the server ended it."""
    struck_at_ms: list[int] = field(default_factory=list[int])
    """When somebody was killed, by the machine's clock."""
    stops: int = 0
    """Processes that a storm stopped for longer than their lease."""
    deaths: list[str] = field(default_factory=list[str])
    """`role at seconds`, in order."""
    seen: list[str] = field(default_factory=list[str])
    """All points that were passed."""
    passes: dict[str, int] = field(default_factory=dict[str, int])
    """How often, as far as processes lived to say."""
    facts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The main execution's events: `kind`, `address`, and what they carry that is neither long nor secret."""
    oom_kills: int = 0
    """Processes that the kernel killed for want of memory."""
    seconds: float = 0.0
    resumed_seconds: float = 0.0
    """From the last start of the client to the result."""
    calls_made: int = 0
    calls_twice: int = 0
    """Model calls made, and those that may have been paid for twice."""
    uncertain: int = 0
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """Figures of all its executions: see `crash_counts`."""
    slow: str = ""
    """Which execution stood still for longer than it may, where that is measured."""
    resolved: dict[str, int] = field(default_factory=dict[str, int])
    """Uncertain effects, by how each was resolved."""
    folder: str = ""
    """Where everything is that the run left; empty when it was thrown away."""

    def struck(self, *, counts: bool = True) -> None:
        """Write down that a process was killed just now."""
        self.kills += counts
        self.struck_at_ms.append(time.time_ns() // 1_000_000)

    @property
    def ok(self) -> bool:
        return not self.problems and not self.unfired

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the main execution's events of a kind."""
        return [fact for fact in self.facts if fact["kind"] == kind]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outcome:
        return cls(**data)
