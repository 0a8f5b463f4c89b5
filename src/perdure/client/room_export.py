"""Take a room's ledger out, for `perdure rooms verify` and for whoever keeps it where its server cannot write.

JSON, one record a line: the events as they are stored, then the ledger's end. `perdure/rooms/verify.py` reads it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict

from perdure.core.chain import LogPage
from perdure.wire import codec as wire
from perdure.wire.api_rooms import RoomsApi

PAGE = 1_000


async def ledger_pages(api: RoomsApi, room: str) -> AsyncIterator[LogPage]:
    """Yield a ledger page by page; the last one says where it ended when it was read. Raises `NotFound`."""
    after = 0
    while True:
        page = await api.room_ledger(room, after=after, limit=PAGE)
        yield page
        if not page.links or page.links[-1].seq >= page.last_seq:
            return
        after = page.links[-1].seq


async def export_ledger(api: RoomsApi, room: str) -> AsyncIterator[bytes]:
    """Yield the lines of one room's ledger. Raises `NotFound`."""
    async for page in ledger_pages(api, room):
        for link in page.links:
            yield wire.dump({"record": "event", "room": room, **asdict(link)}) + b"\n"
        if not page.links or page.links[-1].seq >= page.last_seq:
            end = {"record": "ledger", "room": room, "head": page.head, "last_seq": page.last_seq}
            yield wire.dump(end) + b"\n"
