"""The boundaries at which a crash test kills: between what is done and what is recorded, and on both sides of it.

Each is a failpoint of the product (`perdure.failpoints`), so the kill lands there on any machine.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from perdure.errors import InvalidInput

Victim = Literal["server", "worker"]
Per = Literal["run", "turn", "record", "lease", "call"]


@dataclass(frozen=True, slots=True)
class Boundary:
    """A moment at which a process is killed, or stopped for longer than its lease."""

    name: str
    point: str
    """The failpoint. Empty: the moment is seen from outside."""
    victim: Victim
    per: Per
    """What is counted there: an agent's turns, what is stored of them, leases that a worker asks for (some find nothing
    to do), the calls of its tools, or the one run."""
    moment: str
    """Goes on after "the server was killed "; `{call}` stands for what was under way."""
    stops: bool = False
    """The victim is stopped until others have taken its work over, then goes on."""

    def told(self, call: str) -> str:
        """Return what happened here, as a clause."""
        done = "stopped for longer than its lease" if self.stops else "killed"
        return f"the {self.victim} was {done} {self.moment.format(call=call)}"


_S: Victim = "server"
_W: Victim = "worker"

BOUNDARIES: tuple[Boundary, ...] = (
    Boundary("start.after", "start.after_commit", _S, "run", "after it had stored the start and before it said so"),
    Boundary("model.before", "model.send", _S, "turn", "right before it asked the model"),
    Boundary("model.during", "", _S, "turn", "while the model was answering"),
    Boundary("model.after", "model.received", _S, "turn", "when it had the model's reply and had not stored it"),
    Boundary("record.before", "record.before_commit", _S, "record", "before it had stored a reply or a call"),
    Boundary("record.after", "record.after_commit", _S, "record", "right after it had stored a reply or a call"),
    Boundary("approval.after", "decide.after_commit", _S, "run", "after it had stored a yes and before it said so"),
    Boundary("lease.before", "lease.before_commit", _S, "lease", "before it had given a call to a worker"),
    Boundary(
        "lease.after", "lease.after_commit", _S, "lease", "after a call was given to a worker, which had not heard"
    ),
    Boundary("lease.received", "worker.lease.received", _W, "lease", "when it had received {call} and not begun"),
    Boundary("begin.before", "begin.before_commit", _S, "call", "before the claim of {call} was stored"),
    Boundary(
        "begin.after", "begin.after_commit", _S, "call", "after the claim of {call} was stored, before it said so"
    ),
    Boundary("begin.received", "worker.begin.received", _W, "call", "when its claim of {call} was confirmed"),
    Boundary("body.before", "tool.before_body", _W, "call", "right before the body of {call}"),
    Boundary("body.after", "tool.after_body", _W, "call", "after the body of {call}, before it told anybody"),
    Boundary("call.before", "tool.before_body", _S, "call", "right before it made {call} itself"),
    Boundary("call.after", "tool.after_body", _S, "call", "after it had made {call} itself, before that was stored"),
    Boundary("result.kept", "outbox.after_sync", _W, "call", "when the result of {call} was on its disk, and not told"),
    Boundary("commit.before", "complete.before_commit", _S, "call", "before it had stored the result of {call}"),
    Boundary("commit.after", "complete.after_commit", _S, "call", "right after it had stored the result of {call}"),
    Boundary("stop.before", "tool.before_body", _W, "call", "right before the body of {call}", stops=True),
    Boundary("stop.after", "tool.after_body", _W, "call", "after the body of {call}", stops=True),
    Boundary("end.before", "finish.before_commit", _S, "run", "before it had stored the end of the run"),
    Boundary("end.after", "finish.after_commit", _S, "run", "right after it had stored the end of the run"),
)
"""In the order in which a run comes by them."""

MOST: dict[Per, int] = {"run": 1, "turn": 2, "record": 3, "lease": 3, "call": 6}
"""At how many passes each is tried, at most: those after it are the same code on other data."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One run's kill: a boundary, at its n-th pass."""

    boundary: Boundary
    nth: int

    @property
    def name(self) -> str:
        """As `--only` takes it."""
        return self.boundary.name if self.boundary.per == "run" else f"{self.boundary.name}@{self.nth}"


def chosen(only: list[str]) -> list[tuple[Boundary, int]]:
    """Return the boundaries that `--only` means, each with its pass, 0 for all; all of them if it means none.

    Raises `InvalidInput` (`unknown_boundary`) with the nearest name.
    """
    return [_find(one) for one in only] or [(boundary, 0) for boundary in BOUNDARIES]


def _find(text: str) -> tuple[Boundary, int]:
    name, at, nth = text.partition("@")
    found = next((one for one in BOUNDARIES if one.name == name), None)
    if found is None or (at and not (nth.isdecimal() and int(nth) > 0)):
        names = [one.name for one in BOUNDARIES]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near and near[0] != name else ""
        raise InvalidInput(
            f"there is no boundary {text!r}.{hint} They are {', '.join(names)}; `{near[0] if near else names[0]}@2` "
            "is the second pass alone.",
            code="unknown_boundary",
        )
    return found, int(nth or 0)


def spread(passes: int, most: int) -> list[int]:
    """Return at which passes to strike: all of them, or the first ones and the last."""
    return list(range(1, passes + 1)) if passes <= most else [*range(1, most), passes]
