"""Rooms as programs write and read in them: `runtime.rooms`. Every verb has an async twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from perdure.client.handle import Connection
from perdure.client.room_content import PAGE, Content, Verbs
from perdure.client.room_export import export_ledger, ledger_pages
from perdure.core import codec
from perdure.core.budgets import Budget, BudgetView
from perdure.core.chain import Checked, Follower, Link
from perdure.core.codec import Json
from perdure.core.notices import Notice, notice_to_json
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
from perdure.core.rooms import (
    EVERYBODY,
    Act,
    ChangeTask,
    Invite,
    Join,
    Leave,
    OnCrash,
    OpenTask,
    Post,
    Remember,
    RemoveAgent,
    SetRights,
    Stop,
    Verb,
    Written,
)
from perdure.core.schedules import Missed, ScheduleRequest, ScheduleView


class Compiled(Protocol):
    """Whatever a definition can be made of: an `Agent`."""

    def compile(self) -> dict[str, Json]: ...


class _Calendar(Content):
    """What a room says by the calendar."""

    async def schedule_async(
        self, name: str, text: str, *, to: str, cron: str, zone: str = "UTC", missed: Missed = "one"
    ) -> ScheduleView:
        """Have something said to a member at each tick of `cron`, as `company/schedule`; an agent is woken by it.

        A schedule like all others: `runtime.schedules` pauses it, has it run now and deletes it. `missed` as there.
        Raises `InvalidInput` (`bad_act`, `bad_schedule`), `Conflict` (`schedule_exists`).
        """
        spec = notice_to_json(Notice(self.id, to, text))
        ask = self._runtime.api.create_schedule(ScheduleRequest(name, spec, None, cron, zone, missed), by=self._by)
        return await self._runtime.join(ask)

    def schedule(
        self, name: str, text: str, *, to: str, cron: str, zone: str = "UTC", missed: Missed = "one"
    ) -> ScheduleView:
        return self._wait(lambda: self.schedule_async(name, text, to=to, cron=cron, zone=zone, missed=missed))


class Room(_Calendar):
    """One room, by its id. Holds nothing of it: every verb asks the server.

    All raise `NotFound` if one's company is not in it. `key`: the same key of the same author counts once, however
    often and over whichever server it is sent; without one, each call is something new.
    """

    def __init__(self, id: str, runtime: Connection, by: str = "") -> None:
        """`by`: who writes, in the company's name."""
        super().__init__(runtime, by)
        self.id = id

    # -- what is said --------------------------------------------------------------------------------------------------

    async def post_async(self, text: str, *, to: Sequence[str] = (), thread: str = "", key: str = "") -> Written:
        """Say something. Agents in `to` (`company/agent`), or mentioned in the text as `@agent`, are woken."""
        return await self._write(Post(text, tuple(to), thread, key))

    def post(self, text: str, *, to: Sequence[str] = (), thread: str = "", key: str = "") -> Written:
        return self._wait(lambda: self.post_async(text, to=to, thread=thread, key=key))

    async def messages_async(self, *, after: int = 0, limit: int = PAGE, thread: str = "") -> list[MessageView]:
        """Return messages with a `seq` above `after`, in order; of one thread, if it is named.

        Up to `limit`, fewer where they are long: about 4 MB of text, and at least one. Go on after the last one's `seq`
        until there is none. So it is with tasks and memory.
        """
        ask = self._runtime.api.room_messages(self.id, after=after, limit=limit, thread=thread)
        return await self._runtime.join(ask)

    def messages(self, *, after: int = 0, limit: int = PAGE, thread: str = "") -> list[MessageView]:
        return self._wait(lambda: self.messages_async(after=after, limit=limit, thread=thread))

    # -- tasks ---------------------------------------------------------------------------------------------------------

    async def open_task_async(self, title: str, *, to: str, thread: str = "", key: str = "") -> Written:
        """Ask a company, or one of its agents (`company/agent`), which is woken, to do something."""
        return await self._write(OpenTask(title, to, thread, key))

    def open_task(self, title: str, *, to: str, thread: str = "", key: str = "") -> Written:
        return self._wait(lambda: self.open_task_async(title, to=to, thread=thread, key=key))

    async def change_task_async(self, task: str, verb: Verb, result: str = "") -> Written:
        """Claim, release, complete, decline or cancel a task. Raises `Conflict` for what may not be done."""
        return await self._write(ChangeTask(task, verb, result))

    def change_task(self, task: str, verb: Verb, result: str = "") -> Written:
        return self._wait(lambda: self.change_task_async(task, verb, result))

    async def tasks_async(
        self, *, after: int = 0, limit: int = PAGE, state: str = "", to: str = ""
    ) -> list[RoomTaskView]:
        """Return tasks in order; `to`: those for a company, or for one agent (`company/agent`)."""
        ask = self._runtime.api.room_tasks(self.id, after=after, limit=limit, state=state, to=to)
        return await self._runtime.join(ask)

    def tasks(self, *, after: int = 0, limit: int = PAGE, state: str = "", to: str = "") -> list[RoomTaskView]:
        return self._wait(lambda: self.tasks_async(after=after, limit=limit, state=state, to=to))

    # -- memory --------------------------------------------------------------------------------------------------------

    async def remember_async(
        self, text: str, *, readers: Sequence[str] = (EVERYBODY,), source: str = "", key: str = ""
    ) -> Written:
        """Keep a line. `readers`: companies that may read it beside one's own; by default all in the room."""
        return await self._write(Remember(text, tuple(readers), source, key))

    def remember(self, text: str, *, readers: Sequence[str] = (EVERYBODY,), source: str = "", key: str = "") -> Written:
        return self._wait(lambda: self.remember_async(text, readers=readers, source=source, key=key))

    async def memory_async(self, *, after: int = 0, limit: int = PAGE) -> list[MemoryView]:
        """Return the lines that one's company may read, in order."""
        return await self._runtime.join(self._runtime.api.room_memory(self.id, after=after, limit=limit))

    def memory(self, *, after: int = 0, limit: int = PAGE) -> list[MemoryView]:
        return self._wait(lambda: self.memory_async(after=after, limit=limit))

    # -- who is in it --------------------------------------------------------------------------------------------------

    async def view_async(self) -> RoomView:
        """Return the room with its members."""
        return await self._runtime.join(self._runtime.api.room(self.id))

    def view(self) -> RoomView:
        return self._wait(self.view_async)

    async def invite_async(self, company: str) -> Written:
        """Let a company join. Raises `Conflict` (`not_the_host`)."""
        return await self._write(Invite(company))

    def invite(self, company: str) -> Written:
        return self._wait(lambda: self.invite_async(company))

    async def join_async(self) -> Written:
        """Accept an invitation."""
        return await self._write(Join())

    def join(self) -> Written:
        return self._wait(self.join_async)

    async def leave_async(self) -> Written:
        """Leave, with all agents of one's company."""
        return await self._write(Leave())

    def leave(self) -> Written:
        return self._wait(self.leave_async)

    async def add_agent_async(self, agent: Compiled, *, on_crash: OnCrash = "resume") -> Written:
        """Have an agent live here: what is meant for it wakes it, on the server, whether this program runs or not.

        `resume`: a wake whose server dies is carried on by another, and does everything once. `abandon`: it is not,
        what it did stays, and the next message begins a fresh one. Its tools are run by
        workers of its company, as `runtime.serve` makes one; the server runs none of them here. Raises `InvalidInput`
        (`room_tools`) for an agent with tools that servers call, or an output type.
        """
        ask = self._runtime.api.put_room_agent(self.id, agent.compile(), on_crash=on_crash, by=self._by)
        return await self._runtime.join(ask)

    def add_agent(self, agent: Compiled, *, on_crash: OnCrash = "resume") -> Written:
        return self._wait(lambda: self.add_agent_async(agent, on_crash=on_crash))

    async def remove_agent_async(self, name: str) -> Written:
        """Take an agent out: it is not woken any more, and what still runs of it acts no more."""
        return await self._write(RemoveAgent(name))

    def remove_agent(self, name: str) -> Written:
        return self._wait(lambda: self.remove_agent_async(name))

    # -- what may be done ----------------------------------------------------------------------------------------------

    async def rights_async(self) -> RightsView:
        """Return what one's company said may be done here; without a word of it, the defaults hold."""
        return await self._runtime.join(self._runtime.api.room_rights(self.id))

    def rights(self) -> RightsView:
        return self._wait(self.rights_async)

    async def set_rights_async(self, document: Mapping[str, Any]) -> Written:
        """Say what may be done here, as far as it concerns one's company: `{"rules": [...], "roles": {...}}`, in place
        of what it said before. Raises `InvalidInput` (`bad_rights`) naming what does not fit."""
        return await self._write(SetRights(codec.encode(document, "rights")))

    def set_rights(self, document: Mapping[str, Any]) -> Written:
        return self._wait(lambda: self.set_rights_async(document))

    async def stop_async(self, member: str = "", *, reason: str = "") -> Written:
        """Have an agent (`company/agent`), a company, or with none named the whole room do nothing for now.

        From then on nothing of theirs is written here, and no further request is made to a model; wakes under way are
        paused and keep what they have. Raises `Conflict` (`not_yours`, `not_the_host`): one's own company may, and the
        host.
        """
        return await self._write(Stop(member, reason))

    def stop(self, member: str = "", *, reason: str = "") -> Written:
        return self._wait(lambda: self.stop_async(member, reason=reason))

    async def start_async(self, member: str = "") -> WentOn:
        """Lift a stop: wakes that it had paused go on where they were, and those that came meanwhile begin."""
        return await self._runtime.join(self._runtime.api.start_room(self.id, member, by=self._by))

    def start(self, member: str = "") -> WentOn:
        return self._wait(lambda: self.start_async(member))

    async def stops_async(self) -> list[StopView]:
        """Return who does nothing here for now."""
        return await self._runtime.join(self._runtime.api.room_stops(self.id))

    def stops(self) -> list[StopView]:
        return self._wait(self.stops_async)

    # -- what happened -------------------------------------------------------------------------------------------------

    async def wakes_async(self, *, limit: int = PAGE) -> list[WakeView]:
        """Return who was woken by what, the newest first."""
        return await self._runtime.join(self._runtime.api.room_wakes(self.id, limit=limit))

    def wakes(self, *, limit: int = PAGE) -> list[WakeView]:
        return self._wait(lambda: self.wakes_async(limit=limit))

    async def ledger_async(self) -> tuple[list[Link], Checked]:
        """Return the whole ledger, and what following its chain of hashes found."""
        return await self._runtime.join(self._ledger())

    def ledger(self) -> tuple[list[Link], Checked]:
        return self._wait(self.ledger_async)

    async def _ledger(self) -> tuple[list[Link], Checked]:
        follower, links, page = Follower(self.id), list[Link](), None
        async for page in ledger_pages(self._runtime.api, self.id):
            follower.take(page.links)
            links += page.links
        assert page is not None
        return links, follower.end(page.head, page.last_seq)

    async def export_async(self) -> bytes:
        """Return the whole ledger as a file for `perdure rooms verify`, which needs neither server nor Perdure."""

        async def lines() -> bytes:
            return b"".join([line async for line in export_ledger(self._runtime.api, self.id)])

        return await self._runtime.join(lines())

    def export(self) -> bytes:
        return self._wait(self.export_async)

    async def _write(self, act: Act) -> Written:
        return await self._runtime.join(self._runtime.api.write_in_room(self.id, act, by=self._by))


