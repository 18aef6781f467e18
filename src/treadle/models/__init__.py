"""What works with any model: finding it by name, and asking again when a failure passes."""

from treadle.models.resolve import resolve_model
from treadle.models.retry import Retry

__all__ = ["Retry", "resolve_model"]
