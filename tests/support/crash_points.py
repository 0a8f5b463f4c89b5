"""Every failpoint there is, read from the code; what it takes to come by each; and those that no run comes by, and why.

Names are never listed by hand: a point that is new in the code is swept by the next run, or fails it.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import perdure
import perdure.engine
from crash_case import Case, Nudge, Strike
from crash_errands import ERRANDS as SIDE_ERRANDS
from perdure.store.operation import Operation

SOURCE = Path(perdure.__file__).parent
WORKER_REQUESTS = frozenset(
    (
        "lease begin report beat hand_back alive claim_executions renew_executions release_executions journal "
        "offer_blob put_chunk"
    ).split()
)
MOMENTS = ("before_commit", "after_commit")
ENDS = ("send", "received")
PATTERNS = frozenset({"http.{}.send", "http.{}.received", "{}.{}"})
"""The points whose names are made at run time: requests' and operations'."""

_OF_UPKEEP = "a command on a store that no server runs on; tests/store/test_{}.py kills it there"
UNREACHED: dict[str, str] = {
    **{name: _OF_UPKEEP.format("backup") for name in ("backup", "restore", "set_back", "pause_schedules")},
    "copy": _OF_UPKEEP.format("copy"),
    "refuse_blob": "nobody sends content that is not what its hash says; tests/unit/server/test_direct_blobs.py does",
    "keep_vectors": "made by servers with the extra `vectors` alone; tests/store/test_room_vectors.py breaks it off",
    "act_in_room": "committed by wakes of agents in rooms alone; tests/crash/test_rooms.py kills there",
    **dict.fromkeys(
        (
            *("accept_message", "publish_agent", "withdraw_agent", "published_agents", "a2a_push", "pushes"),
            *("set_push", "delete_push", "take_push", "told_push", "missed_push", "free_pushes"),
        ),
        "asked for by who speaks A2A alone; tests/e2e/test_a2a_door.py and test_a2a_push.py kill there",
    ),
    **dict.fromkeys(
        ("reserve", "settle", "halt_wake"),
        "committed by wakes that have a budget or were stopped; tests/crash/test_rooms.py kills there",
    ),
    **dict.fromkeys(
        ("say_present", "say_still_present"),
        "said only by servers that share a database; `./dev crash --minutes N` kills them there",
    ),
    **dict.fromkeys(
        ("say_onlookers", "tell_onlookers"),
        "committed where somebody looks on from another server; tests/unit/server/test_relay.py fails there, and "
        "tests/e2e/test_live_relay.py kills servers and the database meanwhile",
    ),
    "sweep_relay": "no run is that old; tests/store/test_relay.py does it",
    **dict.fromkeys(
        ("forget", "set_retention", "drop_blobs"),
        "no run is that old; tests/store/test_retention.py and test_large_values.py break them off before and after "
        "the commit",
    ),
}
"""Operation or request -> why no run commits or sends it by itself, and the test that kills there."""
_OF_SHARING = ("say_present", "say_still_present")
UNREACHED_IN_DATABASES: dict[str, str] = {
    **{name: why for name, why in UNREACHED.items() if name not in _OF_SHARING},
    "take_over": "nobody owns a database",
    "expire_owned": "a server that is alone prolongs its leases before it looks for any that ran out",
    "close": "nothing of a database is closed but connections",
}
"""The same where servers share a database."""


@dataclass(frozen=True, slots=True)
class Way:
    """What a run needs so that it comes by a point."""

    errands: tuple[str, ...] = ()
    strikes: tuple[Strike, ...] = ()
    """Deaths that come first."""
    nudges: tuple[Nudge, ...] = ()
    faults: dict[str, str] = field(default_factory=dict[str, str])
    setup: dict[str, Any] = field(default_factory=dict[str, Any])
    expect: dict[str, Any] = field(default_factory=dict[str, Any])
    layout: str = ""
    """Where only one layout leads there."""


_LINGER = Way(setup={"linger_seconds": 0.6})
"""A body that takes longer than a third of its lease: heartbeats, and an execution that parks meanwhile."""
_LOST_TASK = Way(strikes=(Strike("tool.before_body", "worker", 1, ("worker",)),))
"""A worker that dies with a task in its hands."""
_UNCERTAIN = Way(strikes=(Strike("tool.after_body", "worker", 3, ("worker",)),))
"""A worker that dies after it did, once at most, what it was to do."""
_RETURNED = Way(setup={"linger_seconds": 5.0}, nudges=(Nudge("world:announce", "term", "worker"),), layout="separate")
"""A worker that is told to leave while a body runs."""
_LEAVING = Way(nudges=(Nudge("world:model_request@2", "term", "server"),), setup={"model_faults": "model=slow:2@2"})
"""A server that is told to leave in the middle of a model call."""
_TOKENS = Way(errands=("tokens",))
_SLOW_FUNCTION = Way(errands=("tokens",), setup={"linger_seconds": 0.6})
"""A durable function, with a step that takes longer than a third of its lease."""
LATE = {"late_attempts": True}
"""For runs in which a process may act after somebody else took over: it was stopped, or the server's clock skipped."""
SCHEDULING = (
    *("make_schedule", "change_schedule", "create_schedule", "delete_schedule", "trigger_schedule", "schedules"),
    *("schedule", "pause_schedule", "resume_schedule"),
)
ROOMS = (
    *("make_room", "write_in_room", "create_room", "put_room_agent", "rooms", "room", "room_messages", "room_tasks"),
    *("room_task", "room_memory", "room_wakes", "room_rights", "room_ledger", "search_room"),
    *("put_chunk", "put_file", "put_room_chunk", "put_room_file", "room_files", "room_file", "room_file_chunk"),
    "room_file_text",
    *("start_in_room", "start_room", "room_stops", "set_budget", "set_room_budget", "room_budgets"),
)
QUEUES = ("change_queue", "queues", "queue", "set_queue", "pause_queue", "resume_queue")
OF_A_FILE = frozenset({"migrate", "take_over", "close"})
"""What only the owner of a SQLite file commits."""
BROWSERS = ("new_link", "redeem", "end_session")
COMPANIES = (
    *("revoke_key", "stop_company", "companies", "add_company_key", "revoke_company_key", "start_company"),
    *("add_hook", "remove_hook", "add_room_hook", "room_hooks", "remove_room_hook"),
)
SECRETS = ("change_secrets", "secrets", "set_secret", "delete_secret", "rotate_secrets")
VALUES = ("offer_blob", "put_chunk", "finish_blob", "blob_chunk", "values", "value", "spool")
WAITED_FOR: dict[str, Way] = {
    "fire_timers": Way(setup={"refuse": "429:21"}),
    "say_still_present": Way(setup={"refuse": "429:25"}),
    "fire_schedules": Way(errands=("tick",)),
}
"""In place of `WAYS` where the database's clock decides: nobody sets that one, so its time has to pass."""
_AT_THE_START = frozenset({"migrate", "take_over"})
"""What a server does before it serves, and hardly ever after."""
_SECOND_LIFE = Way(strikes=(Strike("record.after_commit", "server", 1, ("server",)),))
"""A server that opens its store while clients and workers wait for it."""

