"""The test kit: models that follow a script, recorded traffic, and checkers of what is sent."""

from treadle.testing.clock import FakeClock
from treadle.testing.recorder import Recorder
from treadle.testing.replayer import Replayer
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
    "Recorder",
    "Replayer",
    "ScriptedModel",
    "assert_strict",
    "calls",
    "calls_raw",
    "chunks",
    "raises",
    "reply",
    "strict",
]
