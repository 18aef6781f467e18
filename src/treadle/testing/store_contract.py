"""The contract of stores, as tests: subclass it, say how to open yours, and run it with pytest.

```python notest
class TestMyStore(StoreContract):
    async def open_store(self) -> Store:
        return MyStore("my://place")
```

Each call of `open_store` gives a new handle to the same place, so that handles race. Other
conversations may be there; the tests use IDs of their own.
"""

from __future__ import annotations

from treadle.testing.store_journals import JournalTests
from treadle.testing.store_leases import LeaseTests


class StoreContract(JournalTests, LeaseTests):
    """What every store keeps."""
