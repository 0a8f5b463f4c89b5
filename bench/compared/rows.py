"""Who is compared, in which modes, and which of their roles share a process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the tables."""

    name: str
    """Unique, and what people read."""
    peer: str
    """Whose environment, lock and runner: `restate` is `bench/peers/restate.txt` and `bench/peers/on_restate.py`."""
    mode: str
    roles: str
    """Kinds of processes, with `/` between them: what shares one stands together."""
    database: bool = False
    """Whether it needs a PostgreSQL database."""
    durable: str = "each step"
    """What is on disk before the next step begins."""
    at: tuple[int, ...] = (1, 50)
    """Executions at a time, in W1."""

    @property
    def ours(self) -> bool:
        return self.peer == OURS

    @property
    def equal(self) -> bool:
        """Whether each of its steps is on disk before the next one begins, as ours are."""
        return self.durable == "each step"


OURS = "perdure"
CEILING = "ceiling"
ONE = "server+worker+driver"
THREE = "server / worker / driver"

FUNCTION = Row("Perdure function, SQLite", OURS, "function", ONE)
FUNCTION_POSTGRES = Row("Perdure function, PostgreSQL", OURS, "function-postgres", f"{ONE} / database", database=True)
FUNCTION_HTTP = Row("Perdure function, HTTP worker", OURS, "function-http", THREE)
FUNCTION_BOTH = Row(
    "Perdure function, PostgreSQL, HTTP worker", OURS, "function-http", f"{THREE} / database", database=True, at=(50,)
)
FUNCTION_CLUSTER = tuple(
    Row(
        f"Perdure function, PostgreSQL, {count} servers with a worker each",
        OURS,
        f"function-http-{count}",
        f"{THREE} / database",
        database=True,
        at=(50,),
    )
    for count in (2, 3)
)
AGENT = Row("Perdure agent, SQLite", OURS, "agent", ONE)
AGENT_HTTP = Row("Perdure agent, HTTP worker", OURS, "agent-http", THREE)
TASKS_HTTP = Row("Perdure tasks alone, HTTP worker", OURS, "tasks-http", THREE, at=(50,))
ONCE_HTTP = Row("Perdure function, HTTP worker, tools at_most_once", OURS, "once-http", THREE, at=())
PAIR_HTTP = Row("Perdure function, two HTTP workers, one killed", OURS, "pair-http", f"{THREE} / worker", at=())
CEILINGS = tuple(
    Row(f"ceiling: {name}", CEILING, of, roles, database=database, at=(50,))
    for of, name, roles, database in (
        ("function", "function's rows, SQLite", "one loop", False),
        ("function", "function's rows, PostgreSQL", "one loop / database", True),
        ("function-http", "function's rows, SQLite, told over HTTP", "writer / driver", False),
        ("agent", "agent's rows, SQLite", "one loop", False),
    )
)
RAW = tuple(
    Row(f"raw commit of a row, {name}", CEILING, "commit", roles, database=database, at=(1,))
    for name, roles, database in (("SQLite", "one loop", False), ("PostgreSQL", "one loop / database", True))
)
OWN = (
    FUNCTION,
    FUNCTION_POSTGRES,
    FUNCTION_HTTP,
    FUNCTION_BOTH,
    AGENT,
    AGENT_HTTP,
    TASKS_HTTP,
    ONCE_HTTP,
    PAIR_HTTP,
    *FUNCTION_CLUSTER,
)
ABSURD, ABSURD_ASKED = (
    Row("Absurd, PostgreSQL, backlog", "absurd", "backlog", "worker+driver / database", database=True),
    Row("Absurd, PostgreSQL, each awaited", "absurd", "asked", "worker+driver / database", database=True),
)
PEERS = (
    Row("Restate", "restate", "default", THREE),
    ABSURD,
    ABSURD_ASKED,
    Row("DBOS, SQLite", "dbos", "sqlite", ONE),
    Row("DBOS, SQLite switched to WAL", "dbos", "sqlite-wal", ONE),
    Row("DBOS, PostgreSQL", "dbos", "postgres", f"{ONE} / database", database=True),
    Row("LangGraph, SQLite", "langgraph", "sqlite", ONE),
    Row("LangGraph, PostgreSQL", "langgraph", "postgres", f"{ONE} / database", database=True),
    Row("Temporal, SQLite", "temporal", "file", "server / worker+driver"),
    Row("Temporal, SQLite, local", "temporal", "file-local", "server / worker+driver", durable="each workflow task"),
)
ROWS = (*CEILINGS, *RAW, *OWN, *PEERS)

OWN_W3 = (FUNCTION, FUNCTION_HTTP, PAIR_HTTP, ONCE_HTTP)
W3 = (*OWN_W3, *(row for row in PEERS if row.mode not in ("backlog", "sqlite-wal")))
"""Who is killed."""
W4 = (FUNCTION, FUNCTION_POSTGRES, *(row for row in PEERS if row.mode not in ("backlog", "sqlite-wal", "file-local")))
"""Who waits."""
