"""The engine's bench over a database that other servers write to as well."""

from __future__ import annotations

from engine_bench import Bench
from perdure.core import codec
from perdure.core.ids import shard_of
from perdure.store.protocol import Row


class LockingBench(Bench):
    """A bench over a database whose readers cannot run the query that locks."""

    def execution(self, execution: str) -> Row:
        with self.store.write() as connection:
            found = connection.row("lock_executions", wanted=codec.encode({execution: shard_of(execution)}))
        assert found is not None
        return found
