"""What every store must do, as tests: subclass `StoreContract`, or `SharedStoreContract` where several processes write
to one database, and give it a `database` fixture.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def database(self) -> Database: ...

Needs pytest. The tests write to an empty database and close what they open.
"""

from __future__ import annotations

from perdure.testing.store_contract.database import Database, contract_queries
from perdure.testing.store_contract.durability import DurabilityContract
from perdure.testing.store_contract.queries import QueryContract
from perdure.testing.store_contract.sharing import SharingContract
from perdure.testing.store_contract.transactions import TransactionContract
from perdure.testing.store_contract.values import ValueContract

__all__ = ["Database", "SharedStoreContract", "StoreContract", "contract_queries"]


class StoreContract(QueryContract, ValueContract, TransactionContract, DurabilityContract):
    """For a store that one process owns."""


class SharedStoreContract(StoreContract, SharingContract):
    """For a store that several processes write to at the same time."""
