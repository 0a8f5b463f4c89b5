"""What is sent again, what is not, and what a caller is told. Over a transport that plays a server's replies."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

import httpx2
import orjson
import pytest

from perdure import failpoints
from perdure.client.channel import FIRST_TRIES, TRIES, Ask, Channel, ReplyLost
from perdure.client.http import HttpApi, HttpTaskSource
from perdure.core.rooms import Leave
from perdure.core.views import StartRequest
from perdure.core.work import Answer, Begin, Failure, Report
from perdure.errors import InternalError, NotFound, PerdureError, Retryable, StoreFull, Unauthorized, Unreachable
from perdure.system import SystemRandom
from perdure.wire.errors import dump_error, status_of

pytestmark = pytest.mark.anyio

OK = httpx2.Response(200, content=b'{"ok": true}')
REFUSED = httpx2.ConnectError("refused")
LOST = httpx2.ReadError("reset")

Step = httpx2.Response | Exception | Callable[[httpx2.Request], httpx2.Response]


def error(one: PerdureError) -> httpx2.Response:
    return httpx2.Response(status_of(one), content=dump_error(one))


@dataclass
class Player(httpx2.AsyncBaseTransport):
    """A transport: each request gets the next step; the last one stays."""

    steps: Sequence[Step]
    sent: list[httpx2.Request] = field(default_factory=list)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        step = self.steps[min(len(self.sent), len(self.steps) - 1)]
        self.sent.append(request)
        if isinstance(step, Exception):
            raise step
        return step(request) if callable(step) else httpx2.Response(step.status_code, content=step.content)


@dataclass
class Pauses:
    """A clock that does not wait and remembers how long it should have."""

    slept: list[float] = field(default_factory=list)

    def wall_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def channel(*steps: Step, met: bool = True, key: str | None = "k") -> tuple[Channel, Player, Pauses]:
    player, pauses = Player(steps), Pauses()
    made = Channel("http://localhost:1", key, transport=player, clock=pauses, random=SystemRandom())
    made.met = met
    return made, player, pauses


@pytest.fixture(autouse=True)
def disarmed() -> Generator[None]:
    yield
    failpoints.arm("")


SAFE = Ask("beat", "POST", "/x", body=b"{}")
UNSAFE = Ask("cancel", "POST", "/x", body=b"{}", safe=False)


async def test_a_request_carries_the_key_and_asks_for_nothing_compressed() -> None:
    made, player, _ = channel(OK)
    await made.call(SAFE)
    (request,) = player.sent
    assert request.headers["authorization"] == "Bearer k"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["content-type"] == "application/json"
    await made.aclose()


@pytest.mark.parametrize("step", [REFUSED, LOST, error(Retryable("x", code="draining")), error(StoreFull("full"))])
async def test_a_safe_request_is_sent_again(step: Step) -> None:
    made, player, pauses = channel(step, step, OK)
    assert await made.call(SAFE) == OK.content
    assert len(player.sent) == 3
    assert pauses.slept[0] < pauses.slept[1]


async def test_pauses_grow_differ_and_end() -> None:
    made, player, pauses = channel(LOST)
    with pytest.raises(ReplyLost):
        await made.call(SAFE)
    assert len(player.sent) == TRIES
    assert [0.5 * 0.1 * 3**n <= pause <= 1.5 * 0.1 * 3**n for n, pause in enumerate(pauses.slept)] == [True] * 4


@pytest.mark.parametrize("step", [LOST, error(StoreFull("full")), httpx2.Response(502, content=b"<html>")])
async def test_what_may_have_been_done_is_not_sent_again(step: Step) -> None:
    made, player, _ = channel(step, OK)
    with pytest.raises(Retryable):
        await made.call(UNSAFE)
    assert len(player.sent) == 1


@pytest.mark.parametrize("step", [REFUSED, error(Retryable("x", code="draining")), error(Retryable("x", code="busy"))])
async def test_what_was_surely_not_done_is_sent_again(step: Step) -> None:
    made, player, _ = channel(step, OK)
    assert await made.call(UNSAFE) == OK.content
    assert len(player.sent) == 2


async def test_an_address_where_nobody_ever_answered_is_given_up_soon() -> None:
    made, player, _ = channel(REFUSED, met=False)
    with pytest.raises(Unreachable, match="No Perdure server answers at http://localhost:1") as caught:
        await made.call(SAFE)
    assert len(player.sent) == FIRST_TRIES
    assert caught.value.code == "server_unreachable"


@pytest.mark.parametrize("one", [NotFound("no"), InternalError("bug")])
async def test_an_answer_is_not_asked_for_twice(one: PerdureError) -> None:
    made, player, _ = channel(error(one))
    with pytest.raises(type(one)):
        await made.call(SAFE)
    assert len(player.sent) == 1


@pytest.mark.parametrize(("key", "words"), [("k", "not one of its"), (None, "No key was given")])
async def test_a_wrong_key_says_where_keys_are(key: str | None, words: str) -> None:
    made, _, _ = channel(error(Unauthorized("x")), key=key)
    with pytest.raises(Unauthorized, match=rf"{words}.*PERDURE_API_KEY.*perdure/servers"):
        await made.call(SAFE)


@pytest.mark.parametrize("point", ["http.beat.send", "http.beat.received"])
async def test_a_fault_at_a_failpoint_is_a_broken_connection(point: str) -> None:
    made, player, _ = channel(OK)
    failpoints.arm(f"{point}=raise@1")
    assert await made.call(SAFE) == OK.content
    assert len(player.sent) == (1 if point.endswith("send") else 2)


async def test_a_start_without_a_key_gets_one_and_is_sent_again_with_the_same() -> None:
    found = httpx2.Response(200, content=b'{"id": "exe_1", "created": false}')
    player = Player([LOST, found])
    api = HttpApi("http://localhost:1", "k", transport=player, clock=Pauses())
    api._channel.met = True
    started = await api.start(StartRequest({}, "go"))
    assert (started.id, started.created) == ("exe_1", True)  # the first sending had begun it
    keys = [orjson.loads(request.content)["idempotency_key"] for request in player.sent]
    assert keys[0] == keys[1]
    assert keys[0].startswith("auto-")


async def test_a_message_without_dedupe_is_sent_again_with_the_same() -> None:
    player = Player([LOST, httpx2.Response(201, content=b'{"seq": 7}')])
    api = HttpApi("http://localhost:1", transport=player, clock=Pauses())
    api._channel.met = True
    assert await api.send("exe_1", "hello") == 7
    assert len({orjson.loads(request.content)["dedupe"] for request in player.sent}) == 1


async def test_a_leave_whose_reply_was_lost_is_not_sent_again() -> None:
    """Who has left finds no such room."""
    player = Player([LOST, error(NotFound("there is no room"))])
    api = HttpApi("http://localhost:1", transport=player, clock=Pauses())
    api._channel.met = True
    with pytest.raises(ReplyLost):
        await api.write_in_room("room_1", Leave())
    assert len(player.sent) == 1


async def test_fields_of_a_newer_server_are_passed_over() -> None:
    player = Player([httpx2.Response(200, content=b'{"id": "exe_1", "created": true, "new": [1]}')])
    api = HttpApi("http://localhost:1", transport=player, clock=Pauses())
    assert (await api.start(StartRequest({}, "go", "k"))).id == "exe_1"


async def test_parts_of_an_address_stay_parts() -> None:
    player = Player([error(NotFound("x"))])
    api = HttpApi("http://localhost:1/prefix/api", transport=player, clock=Pauses())
    with pytest.raises(NotFound):
        await api.execution("../a b?c#d/é")
    assert player.sent[0].url.raw_path == b"/prefix/v1/executions/..%2Fa%20b%3Fc%23d%2F%C3%A9"


async def test_a_begin_whose_reply_is_lost_is_asked_again_with_the_same_nonce() -> None:
    player = Player([LOST, httpx2.Response(200, content=b'{"answers": ["accepted"]}')])
    source = HttpTaskSource("http://localhost:1", transport=player, clock=Pauses())
    source._channel.met = True
    assert await source.begin(Begin("e", "a", 1, "n")) is Answer.ACCEPTED
    assert player.sent[0].content == player.sent[1].content


async def test_reports_are_split_by_size_and_keep_their_order() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        assert len(request.content) < 9 * 1024 * 1024
        count = len(orjson.loads(request.content)["reports"])
        return httpx2.Response(200, content=orjson.dumps({"answers": ["accepted"] * count}))

    player = Player([answer])
    source = HttpTaskSource("http://localhost:1", transport=player, clock=Pauses())
    sizes = [8_000_000, 10, 4_000_000, 4_000_000, 2_000_000, *[10] * 1200]
    reports = [Report("e", str(n), 1, "completed", "x" * size) for n, size in enumerate(sizes)]
    assert await source.report("w", reports) == [Answer.ACCEPTED] * len(sizes)
    seen = [one["address"] for request in player.sent for one in orjson.loads(request.content)["reports"]]
    assert seen == [str(n) for n in range(len(sizes))]
    assert len(player.sent) == 5


async def test_a_report_of_any_value_arrives_as_that_value() -> None:
    value = {"half": "\ud800", "big": 2**80, "text": "ä"}
    player = Player([httpx2.Response(200, content=b'{"answers": ["accepted"]}')])
    source = HttpTaskSource("http://localhost:1", transport=player, clock=Pauses())
    failure = Failure("c", "half \udce4")
    await source.report("w", [Report("e", "a", 1, "completed", value), Report("e", "b", 1, "failed", None, failure)])
    from perdure.wire import strict

    first, second = strict.parse(player.sent[0].content)["reports"]
    assert first["value"] == value
    assert second["failure"]["message"] == "half ?"
