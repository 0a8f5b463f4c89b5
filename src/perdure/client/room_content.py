"""What a room keeps and finds: its files, and all that has words of a query. A part of `Room`: see rooms.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from perdure.client.handle import Connection
from perdure.client.room_files import download, upload
from perdure.core.room_files import FileView, PassageView
from perdure.core.room_search import SearchKind, SearchPage
from perdure.core.rooms import Written

T = TypeVar("T")
PAGE = 200


class Verbs:
    """What rooms and the list of them share."""

    def __init__(self, runtime: Connection, by: str) -> None:
        self._runtime = runtime
        self._by = by

    def _wait(self, verb: Callable[[], Awaitable[T]]) -> T:
        async def here() -> Any:
            return await verb()

        return self._runtime.wait(here())


class Content(Verbs):
    """Files of one room, and what is found in it."""

    id: str

    # -- what is found -------------------------------------------------------------------------------------------------

    async def search_async(
        self, query: str, *, kinds: Sequence[SearchKind] = (), limit: int = 20, cursor: str = ""
    ) -> SearchPage:
        """Return messages, lines of memory and passages of files that have words of a query, the best first.

        `kinds`: of `message`, `memory` and `file` only these. `cursor`: that of the page before, for the next one. A
        server with the extra `vectors` finds what means the same, too: `found_by` of a hit.
        """
        ask = self._runtime.api.search_room(self.id, query, kinds=kinds, limit=limit, cursor=cursor)
        return await self._runtime.join(ask)

    def search(self, query: str, *, kinds: Sequence[SearchKind] = (), limit: int = 20, cursor: str = "") -> SearchPage:
        return self._wait(lambda: self.search_async(query, kinds=kinds, limit=limit, cursor=cursor))

    # -- files ---------------------------------------------------------------------------------------------------------

    async def upload_async(self, name: str, content: bytes, *, media: str = "", key: str = "") -> Written:
        """Put a file into the room, 20 MB at most. One of a name that one's company used becomes its next version."""
        work = upload(self._runtime.api, self.id, name, content, media=media, key=key, by=self._by)
        return await self._runtime.join(work)

    def upload(self, name: str, content: bytes, *, media: str = "", key: str = "") -> Written:
        return self._wait(lambda: self.upload_async(name, content, media=media, key=key))

    async def files_async(
        self, *, after: int = 0, limit: int = PAGE, name: str = "", versions: bool = False
    ) -> list[FileView]:
        """Return files in order: of each the newest version, or all `versions`; or those of one `name`."""
        ask = self._runtime.api.room_files(self.id, after=after, limit=limit, name=name, versions=versions)
        return await self._runtime.join(ask)

    def files(self, *, after: int = 0, limit: int = PAGE, name: str = "", versions: bool = False) -> list[FileView]:
        return self._wait(lambda: self.files_async(after=after, limit=limit, name=name, versions=versions))

    async def file_text_async(self, file: str, *, first: int = 0, limit: int = PAGE) -> list[PassageView]:
        """Return what a file says, by its id, from passage `first` on; nothing if it holds no text."""
        ask = self._runtime.api.room_file_text(self.id, file, first=first, limit=limit)
        return await self._runtime.join(ask)

    def file_text(self, file: str, *, first: int = 0, limit: int = PAGE) -> list[PassageView]:
        return self._wait(lambda: self.file_text_async(file, first=first, limit=limit))

    async def download_async(self, file: str) -> bytes:
        """Return a file's bytes, proved by their fingerprint: by its id or, for the newest version, its name."""
        return await self._runtime.join(download(self._runtime.api, self.id, file))

    def download(self, file: str) -> bytes:
        return self._wait(lambda: self.download_async(file))
