"""The retry table: how many requests make one step, how long is waited, and how it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure import failpoints
from perdure.failpoints import InjectedFault
from perdure.models.port import Message, ModelError, ModelFailure, ModelReply, ModelRequest, TextDelta
from perdure.models.retry import Failure, PauseFor, Refused, Replied, RetryLater, call_model
from perdure.models.scripted import say
from waiting_clock import WaitingClock

pytestmark = pytest.mark.anyio


class Provider:
    """Answers from a list; an error in it is raised."""

    def __init__(self, *answers: ModelReply | ModelError) -> None:
        self.answers = list(answers)
        self.requests = 0
        self.attempts: list[int] = []
        """How each request was numbered."""

    async def request(self, request: ModelRequest) -> ModelReply:
        self.requests += 1
        self.attempts.append(request.attempt)
        answer = self.answers.pop(0)
        if isinstance(answer, ModelError):
            raise answer
        return answer

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelReply]:
        yield await self.request(request)

    def streams(self, request: ModelRequest) -> bool:
        return False


REQUEST = ModelRequest("openai/x", "", (Message("user", "hi"),))
AT_OWNERS_ADDRESS = ModelRequest("openai/x", "", (Message("user", "hi"),), base_url="http://localhost:1/v1")


def busy(retry_after: float | None = None) -> ModelError:
    return ModelError("transient", "busy.", retry_after=retry_after)


async def test_a_reply_at_once_is_one_request(clock: WaitingClock) -> None:
    assert await call_model(Provider(say("hi")), REQUEST, clock=clock) == Replied(say("hi"), 1)
    assert clock.slept == []


async def test_without_a_wish_the_pauses_are_two_and_eight_seconds(clock: WaitingClock) -> None:
    outcome = await call_model(Provider(busy(), busy(), say("hi")), REQUEST, clock=clock)
    assert outcome == Replied(say("hi"), 3, (Failure("transient", "busy."),) * 2)
    assert clock.slept == [2, 8]


@pytest.mark.parametrize("wish", [0, 0.25, 7.5, 20])
async def test_a_wish_up_to_twenty_seconds_is_waited_for_exactly(clock: WaitingClock, wish: float) -> None:
    outcome = await call_model(Provider(busy(wish), say("hi")), REQUEST, clock=clock)
    assert isinstance(outcome, Replied)
    assert clock.slept == [wish]


async def test_three_requests_are_all(clock: WaitingClock) -> None:
    provider = Provider(busy(), busy(), busy(), say("never reached"))
    outcome = await call_model(provider, REQUEST, clock=clock)
    assert isinstance(outcome, Refused)
    assert (outcome.kind, outcome.requests, provider.requests) == ("transient", 3, 3)
    assert outcome.message == "busy. Given up after 3 requests."


async def test_a_longer_wish_is_handed_back_and_not_slept_through(clock: WaitingClock) -> None:
    provider = Provider(busy(20.5), busy(60), busy(60), say("never reached"))
    first = await call_model(provider, REQUEST, clock=clock)
    assert isinstance(first, RetryLater)
    assert (first.after_seconds, first.requests) == (20.5, 1)
    second = await call_model(provider, REQUEST, clock=clock, already_tried=first.requests)
    assert isinstance(second, RetryLater)
    third = await call_model(provider, REQUEST, clock=clock, already_tried=second.requests)
    assert isinstance(third, Refused)
    assert (third.requests, provider.requests, clock.slept) == (3, 3, [])


@pytest.mark.parametrize("wish", [86_401, 99_999_999, float("inf")])
async def test_no_wish_parks_a_step_for_more_than_a_day(clock: WaitingClock, wish: float) -> None:
    outcome = await call_model(Provider(busy(wish)), REQUEST, clock=clock)
    assert isinstance(outcome, RetryLater)
    assert outcome.after_seconds == 86_400


async def test_a_wish_that_is_no_number_is_none(clock: WaitingClock) -> None:
    outcome = await call_model(Provider(busy(float("nan")), say("hi")), REQUEST, clock=clock)
    assert isinstance(outcome, Replied)
    assert clock.slept == [2]


async def test_requests_are_numbered_with_those_of_earlier_holders(clock: WaitingClock) -> None:
    provider = Provider(busy(), say("hi"))
    await call_model(provider, REQUEST, clock=clock)
    assert provider.attempts == [1, 2]
    provider = Provider(busy(), say("hi"))
    await call_model(provider, REQUEST, clock=clock, already_tried=1)
    assert provider.attempts == [2, 3]


@pytest.mark.parametrize("kind", ["key", "quota"])
async def test_who_has_to_pay_is_asked_after_one_request(clock: WaitingClock, kind: ModelFailure) -> None:
    provider = Provider(ModelError(kind, "no."), say("never reached"))
    outcome = await call_model(provider, REQUEST, clock=clock)
    assert isinstance(outcome, PauseFor)
    assert (outcome.kind, outcome.requests, provider.requests) == (kind, 1, 1)


@pytest.mark.parametrize("kind", ["rejected", "unknown_model", "context_window", "missing_extra"])
async def test_what_the_author_has_to_change_is_refused_after_one_request(
    clock: WaitingClock, kind: ModelFailure
) -> None:
    provider = Provider(ModelError(kind, "no."), say("never reached"))
    assert await call_model(provider, REQUEST, clock=clock) == Refused(kind, "no.", 1, (Failure(kind, "no."),))
    assert provider.requests == 1


@pytest.mark.parametrize("wish", [None, 1, 60])
async def test_an_address_of_the_owner_gets_one_request(clock: WaitingClock, wish: float | None) -> None:
    provider = Provider(busy(wish), say("never reached"))
    outcome = await call_model(provider, AT_OWNERS_ADDRESS, clock=clock)
    assert isinstance(outcome, Refused)
    assert (provider.requests, clock.slept) == (1, [])
    assert "one request only at a base_url" in outcome.message


@pytest.mark.parametrize(("already", "made", "slept"), [(1, 2, [8]), (2, 1, []), (3, 1, []), (9, 1, [])])
async def test_requests_of_earlier_owners_use_up_second_tries_but_never_the_first(
    clock: WaitingClock, already: int, made: int, slept: list[float]
) -> None:
    provider = Provider(busy(), busy(), busy())
    outcome = await call_model(provider, REQUEST, clock=clock, already_tried=already)
    assert isinstance(outcome, Refused)
    assert (provider.requests, outcome.requests, clock.slept) == (made, already + made, slept)


async def test_a_step_in_flight_at_a_crash_is_asked_again_at_an_owners_address(clock: WaitingClock) -> None:
    outcome = await call_model(Provider(say("hi")), AT_OWNERS_ADDRESS, clock=clock, already_tried=1)
    assert outcome == Replied(say("hi"), 2)


async def test_each_request_passes_both_failpoints(clock: WaitingClock, tmp_path: Path) -> None:
    log = tmp_path / "passed"
    failpoints.arm("model.send=raise@3", str(log))
    try:
        with pytest.raises(InjectedFault):
            await call_model(Provider(busy(), busy(), say("hi")), REQUEST, clock=clock)
        assert log.read_text().split() == ["model.send", "model.received"]
        failpoints.arm("model.received=raise@2")
        with pytest.raises(InjectedFault):
            await call_model(Provider(busy(), say("hi")), REQUEST, clock=clock)
    finally:
        failpoints.arm("")


async def test_a_surprise_is_not_taken_for_a_reply(clock: WaitingClock) -> None:
    class Broken(Provider):
        async def request(self, request: ModelRequest) -> ModelReply:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await call_model(Broken(), REQUEST, clock=clock)
