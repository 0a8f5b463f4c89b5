"""Every state, and every way to leave it. Nothing else in the project spells a state.

From these tables come the assertions in code, the SQL `CHECK` constraints and `docs/concepts/states.md`. A pair
that is not listed is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Execution(StrEnum):
    """Where an execution stands. Who holds it is `Ownership`, a thing apart."""

    READY = "ready"
    """Something happened that it has not looked at yet; leaves when a server claims it."""
    RUNNING = "running"
    """A server runs its code; leaves by parking, ending, or a request to pause or cancel."""
    WAITING = "waiting"
    """It waits for a task, a decision, a date or a message, and holds nothing; leaves when one arrives."""
    PAUSED = "paused"
    """Nobody may claim it until somebody resumes it; its reason says whether a user, a quota or a key did it."""
    STUCK = "stuck"
    """Going on would be a guess: its log and its code disagree, or it cannot be read. A person has to look."""
    CANCELLING = "cancelling"
    """A cancel was accepted; leaves when what had begun has reported or run out of time."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Ownership(StrEnum):
    """Who may move an execution on."""

    PARKED = "parked"
    """Nobody needs to; it waits."""
    READY = "ready"
    """Anybody may claim it: it has a row in `ready`."""
    OWNED = "owned"
    """One server does, under the current fence, until its lease ends."""


class Task(StrEnum):
    """Where a task stands."""

    READY = "ready"
    """On its queue; leaves when a worker leases it."""
    LEASED = "leased"
    """Reserved by a worker for a time; a body that may be repeated can already be running."""
    BEGUN = "begun"
    """The claim of an `at_most_once` body is durable: it may have acted from here on, and is never given out again."""
    UNCERTAIN = "uncertain"
    """It may have acted, and nobody knows; leaves by a late report or a ruling."""
    DONE = "done"
    """Its result is in the log."""
    DEAD = "dead"
    """It ended without a result: failed for good, cancelled, or given up; leaves only if somebody puts it back."""


class Waitpoint(StrEnum):
    """Where a wait stands."""

    OPEN = "open"
    RESOLVED = "resolved"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class RoomTask(StrEnum):
    """Where a task in a room stands. It stays until somebody closes it."""

    OPEN = "open"
    """Nobody has taken it on; leaves when somebody it is meant for claims, completes or declines it."""
    CLAIMED = "claimed"
    """Somebody said that they are at it; leaves when they complete, decline or release it."""
    DONE = "done"
    DECLINED = "declined"
    """Whoever it was meant for said that they will not do it."""
    CANCELLED = "cancelled"
    """Whoever asked for it does not want it any more."""


class Membership(StrEnum):
    """How a company, or an agent of it, stands to a room."""

    INVITED = "invited"
    """It may join, and sees no more than that it may."""
    JOINED = "joined"
    """It sees the room and may act there."""
    GONE = "gone"
    """It left, or was taken out: to it the room is not there."""


class Reason(StrEnum):
    """Why an execution is paused or stuck."""

    USER = "user"
    QUOTA = "quota"
    KEY = "key"
    MISMATCH = "mismatch"
    POISON = "poison"


TERMINAL = frozenset({Execution.COMPLETED, Execution.FAILED, Execution.CANCELLED})
"""Absorbing states of an execution."""

TASK_ENDED = frozenset({Task.DONE, Task.DEAD})
TASK_HELD = frozenset({Task.LEASED, Task.BEGUN})
ROOM_TASK_CLOSED = frozenset({RoomTask.DONE, RoomTask.DECLINED, RoomTask.CANCELLED})

Table = Mapping[tuple[str, str], str]

EXECUTION_TABLE: Table = {
    (Execution.READY, "delay"): Execution.WAITING,  # the time that it is to begin at has not come
    (Execution.READY, "claim"): Execution.RUNNING,
    (Execution.RUNNING, "claim"): Execution.RUNNING,  # its holder's lease ran out
    (Execution.CANCELLING, "claim"): Execution.CANCELLING,
    (Execution.RUNNING, "park"): Execution.WAITING,
    (Execution.CANCELLING, "park"): Execution.CANCELLING,
    (Execution.PAUSED, "park"): Execution.PAUSED,  # paused while a server held it
    (Execution.WAITING, "wake"): Execution.READY,
    (Execution.CANCELLING, "wake"): Execution.CANCELLING,
    (Execution.READY, "pause"): Execution.PAUSED,
    (Execution.RUNNING, "pause"): Execution.PAUSED,
    (Execution.WAITING, "pause"): Execution.PAUSED,
    (Execution.PAUSED, "resume"): Execution.READY,
    (Execution.STUCK, "resume"): Execution.READY,  # after the code was mended
    (Execution.RUNNING, "stick"): Execution.STUCK,
    (Execution.WAITING, "stick"): Execution.STUCK,  # what its next task is about cannot be read
    (Execution.PAUSED, "stick"): Execution.STUCK,
    (Execution.READY, "cancel"): Execution.CANCELLING,
    (Execution.RUNNING, "cancel"): Execution.CANCELLING,
    (Execution.WAITING, "cancel"): Execution.CANCELLING,
    (Execution.PAUSED, "cancel"): Execution.CANCELLING,
    (Execution.STUCK, "cancel"): Execution.CANCELLING,
    (Execution.CANCELLING, "cancel"): Execution.CANCELLING,  # asked twice
    (Execution.RUNNING, "complete"): Execution.COMPLETED,
    (Execution.RUNNING, "fail"): Execution.FAILED,
    (Execution.CANCELLING, "end"): Execution.CANCELLED,
}

