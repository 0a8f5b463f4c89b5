"""The verbs about rooms. A part of `wire.api.Api`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perdure.core.budgets import Budget, BudgetView
from perdure.core.chain import LogPage
from perdure.core.codec import Json
from perdure.core.room_search import SearchKind, SearchPage
from perdure.core.room_views import (
    MemoryView,
    MessageView,
    RightsView,
    RoomTaskView,
    RoomView,
    StopView,
    WakeView,
    WentOn,
)
from perdure.core.rooms import Act, OnCrash, Written


class RoomsApi(Protocol):
    """The rooms that one company is in or may join.

    All raise `NotFound` for a room that the company is not in, in the same words as for one that is not there, and
    `InvalidInput` (`bad_act`) naming a field. `by`: who does it, in the company's name. Saying the same again, under
    the same key where there is one, changes nothing.
    """

    async def rooms(self) -> list[RoomView]: ...

    async def room(self, room: str, *, after: int = 0, wait_seconds: float = 0.0) -> RoomView:
        """Return one with its members; to whoever is only invited, without.

        With `wait_seconds`, wait for its ledger to go beyond `after`, and return the room as it is then, or as it is
        when that time, `MAX_WAIT_SECONDS` at most, is over. Who waits holds nothing: any server answers the next call.
        """
        ...

    async def create_room(self, name: str, *, key: str = "", by: str = "") -> Written:
        """Make a room, of which the company is the host. The same `key` again gives the same room."""
        ...

    async def put_room_agent(
        self, room: str, spec: dict[str, Json], *, on_crash: OnCrash = "resume", by: str = ""
    ) -> Written:
        """Register an agent, or change the one of its name. Raises `InvalidInput`: `bad_agent`, `room_tools`."""
        ...

    async def write_in_room(self, room: str, act: Act, *, by: str = "") -> Written:
        """Do something in a room. When this returns, it survives the death of every process.

        Raises `Conflict`: `room_key_conflict` for a key that was used for something else; `not_the_host`, `host_stays`,
        `not_yours`, `claimed_by_other`, `room_task_state` for what may not be done, `not_allowed` and
        `needs_approval` for what the room's rights say no to. `InvalidInput` (`no_such_member`) for a name that means
        nobody, `bad_rights` for rights that cannot be. `LimitExceeded`: `too_many_companies`, `too_many_agents`.
        """
        ...

    async def room_messages(
        self, room: str, *, after: int = 0, limit: int = 200, thread: str = ""
    ) -> list[MessageView]:
        """Return messages with a `seq` above `after`, in order: up to `limit`, fewer where they are long, about 4 MB of
        text and at least one. After the last comes an empty list. So it is with tasks and memory."""
        ...

    async def room_tasks(
        self, room: str, *, after: int = 0, limit: int = 200, state: str = "", to: str = ""
    ) -> list[RoomTaskView]:
        """Return tasks in order; `to`: those for `company`, or for `company/agent`."""
        ...

    async def room_task(self, room: str, task: str) -> RoomTaskView: ...

    async def room_memory(self, room: str, *, after: int = 0, limit: int = 200) -> list[MemoryView]:
        """Return the lines that the company may read, in order."""
        ...

    async def search_room(
        self, room: str, query: str, *, kinds: Sequence[SearchKind] = (), limit: int = 20, cursor: str = ""
    ) -> SearchPage:
        """Return messages, lines of memory and passages of files that have words of a query, the best first.

        A query is words and nothing else. What has more of them comes first, a word counting the more the rarer it is
        in what the company may read; of equals what is newer. A server with the extra `vectors` finds what means the
        same, too; `found_by` tells. `kinds`: only these; `cursor`: the page behind another of the same query. Raises
        `InvalidInput` (`bad_search`).
        """
        ...

    async def room_wakes(self, room: str, *, limit: int = 200) -> list[WakeView]:
        """Return who was woken by what, the newest first. Of other companies' wakes it is not shown how they stand."""
        ...

    async def room_rights(self, room: str) -> RightsView:
        """Return what the company itself said may be done in a room. It says so by the act `SetRights`."""
        ...

    async def start_room(self, room: str, member: str = "", *, by: str = "") -> WentOn:
        """Lift the stop of a member (`Stop` is an act), or with none named the room's; paused wakes go on."""
        ...

    async def room_stops(self, room: str) -> list[StopView]:
        """Return who does nothing in a room for now."""
        ...

    async def room_budgets(self) -> list[BudgetView]:
        """Return the caps of the company, and how they stand today."""
        ...

    async def set_room_budget(self, budget: Budget, *, remove: bool = False, by: str = "") -> None:
        """Set a cap on a day in UTC, in place of the one for the same room and agent, or take it away.

        Wakes that a budget had paused go on, as far as it holds them. Raises `InvalidInput` (`bad_budget`).
        """
        ...

    async def room_ledger(self, room: str, *, after: int = 0, limit: int = 200) -> LogPage:
        """Return the ledger above `after` as it is stored, with its hashes, for those who check it."""
        ...
