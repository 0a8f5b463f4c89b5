"""Two servers and two workers do anything in any order, in batches of any size, and the promises hold throughout.

The model knows only what was answered and what is committed. It shares no code with the engine.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine_bench import (
    AGENT,
    Bench,
    Outcome,
    Verb,
    ask,
    beginning,
    bench_in,
    completion,
    named,
    once,
    ref,
    request,
    step,
    task,
    wish,
)
from perdure.core.events import Event
from perdure.core.items import SetTimer
from perdure.core.rules import TaskRules
from perdure.core.views import Ruling
from perdure.core.work import Answer, Failure, Lane, LeasedTask
from perdure.engine.begin import begin
from perdure.engine.claim import Claim, Claimed, claim
from perdure.engine.complete import complete
from perdure.engine.held import Beats, HandBack, beat, hand_back
from perdure.engine.lease import lease
from perdure.engine.park import Finish, Halt, Park, Released, StillHeld, finish, halt, park
from perdure.engine.policy import rule_by_policy
from perdure.engine.record import Record, record
from perdure.engine.resolve import Decide, decide
from perdure.engine.rule import Rule
from perdure.engine.rule import rule as rule_effect
from perdure.engine.signal import signal
from perdure.engine.sweep import Drop, Renew, Sweep, drop, expire_owned, expire_tasks, fire_timers, renew, take_over
from perdure.errors import LeaseLost

T = TypeVar("T")

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None

TERMINAL = {"completed", "failed", "cancelled"}
WAKING = {
    "task_completed", "task_failed", "task_uncertain", "effect_ruled", "waitpoint_resolved", "timer_fired",
    "message", "stop_requested", "cancel_requested",
}  # fmt: skip
"""Events that the code of an execution has to look at."""

HOLDERS = ("srv_1", "srv_2")
WORKERS = ("wrk_1", "local/2")
OUTCOMES: tuple[Outcome, ...] = ("completed", "failed", "cancelled")
NOT_DONE = Failure("not_done", "nothing happened")
DOUBT = TaskRules(probe=True, settle_ms=20_000, rule_as="give_up", rule_by_ms=120_000)
LANES = (Lane(AGENT, "post"), Lane(AGENT, "post?probe"))
RULINGS: tuple[Ruling, ...] = ("run", "happened", "give_up")

Act = Callable[["Engine", int, int], None]
ACTS: list[Act] = []


def act(weight: int = 1) -> Callable[[Act], Act]:
    """Add to what may happen, so many times as likely. It gets two small numbers to choose by."""

    def add(function: Act) -> Act:
        ACTS.extend([function] * weight)
        return function

    return add


def among(choices: Sequence[T], number: int) -> T:
    """Return the latest of `choices`, or one before it."""
    return choices[-1 - number % len(choices)]


class _Answers:
    """Keeps answers until somebody looks: what is raised on the writer's side, nobody hears."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def settle(self, entries: Sequence[Any]) -> None:
        self.given += entries


