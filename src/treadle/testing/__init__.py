"""The test kit: models that follow a script, and checkers of what a provider would be sent."""

from treadle.testing.clock import FakeClock
from treadle.testing.scripted import (
    FunctionModel,
    ScriptedModel,
    calls,
    calls_raw,
    chunks,
    raises,
    reply,
)
from treadle.testing.strict import assert_strict, strict

__all__ = [
    "FakeClock",
    "FunctionModel",
    "ScriptedModel",
    "assert_strict",
    "calls",
    "calls_raw",
    "chunks",
    "raises",
    "reply",
    "strict",
]
