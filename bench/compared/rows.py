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
    """Processes, with `|` between them: what shares one stands together."""
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

FUNCTION = Row("Perdure function, SQLite", OURS, "function", "server+worker+driver")
FUNCTION_POSTGRES = Row(
    "Perdure function, PostgreSQL", OURS, "function-postgres", "server+worker+driver | database", database=True
)
FUNCTION_HTTP = Row("Perdure function, HTTP worker", OURS, "function-http", "server | worker | driver")
AGENT = Row("Perdure agent, SQLite", OURS, "agent", "server+worker+driver")
AGENT_HTTP = Row("Perdure agent, HTTP worker", OURS, "agent-http", "server | worker | driver")
TASKS_HTTP = Row("Perdure tasks alone, HTTP worker", OURS, "tasks-http", "server | worker | driver", at=(50,))
CEILINGS = tuple(
    Row(f"ceiling: {of}'s rows, {name}", CEILING, of, roles, database=database, at=(50,))
    for of, name, roles, database in (
        ("function", "SQLite", "one loop", False),
        ("function", "PostgreSQL", "one loop | database", True),
        ("agent", "SQLite", "one loop", False),
    )
)
OWN = (FUNCTION, FUNCTION_POSTGRES, FUNCTION_HTTP, AGENT, AGENT_HTTP, TASKS_HTTP)
PEERS: tuple[Row, ...] = ()
ROWS = (*CEILINGS, *OWN, *PEERS)