class Engine(RuleBasedStateMachine):
    """One execution, everybody who may touch it, and what they were told."""

    @initialize(stage=st.integers(0, 4))
    def start(self, stage: int) -> None:
        """Begin somewhere on the way to an effect: what is rare from the first step is likely from here."""
        self.stack = ExitStack()
        folder = self.stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY))
        self.bench: Bench = self.stack.enter_context(bench_in(Path(folder)))
        self.execution = self.bench.started()
        self.claims: list[Claimed] = []
        self.leases: list[LeasedTask] = []
        self.probes: list[LeasedTask] = []
        self.began: Counter[str] = Counter()
        self.results: Counter[str] = Counter()
        self.looked = 0
        """What had been looked at when it was last parked."""
        self.fences: Counter[str] = Counter()
        self.answers = _Answers()
        self.names = 100
        self.nonce = 0

        if stage > 0:
            self.claims = self.bench.claim(holder="srv_2")
            self.bench.record(
                self.claims[0],
                once("1", rules=DOUBT, max_attempts=2),
                once("2"),
                task("3", max_attempts=2),
                SetTimer("4", "d", 7_000),
            )
        if stage > 1:
            self.leases = self.bench.lease("wrk_1", slots=3)
        if stage > 2:
            assert self.bench.begin(self.leases[0], "b") is Answer.ACCEPTED
            self.began[self.leases[0].address] += 1
        if stage > 3:
            self.looked = len(self.bench.log(self.execution))
            self.bench.park(self.claims[0])
        self.log = self.bench.log(self.execution)

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.stack.close()

    def submit(self, operation: Any, row: Any, take: Callable[[Any], None] = lambda _answer: None) -> None:
        self.bench.writer.submit(operation, row, self.answers, take)

    @property
    def seen(self) -> int:
        """What a holder that is up to date has looked at. By the time of its batch it may be old."""
        return len(self.log)

    @property
    def state(self) -> str:
        return self.bench.execution(self.execution)["state"]

    @rule(
        acts=st.lists(
            st.tuples(st.sampled_from(range(100)), st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=3
        )
    )
    def a_batch(self, acts: list[tuple[int, int, int]]) -> None:
        for which, place, choice in acts:
            ACTS[which % len(ACTS)](self, place, choice)
        while self.bench.writer.run_batch():
            for entry in self.answers.given:
                assert entry.error is None, entry.error
                entry.token(entry.result)
            self.answers.given.clear()
            self.look()

    # -- servers -------------------------------------------------------------------------------------------------------

    @act(4)
    def server_claims(self, place: int, _choice: int) -> None:
        def taken(found: list[Claimed]) -> None:
            assert all(one.fence > old.fence for one in found for old in self.claims)
            assert all([row["seq"] for row in one.events] == list(range(1, one.last_seq + 1)) for one in found)
            self.claims += found

        self.submit(claim, Claim(among(HOLDERS, place), 1, 30_000), taken)

    @act(5)
    def holder_records(self, place: int, choice: int) -> None:
        if self.claims:
            held = among(self.claims, place)
            row = Record(held.ref, held.fence, self.seen, (self.item(choice), self.item(choice * 5 + place)))
            for _ in range(1 + choice % 2):
                self.submit(record, row)

    def item(self, choice: int) -> Any:
        self.names += 1
        name = str(self.names)
        match choice % 6:
            case 0:
                return step(name)
            case 1 | 2:
                approval = str(self.names - 1) if choice > 9 else None
                return once(name, approval=approval, rules=DOUBT, args={"n": 1 + choice % 2})
            case 3:
                return task(name, max_attempts=2)
            case 4:
                return SetTimer(name, "d", 7_000)
            case _:
                return ask(name, id=f"apr_{name}")

    @act(4)
    def holder_parks(self, place: int, _choice: int) -> None:
        if self.claims and self.state != "cancelling":
            self.park(among(self.claims, place), self.seen)

    def park(self, held: Claimed, seen: int) -> None:
        def answered(answer: Any) -> None:
            if isinstance(answer, Released):
                self.looked = seen

        self.submit(park, Park(held.ref, held.fence, seen, 0), answered)

    @act(2)
    def holder_ends_what_is_cancelled(self, place: int, _choice: int) -> None:
        """As the driver does: end it, and park it if workers hold tasks of it."""
        if self.claims and self.state == "cancelling":
            held, seen = among(self.claims, place), self.seen

            def answered(answer: Any) -> None:
                if isinstance(answer, StillHeld):
                    self.park(held, seen)

            self.submit(finish, Finish(held.ref, held.fence, seen, 0, "end", "{}"), answered)

    @act()
    def holder_ends(self, place: int, choice: int) -> None:
        if self.claims and not choice:
            held = among(self.claims, place)
            ends: tuple[tuple[Any, str], ...] = (("complete", '{"output":{}}'), ("fail", '{"error":"x","code":"x"}'))
            event, data = among(ends, place)
            self.submit(finish, Finish(held.ref, held.fence, self.seen, 0, event, data))

    @act()
    def holder_halts(self, place: int, choice: int) -> None:
        if self.claims and choice < 2:
            held, event = among(self.claims, place), "pause" if choice else "stick"
            self.submit(halt, Halt(held.ref, held.fence, event, "key", "no"))

    @act()
    def server_renews_or_leaves(self, place: int, choice: int) -> None:
        holder = among(HOLDERS, place)
        self.submit(*((renew, Renew(holder, 30_000)) if choice % 2 else (drop, Drop(holder))))

    # -- workers -------------------------------------------------------------------------------------------------------

    @act(6)
    def worker_leases(self, place: int, choice: int) -> None:
        self.nonce += choice != 0
        self.submit(
            lease, wish(among(WORKERS, place), f"n{self.nonce}", slots=1 + choice % 2, lanes=LANES), self.leased
        )

    def leased(self, found: list[LeasedTask]) -> None:
        self.probes += [one for one in found if one.tool == "post?probe"]
        found = [one for one in found if one.tool == "post"]
        for one in found:
            known = any((one.address, one.fence) == (old.address, old.fence) for old in self.leases)
            assert known or self.scheduled(one) > self.cancelled(), "given out after a cancel"
        self.leases += found

    def cancelled(self) -> int:
        return next((event.seq for event in self.log if event.kind == "cancel_requested"), 0)

    def scheduled(self, task: LeasedTask) -> int:
        return next(e.seq for e in self.log if (e.kind, e.address) == ("task_scheduled", task.address))

    @act(6)
    def worker_begins(self, place: int, choice: int) -> None:
        if not self.leases:
            return
        held = among(self.leases, place)

        def answered(answer: Answer) -> None:
            if answer is Answer.ACCEPTED:
                self.began[held.address] += 1
                assert held.fence >= self.fences[held.address], "an old fence began"
                assert self.scheduled(held) > self.cancelled(), "begun after a cancel"

        if held.delivery == "at_most_once":
            row = beginning(held, "b" if choice else "c")
            self.submit(begin, replace(row, begin=replace(row.begin, intent="same" if choice > 3 else None)), answered)

    @act(5)
    def worker_reports(self, place: int, choice: int) -> None:
        if not self.leases:
            return
        held = among(self.leases, place)
        outcome = among(OUTCOMES, choice)

        def answered(answer: Answer) -> None:
            if answer is Answer.ACCEPTED:
                self.results[held.address] += outcome == "completed"
                assert held.fence >= self.fences[held.address], "an old fence reported"

        failure = NOT_DONE if (outcome, choice) == ("failed", 4) else None
        self.submit(complete, completion(held, outcome, failure=failure), answered)

    @act(2)
    def worker_says_what_a_probe_found(self, place: int, choice: int) -> None:
        if self.probes:
            found = completion(among(self.probes, place), value={"happened": (True, False, None)[choice % 3]})
            self.submit(complete, found)

    @act(2)
    def worker_beats_or_hands_back(self, place: int, choice: int) -> None:
        if self.leases:
            held = (named(among(self.leases, place)),)
            worker = among(WORKERS, choice)
            self.submit(
                *((beat, Beats("default", worker, held)) if choice % 3 else (hand_back, HandBack("default", held)))
            )

    # -- people and time -----------------------------------------------------------------------------------------------

    @act(4)
    def somebody_asks(self, place: int, choice: int) -> None:
        verbs: tuple[Verb, ...] = ("resume", "resume", "pause", "stop", "send", "cancel" if place == 0 else "send")
        self.submit(signal, request(self.execution, verbs[choice]))

    @act(2)
    def somebody_decides(self, place: int, choice: int) -> None:
        asked = [event.data["id"] for event in self.log if event.kind == "waitpoint_opened"]
        if asked:
            self.submit(decide, Decide("default", among(asked, place), "approve" if choice else "reject", "ann", ""))

    @act(4)
    def somebody_rules(self, place: int, choice: int) -> None:
        unknown = [event.address for event in self.log if event.kind == "task_uncertain"]
        if unknown:
            word = among(RULINGS, choice)
            self.submit(rule_effect, Rule("default", self.execution, among(unknown, place), word, "ann", str(choice)))

    @act(5)
    def time_passes(self, _place: int, choice: int) -> None:
        self.bench.clock.advance((1, 8, 8, 31, 31, 31)[choice])
        for operation in (expire_tasks, expire_owned, fire_timers, rule_by_policy):
            self.submit(operation, Sweep(10))

    @act()
    def the_file_gets_a_new_owner(self, _place: int, choice: int) -> None:
        if choice < 2:
            self.submit(take_over, Sweep(0))

    # -- what must hold ------------------------------------------------------------------------------------------------

    def look(self) -> None:
        before, row = self.log, self.bench.execution(self.execution)
        log = self.log = self.bench.log(self.execution)
        assert [event.seq for event in log] == list(range(1, row["next_seq"])), "a gap"
        assert log[: len(before)] == before, "what was recorded changed"
        ends = [event for event in log if event.kind in TERMINAL]
        assert len(ends) == (row["state"] in TERMINAL)
        assert not ends or log[-1] is ends[0], "something follows the end"
        held = self.bench.row("held_task", shard=row["shard"], execution=self.execution)
        assert row["state"] != "cancelled" or held is None, "it ended under its workers' hands"
        self.holds_together(row)
        self.is_alive(row, log)
        for address in {event.address for event in log if event.kind == "task_scheduled"}:
            self.task_holds(address, [event for event in log if event.address == address])
        self.grows("", row["fence"])

    def holds_together(self, row: Any) -> None:
        owner = self.bench.row("owner_of", shard=row["shard"], execution=self.execution)
        assert (owner is not None) == (row["ownership"] == "owned")
        assert bool(self.bench.ready()) == (row["ownership"] == "ready")
        assert owner is None or owner["fence"] == row["fence"]
        assert row["ownership"] != "ready" or row["state"] in ("ready", "running", "cancelling")
        assert row["state"] not in TERMINAL | {"stuck", "waiting"} or row["ownership"] == "parked"

    def is_alive(self, row: Any, log: list[Event]) -> None:
        """Whatever waits, waits for something that wakes it."""
        if row["ownership"] != "parked" or row["state"] not in ("waiting", "cancelling"):
            return
        unseen = [event.kind for event in log if event.seq > self.looked and event.kind in WAKING]
        held = self.bench.row("held_task", shard=row["shard"], execution=self.execution)
        if row["state"] == "waiting" or held is None:
            assert not unseen, "it sleeps on news"

    def task_holds(self, address: str, log: list[Event]) -> None:
        row = self.bench.task(self.execution, address)
        kinds = Counter(str(event.kind) for event in log)
        rulings = sum(event.kind == "effect_ruled" and event.data["ruling"] == "run" for event in log)
        taken_back = sum(event.kind == "attempt_failed" and event.data["code"] == "not_done" for event in log)
        again = rulings + (taken_back if row["claims"] else 0)
        assert self.began[address] == row["claims"] == kinds["task_begun"]
        assert row["claims"] <= 1 + again, "a body started twice"
        assert kinds["task_completed"] + kinds["task_failed"] <= 1, "two results"
        served = any("served" in event.data for event in log)  # by an equal call, of which it was not known
        assert kinds["task_completed"] - served <= self.results[address] <= 1
        assert row["delivery"] == "at_most_once" or row["attempt"] <= row["max_attempts"]
        assert row["state"] in ("begun", "uncertain", "done", "dead") or row["claims"] <= again
        assert not row["doubt"] or row["state"] not in ("done", "dead"), "in doubt for ever"
        assert not row["doubt"] or kinds["task_uncertain"] or self.log[-1].kind in TERMINAL, "in doubt unsaid"
        told = [event.data["fence"] for event in log if event.kind == "effect_contradicted"]
        assert len(told) == len(set(told)), "one holder contradicted twice"
        self.settles(row, log)
        self.grows(address, row["fence"])

    def settles(self, row: Any, log: list[Event]) -> None:
        """What is said not to have happened had time to happen; what may have, keeps equal calls from beginning."""
        begun = 0
        for event in log:
            begun = event.at_ms if event.kind == "task_begun" else begun
            if event.kind == "effect_ruled" and event.data["ruling"] == "run":
                assert event.at_ms >= begun + (20_000 if "settle_ms" in row["rules"] else 30_000), "ruled too early"
        uncertain = [event.seq for event in log if event.kind == "task_uncertain"]
        if uncertain and row["state"] == "uncertain" and row["digest"]:
            twins = [
                e for e in self.log if e.kind == "task_begun" and e.seq > uncertain[-1] and e.address != row["address"]
            ]
            rows = [self.bench.task(self.execution, event.address) for event in twins]
            assert all(other["digest"] != row["digest"] for other in rows), "an equal call began"

    def grows(self, name: str, fence: int) -> None:
        assert fence >= self.fences[name], "a fence went back"
        self.fences[name] = fence

    @invariant()
    def a_lost_holder_is_told_so(self) -> None:
        if hasattr(self, "claims") and self.claims and not self.bench.writer.pending:
            old = [one for one in self.claims if one.fence < self.bench.execution(self.execution)["fence"]]
            if old:
                refusal = self.bench.do(record, Record(ref(self.execution), old[-1].fence, 0, (step("late"),)))
                assert isinstance(refusal, LeaseLost)


Engine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestEngine = Engine.TestCase
