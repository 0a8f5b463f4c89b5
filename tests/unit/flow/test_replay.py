"""What the code may see next, as a list of inputs and a list of outputs. Nothing is awaited here."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from perdure.core.events import Event, Kind
from perdure.flow.replay import Begin, Deliver, Idle, Mismatch, Move, Opened, Replay, Skip, Tell


def event(seq: int, kind: Kind, address: str = "", digest: str = "", **data: object) -> Event:
    return Event(seq, kind, address, digest, data, 0)


def log(*facts: tuple[Kind, str] | Kind) -> list[Event]:
    """Number facts from 2: what comes after the start."""
    pairs = [fact if isinstance(fact, tuple) else (fact, "") for fact in facts]
    asked = {Kind.STEP_RECORDED, Kind.TASK_SCHEDULED, Kind.WAIT_OPENED, Kind.TIMER_SET}
    return [event(n, kind, at, "d" if kind in asked else "") for n, (kind, at) in enumerate(pairs, 2)]


def fed(*facts: tuple[Kind, str] | Kind) -> Replay:
    replay = Replay("exe_1")
    replay.feed([event(1, Kind.STARTED), *log(*facts)])
    return replay


def moves(replay: Replay, *, at_most: int = 20) -> list[str]:
    """Take moves until there is nothing more, in short."""
    short: list[str] = []
    for _ in range(at_most):
        move = replay.advance()
        if isinstance(move, Idle):
            return short
        short.append(shown(move))
    raise AssertionError("it never comes to rest")


def shown(move: Move) -> str:
    match move:
        case Deliver(ask, event):
            return f"{ask.address} <- {event.kind}"
        case Opened(ask, event):
            return f"{ask.address} opened by {event.kind}"
        case Skip(ask):
            return f"{ask.address} skipped"
        case Tell(event):
            return f"told {event.kind}"
        case Begin(asks):
            return f"begin {[ask.address for ask in asks]}"
        case Idle():
            return "idle"


def test_nothing_asked_is_nothing_to_do() -> None:
    assert moves(fed()) == []


def test_an_unrecorded_step_begins_when_the_log_is_used_up_and_once() -> None:
    replay = fed(Kind.MESSAGE)
    replay.ask(Kind.STEP_RECORDED, "a", "d")
    assert moves(replay) == ["told message", "begin ['a']"]
    assert moves(replay) == []


def test_a_recorded_step_is_handed_out_and_never_begun() -> None:
    replay = fed((Kind.STEP_RECORDED, "a"))
    ask = replay.ask(Kind.STEP_RECORDED, "a", "d")
    assert moves(replay) == ["a <- step_recorded"]
    assert ask.recorded
    assert ask.answered


def test_nothing_begins_while_it_is_paused_and_all_of_it_afterwards() -> None:
    replay = fed(Kind.PAUSED)
    replay.ask(Kind.STEP_RECORDED, "a", "d")
    assert isinstance(replay.advance(paused=True), Idle)
    replay.ask(Kind.STEP_RECORDED, "b", "d")
    replay.feed([event(3, Kind.RESUMED)])
    assert moves(replay) == ["begin ['a', 'b']"]


def test_steps_asked_together_begin_in_the_order_they_were_asked() -> None:
    replay = fed()
    for address in ("b", "a", "c"):
        replay.ask(Kind.TASK_SCHEDULED, address, "d")
    assert moves(replay) == ["begin ['b', 'a', 'c']"]


def test_events_are_handed_out_one_at_a_time_in_the_order_of_the_log() -> None:
    replay = fed(
        (Kind.TASK_SCHEDULED, "a"),
        (Kind.TASK_SCHEDULED, "b"),
        (Kind.TASK_COMPLETED, "b"),
        Kind.MESSAGE,
        (Kind.TASK_FAILED, "a"),
    )
    replay.ask(Kind.TASK_SCHEDULED, "a", "d")
    replay.ask(Kind.TASK_SCHEDULED, "b", "d")
    assert moves(replay) == ["b <- task_completed", "told message", "a <- task_failed"]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (Kind.TASK_SCHEDULED, Kind.TASK_COMPLETED),
        (Kind.TASK_SCHEDULED, Kind.TASK_FAILED),
        (Kind.TASK_SCHEDULED, Kind.TASK_UNCERTAIN),
        (Kind.WAIT_OPENED, Kind.WAIT_RESOLVED),
        (Kind.TIMER_SET, Kind.TIMER_FIRED),
    ],
)
def test_a_recorded_wait_is_ended_by_its_answer(asked: Kind, answer: Kind) -> None:
    replay = fed((asked, "a"))
    replay.ask(asked, "a", "d")
    assert moves(replay) == []
    replay.feed([event(3, answer, "a")])
    assert moves(replay) == [f"a <- {answer}"]


def test_what_becomes_of_an_uncertain_effect_is_told() -> None:
    replay = fed((Kind.TASK_SCHEDULED, "a"), (Kind.TASK_UNCERTAIN, "a"), (Kind.EFFECT_RULED, "a"))
    replay.ask(Kind.TASK_SCHEDULED, "a", "d")
    replay.feed([event(5, Kind.TASK_COMPLETED, "a")])
    assert moves(replay) == ["a <- task_uncertain", "told effect_ruled", "told task_completed"]


def test_facts_that_concern_nobody_are_passed_over() -> None:
    replay = fed(
        (Kind.TASK_SCHEDULED, "a"), (Kind.TASK_BEGUN, "a"), (Kind.ATTEMPT_FAILED, "a"), (Kind.ATTEMPT_LOST, "a"),
        Kind.PAUSED, Kind.RESUMED, Kind.STUCK, Kind.COMPLETED,
    )  # fmt: skip
    replay.ask(Kind.TASK_SCHEDULED, "a", "d")
    assert moves(replay) == []
    assert replay.used_up


def test_an_answer_to_a_wait_that_was_given_up_is_passed_over() -> None:
    replay = fed((Kind.TASK_SCHEDULED, "a"))
    ask = replay.ask(Kind.TASK_SCHEDULED, "a", "d")
    assert moves(replay) == []
    ask.abandoned = True
    replay.feed([event(3, Kind.TASK_COMPLETED, "a"), event(4, Kind.MESSAGE)])
    assert moves(replay) == ["told message"]


def test_a_step_that_was_given_up_is_neither_begun_nor_handed_out() -> None:
    replay = fed()
    ask = replay.ask(Kind.STEP_RECORDED, "a", "d")
    ask.abandoned = True
    assert moves(replay) == []
    replay.feed([event(2, Kind.STEP_RECORDED, "a", "d")])
    assert moves(replay) == []


def test_requests_to_the_execution_are_told_in_their_place() -> None:
    replay = fed(Kind.STOP_REQUESTED, (Kind.STEP_RECORDED, "a"), Kind.CANCEL_REQUESTED)
    replay.ask(Kind.STEP_RECORDED, "a", "d")
    assert moves(replay) == ["told stop_requested", "a <- step_recorded", "told cancel_requested"]


def test_takeovers_count_since_the_last_record() -> None:
    replay = fed(Kind.TAKEN_OVER, (Kind.STEP_RECORDED, "a"), Kind.TAKEN_OVER, Kind.MESSAGE, Kind.TAKEN_OVER)
    replay.ask(Kind.STEP_RECORDED, "a", "d")
    replay.ask(Kind.STEP_RECORDED, "b", "d")
    moves(replay)
    assert replay.takeovers == 2
    replay.feed([event(7, Kind.STEP_RECORDED, "b", "d")])
    moves(replay)
    assert replay.takeovers == 0


def test_known_events_are_skipped_and_nothing_is_taken_behind_a_gap() -> None:
    replay = fed(Kind.MESSAGE)
    replay.feed([event(1, Kind.STARTED), event(2, Kind.MESSAGE), event(4, Kind.STOP_REQUESTED)])
    assert replay.last_seq == 2
    replay.feed([event(3, Kind.MESSAGE), event(4, Kind.STOP_REQUESTED)])
    assert (replay.last_seq, moves(replay)) == (4, ["told message", "told message", "told stop_requested"])


def mismatch(replay: Replay) -> str:
    with pytest.raises(Mismatch) as found:
        moves(replay)
    return str(found.value)


def test_a_record_nobody_asks_for_is_a_mismatch_that_quotes_it() -> None:
    text = mismatch(fed((Kind.TASK_SCHEDULED, "turn 1/tool/a")))
    assert "execution exe_1: the log says event 2 is task_scheduled at 'turn 1/tool/a' with arguments d" in text
    assert "the code does not ask for it" in text
    assert "Go on with the version it began with" in text


def test_a_record_that_may_still_be_asked_for_waits_for_real_io() -> None:
    replay = fed((Kind.STEP_RECORDED, "a"), Kind.MESSAGE)
    assert isinstance(replay.advance(in_io=True), Idle)
    assert not replay.used_up
    replay.ask(Kind.STEP_RECORDED, "a", "d")
    assert moves(replay) == ["a <- step_recorded", "told message"]


def test_a_record_already_asked_for_never_waits_for_somebodys_io() -> None:
    replay = fed((Kind.STEP_RECORDED, "a"))
    replay.ask(Kind.STEP_RECORDED, "a", "d")
    assert isinstance(replay.advance(in_io=True), Deliver)


@pytest.mark.parametrize(
    ("kind", "digest", "found"),
    [
        (Kind.STEP_RECORDED, "other", "the code asks there for step_recorded with arguments other"),
        (Kind.TASK_SCHEDULED, "d", "the code asks there for task_scheduled with arguments d"),
        (Kind.STEP_RECORDED, "", "the code asks there for step_recorded with arguments none"),
    ],
)
def test_a_record_that_is_asked_for_otherwise_is_a_mismatch(kind: Kind, digest: str, found: str) -> None:
    replay = fed((Kind.STEP_RECORDED, "a"))
    replay.ask(kind, "a", digest)
    assert found in mismatch(replay)


def test_an_answer_to_nothing_is_a_mismatch() -> None:
    assert "the code never asked for that step" in mismatch(fed((Kind.TIMER_FIRED, "a")))


def test_a_step_that_is_recorded_twice_is_a_mismatch() -> None:
    for kind in (Kind.STEP_RECORDED, Kind.TIMER_SET):
        replay = fed((kind, "a"), (kind, "a"))
        replay.ask(kind, "a", "d")
        assert "is recorded a second time" in mismatch(replay)


def test_asking_twice_for_one_address_is_a_mismatch() -> None:
    replay = fed()
    replay.ask(Kind.STEP_RECORDED, "a", "d")
    with pytest.raises(Mismatch, match="the code asks for step 'a' a second time"):
        replay.ask(Kind.TASK_SCHEDULED, "a", "d")


def test_moves_do_not_depend_on_how_the_log_came_in() -> None:
    facts: Iterable[tuple[Kind, str] | Kind] = (
        (Kind.TASK_SCHEDULED, "a"), Kind.MESSAGE, (Kind.TIMER_SET, "b"),
        (Kind.TIMER_FIRED, "b"), (Kind.TASK_FAILED, "a"),
    )  # fmt: skip
    whole = [event(1, Kind.STARTED), *log(*facts)]
    seen: set[tuple[str, ...]] = set()
    for cut in range(len(whole) + 1):
        replay = Replay("exe_1")
        replay.ask(Kind.TASK_SCHEDULED, "a", "d")
        replay.ask(Kind.TIMER_SET, "b", "d")
        replay.feed(whole[:cut])
        first = [move for move in moves(replay) if not move.startswith("begin")]
        replay.feed(whole)
        seen.add((*first, *(move for move in moves(replay) if not move.startswith("begin"))))
    assert len(seen) == 1
