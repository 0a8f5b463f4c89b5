"""What PostgreSQL's errors mean to a store: who acts next, and what to tell them."""

from __future__ import annotations

import psycopg
from psycopg import errors as pg

from perdure.errors import InternalError, InvalidInput, Retryable, StoreFailed, StoreFull
from perdure.store.protocol import Again

_PASSES = (
    pg.DeadlockDetected,
    pg.SerializationFailure,
    pg.LockNotAvailable,
    pg.QueryCanceled,
    pg.ReadOnlySqlTransaction,  # the server became a standby under us
    pg.IdleInTransactionSessionTimeout,  # this process was stopped in the middle of it
)
_LOGIN = ("authentication failed", "no password supplied", "role", "pg_hba.conf", "not permitted to log in")
"""Words of a refusal that only another address mends. libpq gives no code with it; in another language it counts as a
server that does not answer."""
_FULL = ("too many connections", "too many clients", "connection slots")
"""Words of one that passes, though it may speak of roles: all connections are taken."""
_BROKEN = (pg.IoError, pg.DataCorrupted, pg.IndexCorrupted)


def refusal(error: psycopg.Error, shown: str, query: str = "") -> Exception:
    """Return what an error of PostgreSQL means to us, to be raised. `shown` is where the database is, for people."""
    what = f"{' '.join(str(error).split())} ({error.sqlstate or type(error).__name__})"
    if isinstance(error, pg.DiskFull):
        return StoreFull(
            f"{shown}: its disk is full. Nothing accepted was lost and reads go on; free some space, and "
            "writes go on too.",
        )
    if isinstance(error, _BROKEN):
        return StoreFailed(
            f"{shown}: {what}. Its disk or its files are damaged: see the database's own log, and restart this "
            "process once it is mended.",
        )
    if isinstance(error, pg.InsufficientPrivilege) and "row-level security" in what:
        return InternalError(f"query {query}: {what}: the wall between companies", code="constraint")
    if isinstance(error, pg.InsufficientPrivilege):  # retryable: under a server that runs it says nothing of who asks
        return Retryable(
            f"{shown}: this user may not do what a store needs ({what}). Make it the owner of the database, or "
            "GRANT USAGE, CREATE ON SCHEMA public, and make it the owner of the tables.",
            code="store_no_rights",
        )
    if isinstance(error, psycopg.IntegrityError):
        return InternalError(f"query {query}: {what}", code="constraint")
    # Of class 57 and 08, and without a code, are shutdowns and lost connections.
    if isinstance(error, (*_PASSES, psycopg.OperationalError)):
        return Again(f"{shown}: {what}")
    return InternalError(f"query {query}: {what}", code="bad_sql")


def not_let_in(shown: str, why: str) -> Exception:
    """Return what it means that no connection came about, by libpq's words: they name user and database, never the
    password."""
    if "FATAL" in why and "database" in why and "does not exist" in why:
        return InvalidInput(
            f"{shown}: there is no such database ({why}). Create it: CREATE DATABASE … ENCODING 'UTF8'.",
            code="store_no_database",
        )
    refuses = "FATAL" in why and any(word in why for word in _LOGIN) and not any(word in why for word in _FULL)
    if refuses or "no password supplied" in why:
        return InvalidInput(
            f"{shown} lets nobody in with this user and password: {why}. Mend them in the address, or put the "
            "password into PGPASSWORD or ~/.pgpass.",
            code="store_login",
        )
    return Again(f"{shown} does not answer: {why}")