class Rooms(Verbs):
    """The rooms of one runtime's company: those it is in, and those it may join."""

    def __init__(self, runtime: Connection) -> None:
        super().__init__(runtime, "")

    async def create_async(self, name: str, *, key: str = "", by: str = "") -> Room:
        """Make a room, of which the company is the host. The same `key` again gives the same room."""
        made = await self._runtime.join(self._runtime.api.create_room(name, key=key, by=by))
        return Room(made.id, self._runtime, by)

    def create(self, name: str, *, key: str = "", by: str = "") -> Room:
        return self._wait(lambda: self.create_async(name, key=key, by=by))

    def get(self, id: str, *, by: str = "") -> Room:
        """Return a room by its id, without looking whether it is there. `by`: who writes, in the company's name."""
        return Room(id, self._runtime, by)

    async def list_async(self) -> list[RoomView]:
        """Return them, the oldest first, without their members."""
        return await self._runtime.join(self._runtime.api.rooms())

    def list(self) -> list[RoomView]:
        return self._wait(self.list_async)

    async def set_budget_async(
        self,
        *,
        usd: float | None = None,
        tokens: int | None = None,
        room: str = "",
        agent: str = "",
        unpriced_usd: float | None = None,
    ) -> None:
        """Cap what the company's agents may spend on their models on a day in UTC: all of them, or those named.

        Takes the place of the cap for the same room and agent. `unpriced_usd`: what a request counts for whose price is
        not known; without it such a request is not made under a cap in dollars. Raises `InvalidInput` (`bad_budget`).
        """
        budget = Budget(room, agent, usd, tokens, unpriced_usd)
        await self._runtime.join(self._runtime.api.set_room_budget(budget, by=self._by))

    def set_budget(
        self,
        *,
        usd: float | None = None,
        tokens: int | None = None,
        room: str = "",
        agent: str = "",
        unpriced_usd: float | None = None,
    ) -> None:
        self._wait(
            lambda: self.set_budget_async(usd=usd, tokens=tokens, room=room, agent=agent, unpriced_usd=unpriced_usd)
        )

    async def remove_budget_async(self, *, room: str = "", agent: str = "") -> None:
        """Take a cap away."""
        await self._runtime.join(self._runtime.api.set_room_budget(Budget(room, agent), remove=True, by=self._by))

    def remove_budget(self, *, room: str = "", agent: str = "") -> None:
        self._wait(lambda: self.remove_budget_async(room=room, agent=agent))

    async def budgets_async(self) -> list[BudgetView]:
        """Return the caps, and how they stand today."""
        return await self._runtime.join(self._runtime.api.room_budgets())

    def budgets(self) -> list[BudgetView]:
        return self._wait(self.budgets_async)