WAYS: dict[str, Way] = {
    "beat": _LINGER,
    "park": _LINGER,
    "claim": _LINGER,
    "tell_time": Way(setup={"model_faults": "model=slow:0.8@1"}),
    "renew": Way(setup={"model_faults": "model=slow:0.6@1"}),
    "close": _LEAVING,
    "drop": _LEAVING,
    "hand_back": _RETURNED,
    "expire_tasks": _LOST_TASK,
    "shrink": _LOST_TASK,
    # A renewal that takes longer than what it renews: the sweep finds the lease expired right after it.
    "expire_owned": Way(faults={"server": "renew.before_commit=delay:1.5@1"}, setup={"model_faults": "model=slow:2@1"}),
    "halt": Way(setup={"refuse": "402"}),
    # The provider asks for more time than anybody sleeps; the server's clock then jumps over it.
    "fire_timers": Way(
        setup={"refuse": "429:60"},
        nudges=(Nudge("event:timer_set", "skip", after=61),),
        expect={"clock_slack_ms": 65_000},
    ),
    # A worker that dies when its result is on its disk and not told: the next one tells it.
    "bequest": Way(strikes=(Strike("outbox.after_sync", "worker", 1, ("worker",)),)),
    "rule": _UNCERTAIN,
    "effects": _UNCERTAIN,
    **dict.fromkeys(("end_token", "expire_tokens", "complete_token", "fail_token"), _TOKENS),
    **dict.fromkeys(("claim_lanes", "claim_executions", "journal", "renew_executions"), _SLOW_FUNCTION),
    "shrink_owned": replace(_TOKENS, strikes=(Strike("http.journal.received", "worker", 1, ("worker",)),)),
    "release_executions": replace(
        _TOKENS, setup={"linger_seconds": 1.5}, nudges=(Nudge("world:open", "term", "worker"),), layout="separate"
    ),
    "cancel_children": Way(errands=("children",)),
    "map_step": Way(errands=("rename",), nudges=(Nudge("note:renamed", "kill", "worker"),)),
    **dict.fromkeys(("escalate_approvals", "expire_approvals"), Way(errands=("unheard",))),
    "rule_by_policy": Way(errands=("doubt",)),
    "expire_tries": Way(errands=("overdue",)),
    **dict.fromkeys(("revive", "retry_task", "dead_tasks"), Way(errands=("revive",))),
    "fork": Way(errands=("fork",)),
    **dict.fromkeys(SCHEDULING, Way(errands=("schedule",))),
    "begin_delayed": Way(errands=("later",)),
    **dict.fromkeys(QUEUES, Way(errands=("queues",))),
    **dict.fromkeys(ROOMS, Way(errands=("rooms",))),
    **dict.fromkeys(COMPANIES, Way(errands=("companies",))),
    **dict.fromkeys(SECRETS, Way(errands=("secrets",))),
    **dict.fromkeys(BROWSERS, Way(errands=("browser",))),
    **dict.fromkeys(VALUES, Way(errands=("values",))),
    "fire_schedules": Way(
        errands=("tick",), nudges=(Nudge("note:ticking", "skip", after=61),), expect={"clock_slack_ms": 65_000, **LATE}
    ),
    "signal": Way(errands=("signal", "send", "pause", "cancel", "stop")),
    "send": Way(errands=("send",)),
    "pause": Way(errands=("pause",)),
    "resume": Way(errands=("pause",)),
    "cancel": Way(errands=("cancel",)),
    "stop": Way(errands=("stop",)),
    "health": Way(errands=("discover",)),
    **{name: Way(errands=("browse",)) for name in "info events executions approvals workers tasks doctor log".split()},
    "search_executions": Way(errands=("browse",)),
}
"""What leads to the points of an operation or a request, where the plain run does not."""


