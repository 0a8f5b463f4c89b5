"""A program that is killed around the commit of a transactional tool: `ledger_program.py STORE DATABASE POINT`.

DATABASE is a SQLite file or PostgreSQL's address. POINT is `effect`, `commit` or `never`. Prints what its agent says.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from typing import Any

import psycopg

from perdure import Agent, AgentRuntime, ToolContext, tool
from perdure.ledger import once
from perdure.models.catalog import Catalog
from perdure.models.scripted import call, say

STORE, DATABASE, POINT = (*sys.argv[1:4], "", "", "")[:3]


def connect() -> Any:
    return psycopg.connect(DATABASE) if DATABASE.startswith("postgresql:") else sqlite3.connect(DATABASE)


def reached(point: str) -> None:
    if point == POINT:
        os.kill(os.getpid(), signal.SIGKILL)


@tool(delivery="transactional", retry_pause_seconds=0)
def book(cents: int, ctx: ToolContext) -> str:
    """Book an amount."""
    connection = connect()
    try:
        with once(connection, ctx.idempotency_key) as effect:
            if effect.done:
                return effect.value
            connection.execute(f"INSERT INTO bookings VALUES ({cents})")
            effect.record(f"booked by attempt {ctx.attempt}")
            reached("effect")
        reached("commit")
        return f"booked by attempt {ctx.attempt}"
    finally:
        connection.close()


if __name__ == "__main__":
    script = [call("book", {"cents": 5}), lambda request: say(request.messages[-1].text)]
    models = Catalog(scripted={"clerk": script})
    with AgentRuntime(store=STORE, models=models) as runtime:
        agent = Agent(name="clerk", model="scripted/clerk", tools=[book])
        print(runtime.run(agent, "book", idempotency_key="one").output["result"])  # noqa: T201 - what its test reads
