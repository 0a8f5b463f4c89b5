"""Files in rooms: versions that stay, bytes that are what was sent, and nothing of either to whoever is no member."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine_bench import file_bench_in
from perdure.core.room_files import CHUNK_BYTES, MAX_ROOM_BYTES, NewFile, blob_of, chunks_of
from perdure.core.rooms import Actor, Leave, ShareFile, Stop, Written
from perdure.engine import room_file_rows, room_files
from perdure.engine.room_files import (
    UNUSED_MS,
    PutChunk,
    PutFile,
    file_chunk,
    file_view,
    files_view,
    put_chunk,
    put_file,
)
from perdure.engine.rooms_stops import STOPPED
from perdure.errors import Conflict, InvalidInput, LimitExceeded, NotFound
from room_bench import ACME, ANN, BOB, EVERYTHING, GLOBEX, STRANGER, RoomBench


def send(room: RoomBench, actor: Actor, content: bytes, *, but: int = -1) -> str:
    blob = blob_of(content)
    for number, data in enumerate(chunks_of(content)):
        if number != but:
            text = base64.b64encode(data).decode()
            room.bench.do(put_chunk, PutChunk(room.room, actor.company, blob, number, text))
    return blob


def put(room: RoomBench, actor: Actor, name: str, content: bytes, *, text: str = "", key: str = "") -> Any:
    file = NewFile(name, send(room, actor, content), len(content), key=key or name)
    return room.bench.do(put_file, PutFile(room.room, actor, file, "text" if text else "none", text))


def test_a_file_is_put_listed_and_read_back(room: RoomBench) -> None:
    content = bytes(range(256)) * 3_000  # more than one chunk
    done = put(room, ANN, "plan.bin", content)
    [shown] = room.read(files_view, GLOBEX, EVERYTHING)
    assert (shown.id, shown.name, shown.version, shown.size, shown.company) == (done.id, "plan.bin", 1, 768_000, ACME)
    pieces = [room.read(file_chunk, GLOBEX, done.id, number) for number in range(2)]
    assert [len(one) for one in pieces] == [CHUNK_BYTES, 768_000 - CHUNK_BYTES]
    assert b"".join(pieces) == content
    assert room.acts()[-1] == "file_put"
    with pytest.raises(NotFound):
        room.read(file_chunk, GLOBEX, done.id, 2)


def test_each_put_of_a_name_is_a_version_and_a_key_counts_once(room: RoomBench) -> None:
    first = put(room, ANN, "a.txt", b"one", key="1")
    assert put(room, ANN, "a.txt", b"one", key="1") == Written(first.id, first.seq, created=False)
    assert put(room, ANN, "a.txt", b"other", key="1").code == "room_key_conflict"
    second = put(room, ANN, "a.txt", b"two", key="2")
    foreign = put(room, BOB, "a.txt", b"three", key="3")
    newest = room.read(files_view, ACME, EVERYTHING, "a.txt")
    assert [(one.id, one.version) for one in newest] == [(second.id, 2), (foreign.id, 1)], "nobody overwrites another's"
    every = room.read(files_view, ACME, EVERYTHING, "a.txt", versions=True)
    assert [one.id for one in every] == [first.id, second.id, foreign.id]
    assert room.read(file_chunk, ACME, first.id, 0) == b"one", "an old version stays"


def test_to_a_stranger_there_is_no_file_and_nowhere_to_put_one(room: RoomBench) -> None:
    done = put(room, ANN, "a.txt", b"one")
    for query, given in ((files_view, (EVERYTHING,)), (file_view, (done.id,)), (file_chunk, (done.id, 0))):
        with pytest.raises(NotFound, match="there is no room"):
            room.read(query, STRANGER.company, *given)
    assert put(room, STRANGER, "b.txt", b"x").code == "not_found"
    room.write(BOB, Leave())
    assert put(room, BOB, "b.txt", b"x").code == "not_found"


def test_chunks_that_are_missing_are_named(room: RoomBench) -> None:
    content = b"x" * (CHUNK_BYTES + 1)
    file = NewFile("a.bin", send(room, ANN, content, but=1), len(content))
    with pytest.raises(InvalidInput) as refused:
        room.read(room_files.sent_bytes, ACME, file)
    assert (refused.value.code, refused.value.details["number"]) == ("file_incomplete", 1)
    with pytest.raises(InvalidInput):
        room.read(room_files.sent_bytes, GLOBEX, file)  # what others have sent is no file of one's own


def test_chunks_of_no_file_are_forgotten_in_time_and_those_of_files_are_not(
    room: RoomBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = put(room, ANN, "kept.txt", b"kept")
    send(room, ANN, b"never made a file of")
    row = {"room": room.room, "company": ACME, "blob": blob_of(b"never made a file of"), "number": 0}
    monkeypatch.setattr(room_files, "UNUSED_MS", -1_000)  # a database goes by its own clock
    send(room, ANN, b"another")
    assert room.read(_chunk, ACME, row) is None
    assert room.read(file_chunk, ACME, done.id, 0) == b"kept"


def test_a_file_that_an_agent_shares_is_what_it_declared_whatever_was_sent_before(room: RoomBench) -> None:
    """What is approved is a text; nobody may lay other bytes under its fingerprint first."""
    for number, other in enumerate((b"another plan", b"and more")):
        text = base64.b64encode(other).decode()
        room.bench.do(put_chunk, PutChunk(room.room, GLOBEX, blob_of(b"the plan"), number, text))
    room.agent(BOB, "bot")
    done = room.write(BOB, ShareFile("plan.txt", "the plan", key="s"))
    assert room.read(file_chunk, ACME, done.id, 0) == b"the plan"
    assert room.write(BOB, ShareFile("again.txt", "the plan", key="a")).created
    assert room.read(file_chunk, ACME, done.id, 0) == b"the plan"


def test_no_file_is_made_of_chunks_that_were_forgotten_after_they_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with file_bench_in(tmp_path) as bench:
        room = RoomBench(bench)
        file = NewFile("plan.txt", send(room, ANN, b"the plan"), 8, key="k")
        sent = room.read(room_files.sent_bytes, ACME, file)
        row = PutFile(room.room, ANN, file, "text", "the plan", sent.sent_ms)
        bench.clock.advance(UNUSED_MS / 1000 + 1)
        send(room, ANN, b"something else")
        assert _code(bench.do(put_file, row)) == "file_incomplete"
        text = base64.b64encode(b"another!").decode()
        bench.do(put_chunk, PutChunk(room.room, ACME, file.blob, 0, text))
        assert _code(bench.do(put_file, row)) == "file_incomplete", "what is there now is not what was looked at"
        assert room.read(files_view, ACME, EVERYTHING) == []


def _code(refused: Any) -> str:
    return str(refused.code)


def _chunk(reads: Any, _company: str, _room: str, row: Any) -> Any:
    return reads.row("room_chunk", **row)


def test_of_chunks_that_no_file_is_made_of_a_room_takes_so_many_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_files, "MOST_UNUSED", 2)
    with file_bench_in(tmp_path) as bench:
        room = RoomBench(bench)
        put(room, ANN, "kept.txt", b"kept")
        for content in (b"1", b"2", b"3"):
            send(room, ANN, content)
        assert [_chunk_of(room, content) is not None for content in (b"1", b"2", b"3")] == [True, True, False]
        more = PutChunk(room.room, ACME, blob_of(b"1"), 1, "eA==")
        assert _code(bench.do(put_chunk, more)) == "too_many_chunks"
        assert bench.do(put_chunk, replace(more, number=0)) is False, "what is there may be sent again"
        assert isinstance(put(room, BOB, "b.txt", b"of another company"), Written)
        assert isinstance(put(room, ANN, "one.txt", b"1"), Written), "it is there"
        send(room, ANN, b"3")
        bench.clock.advance(UNUSED_MS / 1000 + 1)
        send(room, ANN, b"4")
        kept = [content for content in (b"1", b"2", b"3", b"4") if _chunk_of(room, content) is not None]
        assert kept == [b"1", b"4"]


def _chunk_of(room: RoomBench, content: bytes) -> Any:
    return room.read(_chunk, ACME, {"room": room.room, "company": ACME, "blob": blob_of(content), "number": 0})


def test_a_room_takes_so_much_and_no_more(room: RoomBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_file_rows, "MAX_ROOM_BYTES", 10)
    put(room, ANN, "a.txt", b"12345678")
    refused = put(room, ANN, "b.txt", b"123")
    assert isinstance(refused, LimitExceeded)
    assert (refused.code, MAX_ROOM_BYTES) == ("room_full", 200 * 1024 * 1024)


def test_the_passages_of_a_file_are_kept_with_it(room: RoomBench) -> None:
    done = put(room, ANN, "a.txt", b"x", text="word " * 500)
    found = room.read(room_files.passages_view, GLOBEX, done.id, 0, 100)
    assert [one.number for one in found] == [0, 1, 2, 3]
    assert room.read(room_files.passages_view, GLOBEX, done.id, 2, 1) == found[2:3]


def test_whoever_is_stopped_puts_no_file(room: RoomBench) -> None:
    room.write(ANN, Stop(GLOBEX))
    stopped = put(room, BOB, "a.txt", b"one")
    assert isinstance(stopped, Conflict)
    assert stopped.code == STOPPED
    assert isinstance(put(room, ANN, "b.txt", b"two"), Written)
    room.write(ANN, Stop())
    assert isinstance(put(room, ANN, "c.txt", b"three"), Conflict)
