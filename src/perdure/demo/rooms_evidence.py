"""Check the rooms demo by its witnesses: the room's ledger, the model endpoint's log, the processes, the verifier.

Everything that is printed in the end stands on a claim here; one that does not hold fails the demo.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from perdure.core import states
from perdure.demo.evidence import Claim
from perdure.demo.rooms_script import PLANNER as PLANNER_MODEL
from perdure.demo.rooms_script import SUPPLIER as SUPPLIER_MODEL
from perdure.demo.rooms_story import ACME, BOB, GLOBEX, PLANNER, SUPPLIER, Line, RoomsStory
from perdure.testing.evidence import MODEL_REQUEST

HELD = "act held"
OPENED = "task opened"
REPLIED = "posted"
RESULT = {True: OPENED, False: "act refused"}
"""What becomes of the offer, by bob's word."""


def judge_rooms(story: RoomsStory) -> tuple[Claim, ...]:
    """Return what the witnesses say."""
    return (*_kill(story), *_wakes(story), *_rights(story), _ledger(story))


def in_flight(story: RoomsStory) -> str:
    """Say in one line what became of what was under way when the server was killed, by the ledger and the endpoint."""
    before, after = done_by(SUPPLIER, story.at_death), done_by(SUPPLIER, story.lines)
    ids = sorted({str(line.said["execution"]) for line in after})
    later = [line.act for line in after[len(before) :]]
    asked = sum(_requests(story)[id] for id in ids)
    return (
        f"In flight when the server died: wake {', '.join(ids)} of {SUPPLIER}. Its reply was in the room and nothing "
        f"else of it. The next server carried it on: {_again(later.count(REPLIED), 'replied')}, "
        f"{_again(asked - 1, 'asked its model')}, and did the rest, each once: {', '.join(_rest(later))}."
    )


def done_by(member: str, lines: Iterable[Line]) -> list[Line]:
    """Return what an agent did, of some lines of the ledger."""
    return [line for line in lines if line.by == member and line.said.get("execution")]


def _again(times: int, what: str) -> str:
    return f"{what} {times} more times" if times else f"{what} no second time"


def _rest(acts: list[str]) -> list[str]:
    return [f"{act} ({count} times)" if count > 1 else act for act, count in Counter(acts).items() if act != REPLIED]


def _requests(story: RoomsStory) -> Counter[str]:
    """Count the requests to models, by the wake that they were for."""
    return Counter(str(entry.execution) for entry in story.asked if entry.name == MODEL_REQUEST and entry.effect)


# -- claims ------------------------------------------------------------------------------------------------------------


def _kill(story: RoomsStory) -> Iterator[Claim]:
    lives = story.lives
    yield Claim(
        "the server was killed in the middle of a wake, and another one went on",
        [life.killed for life in lives] == [True, False],
        ", ".join(f"{life.pid}{' killed' if life.killed else ''}" for life in lives),
    )
    before = [line.act for line in done_by(SUPPLIER, story.at_death)]
    yield Claim(
        f"{SUPPLIER} had replied by then, and done nothing else of what it declared",
        before == [REPLIED],
        ", ".join(before) or "nothing",
    )
    acts = [line.act for line in done_by(SUPPLIER, story.lines)]
    whole = [REPLIED, "remembered", "task changed", HELD, RESULT[story.approved], "wake ended"]
    yield Claim("the same wake was carried on: nothing twice, nothing left out", acts == whole, ", ".join(acts))


def _wakes(story: RoomsStory) -> Iterator[Claim]:
    claims = Counter((one.company, one.agent, one.cause) for one in story.wakes)
    expected = {ACME: 2, GLOBEX: 1} if story.approved else {ACME: 1, GLOBEX: 1}
    ended = all(one.state == states.Execution.COMPLETED for one in story.wakes)
    yield Claim(
        "each wake was begun once, and completed",
        ended and max(claims.values(), default=0) == 1 and Counter(one.company for one in story.wakes) == expected,
        ", ".join(f"{one.company}/{one.agent} {one.state}" for one in story.wakes),
    )
    replies = Counter(f"{one.company}/{one.author}" for one in story.messages if one.kind == "agent")
    yield Claim(
        "each agent replied once to each wake",
        replies == {PLANNER: expected[ACME], SUPPLIER: expected[GLOBEX]},
        ", ".join(f"{who} {count}" for who, count in replies.items()),
    )
    models = Counter(str(entry.body.get("model")) for entry in story.asked if entry.name == MODEL_REQUEST)
    yield Claim(
        "each was asked with its own company's model, once a wake: the endpoint counted",
        models == {PLANNER_MODEL: expected[ACME], SUPPLIER_MODEL: expected[GLOBEX]}
        and set(_requests(story).values()) == {1},
        ", ".join(f"{model} {count}" for model, count in models.items()),
    )


def _rights(story: RoomsStory) -> Iterator[Claim]:
    offers = [line for line in done_by(SUPPLIER, story.lines) if line.act == OPENED]
    [*asked] = story.approvals
    decided = [(one.decision, one.decided_by) for one in asked]
    word = [(line.said.get("decision"), line.said.get("on_word_of")) for line in offers]
    after = all(line.at_ms >= (one.decided_ms or 0) for line in offers for one in asked)
    on_his_word = word == ([("approved", f"{GLOBEX}/{BOB}")] if story.approved else [])
    yield Claim(
        f"nothing was offered before {BOB} of {GLOBEX} had decided, nor against his word",
        len(decided) == 1 and decided[0][1] == BOB and on_his_word and after,
        ", ".join(f"{decision} by {by}" for decision, by in decided) or "nobody was asked",
    )
    own = {one.id for one in story.memory[GLOBEX] if one.readers == (GLOBEX,)}
    seen = own & {one.id for one in story.memory[ACME]}
    yield Claim(
        f"what {GLOBEX} keeps for itself, {ACME} does not see",
        len(own) == 1 and not seen,
        f"{len(own)} line of its own, {len(seen)} of them shown to {ACME}",
    )


def _ledger(story: RoomsStory) -> Claim:
    found = story.verified
    return Claim(
        "the ledger holds, followed by one file while no server ran, and agrees with the hash kept before the kill",
        found.code == 0 and found.servers == 0,
        f"{found.said}; kept: {found.head[:20]}…",
    )
