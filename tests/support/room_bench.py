"""Rooms over the engine's bench: who writes what in whose name, and what each company sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine_bench import Bench
from perdure.core import codec
from perdure.core.chain import Follower, LogPage
from perdure.core.ports import Embedder
from perdure.core.room_files import NewFile, blob_of
from perdure.core.room_search import SearchPage
from perdure.core.room_views import RoomView
from perdure.core.rooms import Act, Actor, Invite, Join, Post, PutAgent, Written, written_id
from perdure.engine.claim import Claimed
from perdure.engine.room_files import PutFile, put_file
from perdure.engine.room_search import Search, search
from perdure.engine.rooms import MakeRoom, Write, make_room, write_in_room
from perdure.engine.rooms_read import Window, ledger_page, messages_view, rooms_view
from perdure.store.protocol import Reads

ACME, GLOBEX = "acme", "globex"
EVERYTHING = Window(0, 1_000)
ANN = Actor(ACME, "ann")
BOB = Actor(GLOBEX, "bob")
STRANGER = Actor("initech", "peter")
SPEC: dict[str, Any] = {"kind": "wake", "on_crash": "resume", "agent": {}}


@dataclass
class RoomBench:
    """A room of two companies, `acme` its host."""

    bench: Bench
    room: str = ""

    def __post_init__(self) -> None:
        self.room = self.make("the project")
        self.write(ANN, Invite(GLOBEX))
        self.write(BOB, Join())

    def make(self, key: str, actor: Actor = ANN) -> str:
        id = written_id("room", actor.company, key)
        self.bench.do(make_room, MakeRoom(id, key, actor))
        return id

    def write(self, actor: Actor, act: Act, room: str = "") -> Any:
        """Return what became of it: written or refused."""
        return self.bench.do(write_in_room, Write(room or self.room, actor, act))

    def post(self, actor: Actor, text: str, *to: str, key: str = "") -> Written:
        done = self.write(actor, Post(text, to, key=key or text))
        assert isinstance(done, Written), done
        return done

    def put(self, actor: Actor, name: str, text: str, key: str = "") -> Any:
        """Put a file of text; return what became of it: put or refused."""
        file = NewFile(name, blob_of(text.encode()), len(text), key=key or name)
        return self.bench.do(put_file, PutFile(self.room, actor, file, "text", text))

    def found(self, query: str, company: str = ACME, embedder: Embedder | None = None, **more: Any) -> SearchPage:
        """Search: by words alone or, with an `embedder`, by meaning too. `more`: as `Search`."""
        return self.read(search, company, Search(query, **more), embedder)

    def agent(self, actor: Actor, name: str, on_crash: Any = "resume") -> None:
        text = codec.encode({**SPEC, "on_crash": on_crash})
        self.write(actor, PutAgent(name, codec.digest(text), text, on_crash))

    def texts(self, company: str = ACME) -> list[str]:
        return [one.text for one in self.read(messages_view, company, EVERYTHING)]

    def rooms(self, company: str) -> list[RoomView]:
        return self._as(company, lambda reads: rooms_view(reads, company))

    def read(self, query: Any, company: str, *given: Any, **more: Any) -> Any:
        return self._as(company, lambda reads: query(reads, company, self.room, *given, **more))

    def _as(self, company: str, query: Callable[[Reads], Any]) -> Any:
        def spoken(reads: Reads) -> Any:
            reads.speak_for(company)
            return query(reads)

        return self.bench.read(spoken)

    def ledger(self, company: str = ACME) -> LogPage:
        """Return the whole ledger, having followed its chain."""
        page: LogPage = self.read(ledger_page, company, EVERYTHING)
        follower = Follower(self.room)
        follower.take(page.links)
        assert follower.end(page.head, page.last_seq).broken_at is None
        return page

    def acts(self) -> list[str]:
        return [link.kind.removeprefix("room_") for link in self.ledger().links]

    def woken(self) -> list[Claimed]:
        """Claim all wakes that are ready."""
        return self.bench.claim()


def snippets(page: SearchPage) -> list[str]:
    return [one.snippet for one in page.items]