@dataclass(frozen=True, slots=True)
class Point:
    """A failpoint and who passes it."""

    name: str
    holder: str
    in_database: bool = False
    """Whether the store is in a database that servers share."""

    @property
    def way(self) -> Way:
        ways = WAYS | WAITED_FOR if self.in_database else WAYS
        return ways.get(self._subject, Way())

    @property
    def toured(self) -> bool:
        """Say whether it is passed on an errand that asks for nothing but itself."""
        return self.on_the_side and not (self.way.strikes or self.way.setup or self.way.layout)

    @property
    def on_the_side(self) -> bool:
        """Say whether it is passed on an errand beside the report."""
        return bool(SIDE_ERRANDS.keys() & set(self.way.errands))

    @property
    def unreached(self) -> str:
        """Why no run comes by it; empty if one does."""
        unreached = UNREACHED_IN_DATABASES if self.in_database else UNREACHED
        return unreached.get(self._subject, "")

    @property
    def _subject(self) -> str:
        parts = self.name.split(".")
        return parts[-2] if parts[0] in ("http", "worker") else parts[0]

    def kills(self, victims: tuple[str, ...]) -> bool:
        """Say whether these roles live when the point is passed."""
        return self._subject != "add_key" or victims == ("server",)

    def case(self, victims: tuple[str, ...], nth: int = 1, layout: str = "separate", *, again: bool = False) -> Case:
        """Return the run in which these roles are killed when the point is passed for the n-th time.

        `again`: and once more at the first pass in a later life of the holder, if there is one.
        """
        opening = self._subject in _AT_THE_START and victims != (self.holder,)
        way = _SECOND_LIFE if opening else self.way
        strike = Strike(self.name, self.holder, nth, victims, life=2 if opening else 1)
        second = replace(strike, nth=1, life=2, optional=True)
        return Case(
            name=f"{self.name}@{nth} kills {'+'.join(victims)} ({way.layout or layout})",
            strikes=(*way.strikes, strike, *([second] if again else [])),
            nudges=way.nudges,
            layout=way.layout or layout,
            faults=way.faults,
            setup={**way.setup, "errands": list(way.errands)},
            expect=way.expect,
        )


