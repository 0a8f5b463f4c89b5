"""A server's part in a PostgreSQL store, which any number of equal servers share: leases and fences divide the work.

Nobody owns such a store, so nothing here joins, takes over or elects.
"""

from __future__ import annotations

import re

from perdure.server.node import Node, Parts
from perdure.store.postgres import open_postgres


def is_address(store: str) -> bool:
    """Say whether a store is named by the address of a database, and not by a file."""
    return re.match(r"postgres(ql)?://", store) is not None


def open_database(address: str, parts: Parts) -> tuple[Node, str]:
    """Open a node over a PostgreSQL store; return it and the store's name for people, without its password.

    The tables are brought to this release's, whoever of several servers comes first. Raises as `open_postgres`.
    """
    store = open_postgres(address, random=parts.random)
    return Node(store, parts, nonce=parts.random.token(16).hex()), store.where
