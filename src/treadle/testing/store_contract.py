"""The contract of stores, as tests: subclass it, say how to open yours, and run it with pytest.

```python
from treadle import MemoryStore
from treadle.ports.store import Store
from treadle.testing.store_contract import StoreContract

PLACE = MemoryStore()


class TestMyStore(StoreContract):
    async def open_store(self) -> Store:
        return PLACE
```

Each call of `open_store` gives a new handle to the same place, so that handles race. Other
conversations may be there; the tests use IDs of their own.
"""

from __future__ import annotations

from treadle.testing.store_journals import JournalTests
from treadle.testing.store_leases import LeaseTests
from treadle.testing.store_upkeep import UpkeepTests


class StoreContract(JournalTests, UpkeepTests, LeaseTests):
    """What every store keeps."""