def points(*, in_database: bool = False) -> list[Point]:
    """Return all of them, in order."""
    found = {f"{name}.{moment}": "server" for name in operations() for moment in MOMENTS}
    for name in requests():
        holder = "worker" if name in WORKER_REQUESTS else "client"
        found |= {f"http.{name}.{end}": holder for end in ENDS}
    found |= {name: _holder(name) for name in literals()}
    return [Point(name, holder, in_database) for name, holder in sorted(found.items())]


def operations() -> list[str]:
    """Return the names of all operations of the engine."""
    names: set[str] = set()
    for module in pkgutil.iter_modules(perdure.engine.__path__):
        found = vars(importlib.import_module(f"perdure.engine.{module.name}")).values()
        names.update(one.name for one in found if isinstance(one, Operation))
    return sorted(names)


def requests() -> list[str]:
    """Return the names of all requests that a client or a worker sends: the first text given where one is made."""
    makers = {"Ask", "_get", "_post", "_tell", "_answers", "_of_one", "_turn"}
    names: set[str] = set()
    for path in (SOURCE / "client").glob("*.py"):
        for call in _calls(path):
            name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
            texts = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            texts = [text for text in texts if text not in ("GET", "POST", "PUT")]
            if name in makers and texts:
                names.add(texts[0])
    return sorted(names)


def literals() -> list[str]:
    """Return the points that stand in the code as they are."""
    return sorted(name for name in _hits() if "{" not in name)


def patterns() -> set[str]:
    """Return the points whose names are made at run time, with `{}` for what is put in."""
    return {name for name in _hits() if "{" in name}


def _hits() -> set[str]:
    names: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for call in _calls(path):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "hit" and call.args:
                names.add(_text(call.args[0]))
    return names


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else "{}"


def _calls(path: Path) -> list[ast.Call]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _holder(name: str) -> str:
    return "worker" if name.startswith(("tool.", "worker.", "outbox.", "spool.")) else "server"


TOURS = (
    ("children", "fork", "revive"),
    ("doubt", "overdue", "unheard"),
    ("later", "queues"),
    ("rooms",),
    ("rename",),
    ("schedule",),
    ("browser", "companies", "secrets"),
    ("tick",),
    ("tokens",),
    ("values",),
)
"""Errands that are done in one run."""


def tours() -> list[Case]:
    """Return runs in which whoever passes a point of an errand is killed, at each of these points in turn.

    A short cut through what the matrix does one by one, with the client, the worker and the server as victims.
    """
    return [_tour(names) for names in TOURS]


def _tour(names: tuple[str, ...]) -> Case:
    group = [point for point in points() if point.toured and set(point.way.errands) <= set(names)]
    ways = list({point.way.errands: point.way for point in group}.values())
    return Case(
        f"the tour of {', '.join(names)}",
        tuple(Strike(point.name, point.holder, 1, (point.holder,)) for point in group),
        tuple(nudge for way in ways for nudge in way.nudges),
        layout="joint",
        setup={"errands": list(names)},
        expect={name: value for way in ways for name, value in way.expect.items()},
    )


def tour_of_functions() -> Case:
    """Return a run in which a worker of durable functions dies, and the next one is told to leave."""
    dies, leaves = WAYS["shrink_owned"], WAYS["release_executions"]
    servers = [
        Strike(f"{name}.after_commit", "server", 1, ("server",)) for name in ("shrink_owned", "release_executions")
    ]
    return Case(
        "the tour of functions",
        (*dies.strikes, *servers),
        leaves.nudges,
        layout="separate",
        setup={**leaves.setup, "errands": list(dies.errands)},
    )
