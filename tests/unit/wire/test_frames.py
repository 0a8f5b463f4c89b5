"""The stream's text, wherever it was cut."""

from __future__ import annotations

from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.events import Event, Kind
from perdure.errors import Unreachable
from perdure.wire import codec, frames

EVENTS = [
    Event(1, Kind.STARTED, "", "", {"input": "two\nlines\r\nand a \u2028"}, 1),
    Event(2, Kind.MESSAGE, "turn 1/model", "abc", {"text": "\ud800 half a character", "n": 2**80}, 2),
    Event(3, Kind.COMPLETED, "", "", {"output": {}}, 3),
]
TEXT = frames.OPENING + b"".join(frames.BEAT + frames.frame_of(event) for event in EVENTS) + frames.DONE


@given(st.sets(st.integers(0, len(TEXT))))
def test_frames_come_out_whole_wherever_the_pieces_end(cuts: set[int]) -> None:
    reader = frames.FrameReader()
    edges = [0, *sorted(cuts), len(TEXT)]
    found = [frame for a, b in pairwise(edges) for frame in reader.feed(TEXT[a:b])]
    named = [frame for frame in found if frame.kind]
    assert [frame.kind for frame in named] == ["started", "message", "completed", "done"]
    assert [codec.load(Event, frame.data) for frame in named[:3]] == EVENTS


@given(st.integers(0, len(TEXT)))
def test_an_unfinished_frame_is_never_given_out(cut: int) -> None:
    whole = TEXT[:cut].rpartition(b"\n\n")[0].count(b"\ndata: ")
    found = [frame for frame in frames.FrameReader().feed(TEXT[:cut]) if frame.kind]
    assert len(found) == whole


def test_an_event_frame_carries_its_seq_as_id_and_a_comment_has_none() -> None:
    lines = frames.frame_of(EVENTS[0]).split(b"\n")
    assert lines[:2] == [b"id: 1", b"event: started"]
    assert orjson.loads(lines[2].removeprefix(b"data: "))["seq"] == 1
    assert b"id" not in frames.BEAT + frames.DONE + frames.OPENING


def test_a_line_without_end_is_given_up() -> None:
    reader = frames.FrameReader()
    piece = b"x" * (1024 * 1024)
    for _ in range(frames.MAX_FRAME_BYTES // len(piece)):
        assert list(reader.feed(piece)) == []
    with pytest.raises(Unreachable):
        list(reader.feed(piece))