TASK_TABLE: Table = {
    (Task.READY, "lease"): Task.LEASED,
    (Task.READY, "cancel"): Task.DEAD,  # never given out
    (Task.READY, "complete"): Task.DONE,  # by the holder whose lease ran out, before anybody else was given it
    (Task.READY, "expire"): Task.DEAD,  # the deadline for all its tries passed before the next one
    (Task.READY, "lose"): Task.UNCERTAIN,  # tried before, and whoever is called has forgotten its key
    (Task.LEASED, "begin"): Task.BEGUN,
    (Task.LEASED, "hand_back"): Task.READY,  # released, or its lease ran out before it began
    (Task.LEASED, "retry"): Task.READY,  # a failed attempt, with attempts left
    (Task.LEASED, "complete"): Task.DONE,
    (Task.LEASED, "die"): Task.DEAD,  # a failed attempt, none left; or cancelled
    (Task.LEASED, "lose"): Task.UNCERTAIN,  # a failed attempt, and the next would come after its key is forgotten
    (Task.BEGUN, "complete"): Task.DONE,
    (Task.BEGUN, "lose"): Task.UNCERTAIN,  # raised, timed out, cancelled, or its holder vanished
    (Task.BEGUN, "take_back"): Task.READY,  # its author's word that nothing happened, with attempts left
    (Task.BEGUN, "die"): Task.DEAD,  # likewise, none left
    (Task.UNCERTAIN, "complete"): Task.DONE,  # the holder's late report
    (Task.UNCERTAIN, "take_back"): Task.READY,  # the holder's late report that nothing happened
    (Task.UNCERTAIN, "die"): Task.DEAD,  # likewise, with no attempt left
    (Task.UNCERTAIN, "rule_happened"): Task.DONE,
    (Task.UNCERTAIN, "rule_run"): Task.READY,  # a second claim, in the ruler's name
    (Task.UNCERTAIN, "rule_give_up"): Task.DEAD,
    (Task.DEAD, "revive"): Task.READY,  # somebody has it tried anew, and nothing of it can have acted at most once
}

WAITPOINT_TABLE: Table = {
    (Waitpoint.OPEN, "resolve"): Waitpoint.RESOLVED,
    (Waitpoint.OPEN, "expire"): Waitpoint.EXPIRED,
    (Waitpoint.OPEN, "cancel"): Waitpoint.CANCELLED,
}

ROOM_TASK_TABLE: Table = {
    (RoomTask.OPEN, "claim"): RoomTask.CLAIMED,
    (RoomTask.CLAIMED, "release"): RoomTask.OPEN,
    (RoomTask.OPEN, "complete"): RoomTask.DONE,
    (RoomTask.CLAIMED, "complete"): RoomTask.DONE,
    (RoomTask.OPEN, "decline"): RoomTask.DECLINED,
    (RoomTask.CLAIMED, "decline"): RoomTask.DECLINED,
    (RoomTask.OPEN, "cancel"): RoomTask.CANCELLED,
    (RoomTask.CLAIMED, "cancel"): RoomTask.CANCELLED,
}

MEMBERSHIP_TABLE: Table = {
    (Membership.GONE, "invite"): Membership.INVITED,
    (Membership.INVITED, "join"): Membership.JOINED,
    (Membership.INVITED, "leave"): Membership.GONE,  # declined
    (Membership.JOINED, "leave"): Membership.GONE,
    (Membership.GONE, "register"): Membership.JOINED,  # an agent, by its company
}


class Refused(Exception):
    """A transition that is in no table was asked for."""


def allowed(table: Table, state: str, event: str) -> bool:
    """Say whether `event` may happen in `state`."""
    return (state, event) in table


def move(table: Table, state: str, event: str) -> str:
    """Return the state after `event`. Raises `Refused`, which in the engine means a bug: it asks `allowed` first."""
    try:
        return table[state, event]
    except KeyError:
        raise Refused(f"no transition {event!r} from state {state!r}") from None


def check_clause(column: str, states: type[StrEnum]) -> str:
    """Render the SQL `CHECK` that holds a column to its states."""
    return f"CHECK ({column} IN ({', '.join(repr(str(s)) for s in states)}))"
