"""LangGraph's checkpointers: everything in this process. Modes: `sqlite`, `postgres` (a pool of 16 connections), both
with durability="sync", which stores each step before the next one starts; its default does not.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from step_log import STEPS, body, ended
from workloads import Contender, contest


class State(TypedDict):
    execution: str
    number: int
    messages: Annotated[list[str], operator.add]


async def one_step(state: State) -> dict[str, Any]:
    said = await body(state["execution"], state["number"])
    return {"messages": [said], "number": state["number"] + 1}


async def approve(state: State) -> dict[str, Any]:
    return {"messages": [interrupt("approve?")]}


def graph(saver: Any, *, waits: bool) -> Any:
    """Return five turns of model and tool; or a model step, a wait, and a tool step."""
    made = StateGraph(State)
    made.add_node("model", one_step)
    made.add_node("tool", one_step)
    made.add_edge(START, "model")
    if waits:
        made.add_node("approve", approve)
        made.add_edge("model", "approve")
        made.add_edge("approve", "tool")
        made.add_edge("tool", END)
    else:
        made.add_edge("model", "tool")
        made.add_conditional_edges("tool", lambda state: "model" if state["number"] < STEPS else END)
    return made.compile(checkpointer=saver)


def of(execution: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": execution}, "recursion_limit": 100}


def first(execution: str) -> dict[str, Any]:
    return {"execution": execution, "number": 0, "messages": []}


@dataclass
class LangGraph(Contender):
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    w1: Any = None
    w4: Any = None

    async def open(self) -> None:
        saver = await (self._on_postgres() if self.options.database else self._on_sqlite())
        await saver.setup()
        self.w1, self.w4 = graph(saver, waits=False), graph(saver, waits=True)

    async def _on_sqlite(self) -> Any:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # noqa: PLC0415 - only this mode needs it

        opened = AsyncSqliteSaver.from_conn_string(str(self.options.folder / "langgraph.sqlite"))
        return await self.stack.enter_async_context(opened)

    async def _on_postgres(self) -> Any:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver  # noqa: PLC0415 - only this mode needs it
        from psycopg.rows import dict_row  # noqa: PLC0415
        from psycopg_pool import AsyncConnectionPool  # noqa: PLC0415

        kept = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool = AsyncConnectionPool(self.options.database, min_size=1, max_size=16, open=False, kwargs=kept)
        return AsyncPostgresSaver(await self.stack.enter_async_context(pool))

    async def close(self) -> None:
        await self.stack.aclose()

    async def run(self, execution: str) -> None:
        await self.w1.ainvoke(first(execution), of(execution), durability="sync")
        ended(execution)

    async def work(self, executions: Sequence[str]) -> None:
        """Nothing takes up what a killed process left, so this does, by the names of the threads."""
        await self.open()
        await asyncio.gather(*(self._go_on(execution) for execution in executions))
        await asyncio.Event().wait()

    async def _go_on(self, execution: str) -> None:
        if not self.options.again:
            return await self.run(execution)
        state = await self.w1.aget_state(of(execution))
        # `tasks`, and not `next`, which is empty too while a finished step is stored only beside the state.
        if state.tasks or not state.values:
            await self.w1.ainvoke(None if state.values else first(execution), of(execution), durability="sync")
        ended(execution)
        return None

    async def park(self, execution: str) -> None:
        await self.w4.ainvoke(first(execution), of(execution), durability="sync")

    async def release(self, execution: str) -> None:
        await self.w4.ainvoke(Command(resume="yes"), of(execution), durability="sync")

    async def ended(self, execution: str) -> None:
        """It ran to its end in `release`: nothing else would have woken it."""


if __name__ == "__main__":
    contest(LangGraph)
