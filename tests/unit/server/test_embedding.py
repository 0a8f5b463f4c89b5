"""A server gives what rooms hold its vectors: soon after a text, after a kill, for old rooms, past a bad text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alike import StandIn
from node_bench import Hold, NodeBench, Script, node_over, wait_until
from perdure.client.room_files import upload
from perdure.core.room_search import SearchPage
from perdure.core.rooms import Post
from perdure.engine.room_vectors import Turn, without_vector
from perdure.models.port import ModelRequest
from perdure.server import embedding
from perdure.store.protocol import Reads
from room_node import answer, room_over, shown

pytestmark = [pytest.mark.anyio, pytest.mark.both_stores]


async def a_room(bench: NodeBench) -> str:
    return (await bench.api.create_room("the project", key="k")).id


async def say(bench: NodeBench, room: str, *texts: str) -> None:
    for text in texts:
        await bench.api.write_in_room(room, Post(text, key=text))


async def search(bench: NodeBench, room: str, query: str) -> list[str]:
    page: SearchPage = await bench.api.search_room(room, query)
    return [one.snippet for one in page.items]


async def all_done(bench: NodeBench, model: str) -> None:
    """Return once nothing waits for a vector."""

    async def done() -> bool:
        def look(reads: Reads) -> bool:
            return not without_vector(reads, model, Turn(), 1)[0]

        return await bench.node.bridge.read(look)

    await wait_until(done)


async def test_what_is_said_is_found_by_its_meaning_soon_after(tmp_path: Path) -> None:
    embedder = StandIn()
    async with node_over(tmp_path, [], embedder=embedder) as bench:
        room = await a_room(bench)
        await say(bench, room, "the price of steel", "a lorry")
        assert await search(bench, room, "steel") == ["the price of steel"], "by its words at once"
        await all_done(bench, embedder.model)
        assert await search(bench, room, "what does it cost") == ["the price of steel"]


async def test_what_a_server_without_a_model_wrote_is_found_by_its_meaning_under_one_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill between a text and its vector, and as in rooms from before; in batches, and past a new model."""
    monkeypatch.setattr(embedding, "BATCH", 3)
    async with node_over(tmp_path, []) as bench:
        room = await a_room(bench)
        await say(bench, room, *(f"price {number}" for number in range(10)))
        assert await search(bench, room, "cost") == []
    for embedder in (StandIn("1 stand-in"), StandIn("2 stand-in")):
        async with node_over(tmp_path, [], embedder=embedder) as bench:
            await all_done(bench, embedder.model)
            assert len(await search(bench, room, "cost")) == 10
            assert len([one for one in embedder.read if one.startswith("price")]) == 10, "each once"


async def test_a_text_that_the_model_breaks_on_keeps_no_other_from_its_vector(tmp_path: Path) -> None:
    embedder = StandIn(breaks_on="poison")
    async with node_over(tmp_path, [], embedder=embedder) as bench:
        room = await a_room(bench)
        await say(bench, room, "price 1", "poison price", "price 2")
        await all_done(bench, embedder.model)
        assert sorted(await search(bench, room, "cost")) == ["price 1", "price 2"]
        assert await search(bench, room, "poison") == ["poison price"]


async def test_a_model_that_is_broken_leaves_texts_for_later(tmp_path: Path) -> None:
    broken, whole = StandIn(breaks_on="*"), StandIn()
    async with node_over(tmp_path, [], embedder=broken) as bench:
        room = await a_room(bench)
        await say(bench, room, "price 1")

        async def tried() -> bool:
            return broken.asked >= 2  # the text, and whether it was the text

        await wait_until(tried)
    async with node_over(tmp_path, [], embedder=whole) as bench:
        await all_done(bench, whole.model)
        assert await search(bench, room, "cost") == ["price 1"]


def passages(request: ModelRequest) -> list[dict[str, Any]]:
    return [one["text"] for one in shown(request).get("passages", [])]


async def test_a_wake_is_shown_what_files_say_in_other_words_and_one_that_is_carried_on_the_same(
    tmp_path: Path,
) -> None:
    embedder, hold = StandIn(), Hold("turn 1/model")
    script = Script([answer("a lot")], gate=hold)
    async with room_over(tmp_path, script, embedder=embedder) as room:
        await upload(room.acme, room.room, "offer.md", b"The price is 7.", by="ann")
        await upload(room.acme, room.room, "menu.md", b"Soup.", by="ann")
        await all_done(room.bench, embedder.model)
        wake = await room.post("@clerk, how expensive?")
        await hold.reached()
        await upload(room.acme, room.room, "offer.md", b"The fee is 8.", by="ann")
    hold.open()
    async with room_over(tmp_path, script) as room:
        await room.ended(wake)
    assert [passages(one) for one in script.requests] == [["The price is 7."], ["The price is 7."]]
