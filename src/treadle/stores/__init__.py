"""Where conversations live."""

from treadle.stores.memory import MemoryStore

__all__ = ["MemoryStore"]
