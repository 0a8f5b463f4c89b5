"""What stands in for a bank and a mail service while the agent is tested: a file that says what was done.

The bank knows idempotency keys, as real ones do: a charge whose key it has seen is not made again. Mail knows none.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from pathlib import Path

FILE = Path(os.environ.get("PERDURE_CRASHTEST_DIR", ".")) / "done.db"
"""Each run of a crash test has a folder of its own."""


def charge(order_id: str, cents: int, key: str | None = None) -> str:
    """Take money for an order. The same key takes it once."""
    with _done() as done:
        known = done.execute("SELECT receipt FROM charges WHERE key = ?", (key,)).fetchone()
        if known:
            return known[0]
        number = done.execute("SELECT count(*) FROM charges").fetchone()[0] + 1
        done.execute("INSERT INTO charges VALUES (?, ?, ?, ?)", (order_id, cents, key, f"rcpt-{number}"))
    return f"rcpt-{number}"


def mail(to: str, text: str) -> None:
    """Send a mail."""
    with _done() as done:
        done.execute("INSERT INTO mails VALUES (?, ?)", (to, text))


def observe() -> dict[str, int]:
    """Count what was done: more than one of anything is one too many."""
    with _done() as done:
        charges = Counter(f"charge for {row[0]}" for row in done.execute("SELECT order_id FROM charges"))
        mails = Counter(f"mail to {row[0]}" for row in done.execute("SELECT recipient FROM mails"))
    return {**charges, **mails}


def _done() -> sqlite3.Connection:
    done = sqlite3.connect(FILE, isolation_level="IMMEDIATE")
    done.execute("CREATE TABLE IF NOT EXISTS charges (order_id TEXT, cents INTEGER, key TEXT, receipt TEXT)")
    done.execute("CREATE TABLE IF NOT EXISTS mails (recipient TEXT, text TEXT)")
    return done
