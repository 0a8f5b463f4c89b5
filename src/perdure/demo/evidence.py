"""Check a demo by its witnesses: the model endpoint's log, the execution's log, the processes, the file it made.

Everything that is printed in the end stands on a claim here; one that does not hold fails the demo.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from perdure.client.timeline import ModelStep, timeline_of
from perdure.core import states
from perdure.core.events import Event, Kind, reply_in
from perdure.demo.plan import Kill
from perdure.demo.processes import Life
from perdure.demo.report_file import Report, report_in
from perdure.demo.story import Story
from perdure.testing.checker import Expect, check
from perdure.testing.evidence import MODEL_REQUEST, Entry, History
from perdure.testing.evidence import Event as Seen


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that the demo says is so."""

    says: str
    holds: bool
    found: str
    """What shows it, or what was found instead."""


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """Requests to the model, and what became of the replies."""

    made: int
    recorded: int
    """Replies in the execution's log."""
    reused: int
    """Recorded replies that the second server worked with and never asked for: it took them from the log."""
    paid_twice: int
    """Requests for a reply that had been given before and was lost."""
    counted_by: str


@dataclass(frozen=True, slots=True)
class Dark:
    """A time in which something that the run needed was dead."""

    role: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a demo showed."""

    calls: ModelCalls
    attempts: tuple[tuple[str, str, int], ...]
    """(address, what, attempts) of each step, in order."""
    dark: tuple[Dark, ...]
    report: Report | None
    claims: tuple[Claim, ...]

    @property
    def holds(self) -> bool:
        """Whether every claim does."""
        return all(claim.holds for claim in self.claims)

    @property
    def dark_ms(self) -> int:
        """Milliseconds in which nothing was alive to carry the run on."""
        return sum(one.to_ms - one.from_ms for one in self.dark)


def judge(story: Story) -> Evidence:
    """Return what the witnesses say."""
    calls, report = _calls(story), report_in(story.events)
    return Evidence(
        calls=calls,
        attempts=tuple(_attempts(story)),
        dark=tuple(_dark(story.lives)),
        report=report,
        claims=tuple(_claims(story, calls, report)),
    )


# -- figures -----------------------------------------------------------------------------------------------------------


def _calls(story: Story) -> ModelCalls:
    recorded = [event for event in story.events if reply_in(event) is not None]
    restart_ms = story.life("server", 1).started_ms
    if story.asked is None:
        models = [one for one in timeline_of(story.events).entries if isinstance(one, ModelStep)]
        paid_twice = sum(one.repeated for one in models)
        return ModelCalls(
            made=sum(one.requests for one in models),  # with those that a dead server may have made
            recorded=len(recorded),
            reused=sum(event.at_ms < restart_ms for event in recorded),
            paid_twice=paid_twice,
            counted_by="the execution's log; the provider has its own",
        )
    requests = [entry for entry in story.asked if entry.name == MODEL_REQUEST and entry.effect]
    per_step = Counter(entry.step for entry in requests)
    return ModelCalls(
        made=len(requests),
        recorded=len(recorded),
        reused=_reused(recorded, [entry for entry in requests if entry.received_at_ms >= restart_ms]),
        paid_twice=sum(count - 1 for count in per_step.values()),
        counted_by="the model endpoint's own log",
    )


def _reused(recorded: Sequence[Event], later: Sequence[Entry]) -> int:
    """Count the recorded replies that the second server sent along as history, and never asked for itself."""
    asked = {entry.step for entry in later}
    known = {
        (message["text"], *(call["id"] for call in message.get("tool_calls") or ()))
        for entry in later
        for message in entry.body["messages"]
        if message["role"] == "assistant"
    }
    return sum(event.address not in asked and _mark(event) in known for event in recorded)


def _mark(event: Event) -> tuple[str, ...]:
    """Return what tells a reply from all others of its conversation."""
    reply = reply_in(event) or {}
    return (reply["text"], *(call["id"] for call in reply["tool_calls"]))


def _attempts(story: Story) -> Iterator[tuple[str, str, int]]:
    requests = Counter(entry.step for entry in story.asked or () if entry.name == MODEL_REQUEST)
    tries: Counter[str] = Counter()
    for event in story.events:
        tries[event.address] = max(tries[event.address], int(event.data.get("attempt") or 0))
    for event in story.events:
        if event.kind is Kind.STEP_RECORDED:
            yield event.address, "model call", requests[event.address] or 1
        elif event.kind is Kind.TASK_SCHEDULED:
            what = str(event.data["args"].get("skill") or event.data["tool"])
            yield event.address, what, tries[event.address]


def _dark(lives: Iterable[Life]) -> Iterator[Dark]:
    """Yield the times between a kill and the moment in which the next of its kind did its work."""
    dead: dict[str, Life] = {}
    for life in lives:
        if (before := dead.pop(life.role, None)) and before.ended_ms and life.ready_ms:
            yield Dark(life.role, before.ended_ms, life.ready_ms)
        if life.killed:
            dead[life.role] = life


# -- claims ------------------------------------------------------------------------------------------------------------


def _claims(story: Story, calls: ModelCalls, report: Report | None) -> Iterator[Claim]:
    killed = sorted((life for life in story.lives if life.killed), key=lambda life: life.ended_ms or 0)
    yield Claim(
        "the client and the server were killed, each once",
        [life.role for life in killed] == ["client", "server"],
        ", ".join(f"{life.role} {life.pid}" for life in killed) or "nobody was",
    )
    yield Claim(
        "it ended under the id that it began with",
        story.view.id == story.execution and story.view.state == states.Execution.COMPLETED and story.executions == 1,
        f"{story.view.state}; executions in the store: {story.executions}",
    )
    yield Claim(
        "the client that came later printed its result",
        bool(story.result) and str(story.result) in story.printed,
        story.life("client", -1).command,
    )
    yield _interrupted(story)
    yield from _paid(story, calls)
    yield from _decided(story.events)
    yield Claim(
        "the report is there, as the tool said",
        report is not None and report.holds,
        "no PDF was made" if report is None else "its size and digest, and it can be read",
    )


def _interrupted(story: Story) -> Claim:
    """The tool call that the first client held was lost with it, and done by the other one."""
    died_ms = story.life("client", 0).ended_ms or 0
    first = next((event for event in story.events if event.kind is Kind.TASK_SCHEDULED), None)
    ends = [event for event in story.events if first and event.address == first.address and event.data.get("attempt")]
    kinds = [event.kind for event in ends]
    return Claim(
        "the call that the client took with it was done by another",
        kinds == [Kind.ATTEMPT_LOST, Kind.TASK_COMPLETED] and all(event.at_ms >= died_ms for event in ends),
        ", ".join(f"attempt {event.data['attempt']} {event.kind.value.rpartition('_')[2]}" for event in ends),
    )


def _paid(story: Story, calls: ModelCalls) -> Iterator[Claim]:
    expected = 1 if story.plan.kill is Kill.MID_CALL else 0
    found = f"{calls.made} made, {calls.recorded} recorded"
    if story.asked is None:  # how many a provider refused, and whether it was asked in time, only it knows
        says = "at most one model call was paid twice" if expected else "no model call was paid twice"
        yield Claim(says, calls.paid_twice <= expected, found)
    else:
        says = "one model call was paid twice: its first reply was lost" if expected else "no model call was paid twice"
        yield Claim(says, calls.paid_twice == expected == calls.made - calls.recorded, found)
        silent = Expect(silent_tools=frozenset(event.data["tool"] for event in story.events if "tool" in event.data))
        verdict = check(story.asked, [], [_history(story)], silent)
        broken = "; ".join(map(str, verdict.violations))
        yield Claim("every promise held", verdict.ok, broken or "perdure.testing.checker found nothing against it")
    yield Claim("recorded replies were used again, and not asked for again", calls.reused > 0, f"{calls.reused} reused")


def _history(story: Story) -> History:
    seen = (Seen(event.seq, event.kind.value, event.address, event.data, event.at_ms) for event in story.events)
    return History(story.execution, story.view.state, tuple(seen))


def _decided(events: Sequence[Event]) -> Iterator[Claim]:
    """Nothing that needs a yes ran without one."""
    for opened in (event for event in events if event.kind is Kind.WAIT_OPENED):
        answers = [event for event in events if event.kind is Kind.WAIT_RESOLVED and event.address == opened.address]
        call = opened.address.removesuffix("/approval")
        done = [event for event in events if event.address == call and event.kind is Kind.TASK_COMPLETED]
        approved = [answer.data["decision"] for answer in answers] == ["approve"]
        early = [event for event in done if not approved or event.data["started_ms"] < answers[0].at_ms]
        yield Claim(
            "nothing that costs money ran before a person had said yes",
            len(answers) == 1 and not early,
            ", ".join(f"{answer.data['decision']} by {answer.data['by']}" for answer in answers) or "undecided",
        )
