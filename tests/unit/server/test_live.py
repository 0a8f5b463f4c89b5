"""Replies in the making: one text for all who look on, from wherever they begin and however slowly they read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.events import Event, Kind
from perdure.core.live import Delta, Reset
from perdure.models.catalog import Catalog
from perdure.models.port import ModelError, ModelReply, ModelRequest, Usage
from perdure.server.hub import Hub
from perdure.server.live import MOST_KEPT, MOST_TOLD, LiveModels, LiveText, LiveTexts, Shown

pytestmark = pytest.mark.anyio

ADDRESS = "turn 1/model"
REQUEST = ModelRequest("scripted/m", "", (), call=f"exe_1/{ADDRESS}")


def taken_over(fence: int) -> Event:
    return Event(2, Kind.TAKEN_OVER, "", "", {"fence": fence}, 0)


def text(*pieces: str, attempt: int = 1, fence: int = 1) -> LiveText:
    found = LiveText(ADDRESS, attempt, fence)
    for piece in pieces:
        found.add(piece)
    return found


def shown(*texts: LiveText) -> tuple[Shown, list[LiveText]]:
    """Return a reader, and what it reads, to be changed."""
    made = list(texts)
    return Shown(lambda: tuple(made)), made


@given(st.lists(st.text(max_size=5), max_size=20), st.data())
def test_every_part_of_a_text_is_found(pieces: list[str], data: st.DataObject) -> None:
    found = text(*pieces)
    whole = "".join(pieces)
    assert found.length == len(whole)
    end = data.draw(st.integers(0, len(whole)))
    start = data.draw(st.integers(0, end))
    if start < end:
        assert found.between(start, end) == whole[start:end]


def test_who_reads_slowly_gets_it_in_few_pieces_and_whole() -> None:
    reader, [spoken] = shown(text())
    told: list[Delta] = []
    for number in range(20_000):
        spoken.add(f"{number} ")
        if number % 4_000 == 0 or number == 19_999:
            told += [one for one in reader.news() if isinstance(one, Delta)]
    assert "".join(one.text for one in told) == "".join(f"{number} " for number in range(20_000))
    assert all(before.offset + len(before.text) == after.offset for before, after in pairwise(told))
    assert max(len(one.text) for one in told) == MOST_TOLD
    assert len(told) < 20
    assert list(reader.news()) == []


def test_a_reader_that_leaves_in_the_middle_goes_on_there() -> None:
    reader, _ = shown(text("x" * MOST_TOLD + "y"))
    assert next(reader.news()) == Delta(ADDRESS, 1, 0, "x" * MOST_TOLD)
    assert list(reader.news()) == [Delta(ADDRESS, 1, MOST_TOLD, "y")]


def test_of_an_endless_reply_the_beginning_is_kept_and_nothing_behind_a_gap() -> None:
    spoken = text("x" * (MOST_KEPT - 1))
    assert not spoken.add("yy")
    assert not spoken.add("z"), "it would fit, and something would be missing before it"
    assert spoken.length == MOST_KEPT - 1


def test_a_new_attempt_voids_what_was_told_and_only_that() -> None:
    reader, made = shown(text("Hello"))
    assert list(reader.news()) == [Delta(ADDRESS, 1, 0, "Hello")]
    made[:] = []  # it broke off
    assert list(reader.news()) == []
    made[:] = [text(attempt=2)]
    assert list(reader.news()) == [Delta(ADDRESS, 2, 0, "")]
    made[0].add("Hi")
    assert list(reader.news()) == [Delta(ADDRESS, 2, 0, "Hi")]
    late, _ = shown(text(attempt=2))
    assert list(late.news()) == [], "there is nothing to void"


def test_what_a_server_says_that_lost_the_execution_is_told_no_more() -> None:
    reader, made = shown(text("Hello", fence=3))
    assert list(reader.news()) == [Delta(ADDRESS, 1, 0, "Hello")]
    reader.passed(taken_over(4))
    made[0].add(" there")
    assert list(reader.news()) == []
    made[:] = [text("Hi", attempt=2, fence=4)]
    assert list(reader.news()) == [Delta(ADDRESS, 2, 0, "Hi")]


def test_a_reply_that_is_told_elsewhere_is_said_to_be_once() -> None:
    reader, made = shown(text("Hello"))
    assert list(reader.news()) == [Delta(ADDRESS, 1, 0, "Hello")]
    made[:] = [LiveText(ADDRESS, 2, 1, told=False)]
    assert list(reader.news()) == [Reset("elsewhere")]
    assert list(reader.news()) == []
    made[:] = [text("Hi", attempt=2)]  # there is room for it now
    assert list(reader.news()) == [Delta(ADDRESS, 2, 0, "Hi")]


class Spoken:
    """A model whose pieces a test sees between them."""

    def __init__(self, texts: LiveTexts, *, breaks: bool = False) -> None:
        self.seen: list[str] = []
        self._texts = texts
        self._breaks = breaks

    async def speak(self, _request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        for piece in ("two ", "words"):
            yield piece
            self.look()
        if self._breaks:
            raise ModelError("transient", "cut.")

    def look(self) -> None:
        found = self._texts.of("exe_1")
        self.seen += [one.between(0, one.length) for one in found]


def models(texts: LiveTexts, script: object) -> LiveModels:
    return LiveModels(Catalog(scripted={"m": script}, environ={}), texts, "exe_1", lambda: 1)  # type: ignore[dict-item]


async def test_a_text_is_there_while_it_is_made_and_gone_before_the_reply_is_had() -> None:
    texts = LiveTexts(Hub())
    spoken = Spoken(texts)
    reply = await models(texts, spoken.speak).port("scripted/m").request(REQUEST)
    assert (reply.text, spoken.seen, texts.of("exe_1")) == ("two words", ["two ", "two words"], ())


async def test_a_reply_that_breaks_off_is_none_and_leaves_nothing() -> None:
    texts = LiveTexts(Hub())
    with pytest.raises(ModelError, match="cut"):
        await models(texts, Spoken(texts, breaks=True).speak).port("scripted/m").request(REQUEST)
    assert texts.of("exe_1") == ()


async def test_nobody_is_left_with_a_text_whose_asking_was_given_up() -> None:
    texts = LiveTexts(Hub())

    async def forever(_request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        yield "Well"
        await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(models(texts, forever).port("scripted/m").request, REQUEST)
        await anyio.wait_all_tasks_blocked()
        assert [one.length for one in texts.of("exe_1")] == [4]
        group.cancel_scope.cancel()
    assert texts.of("exe_1") == ()


async def test_a_model_that_tells_no_pieces_is_asked_as_ever() -> None:
    texts = LiveTexts(Hub())
    seen: list[int] = []

    def whole(_request: ModelRequest) -> ModelReply:
        seen.append(len(texts.of("exe_1")))
        return ModelReply("done", (), "stop", Usage(), "")

    assert (await models(texts, whole).port("scripted/m").request(REQUEST)).text == "done"
    assert seen == [0]
