"""Which tests one process runs one after the other, where several processes share them."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

GROUPS = (
    "tests/arch/",  # so that the source is read once
    "tests/crash/",  # so that no two that kill processes share the cores
    "tests/e2e/test_postgres_",  # so that no two clusters do
)
"""How the ids of tests begin that are one group. Any other file is a group of its own."""


class Scheduling(LoadScopeScheduling):
    """Hands out whole groups, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((group for group in GROUPS if file.startswith(group)), file)
