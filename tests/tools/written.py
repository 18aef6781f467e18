"""Functions as other people write them: without annotations, or with names that are not there."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any


def written(source: str, **names: Any) -> Callable[..., Any]:
    """Return the function that a module with this text defines; its annotations are postponed."""
    module = {"__name__": __name__, **names}
    exec("from __future__ import annotations\n" + source, module)  # noqa: S102 the text is ours
    return next(
        value
        for value in module.values()
        if isinstance(value, FunctionType) and value.__module__ == __name__
    )
