"""The seam between what another agent stands behind and the run that carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from treadle.ports.approval import PendingCall
from treadle.state.scoped import WriteGuard


class Delegate(Protocol):
    """Who does the work of a tool, or of a step, in a child run."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def definition(self, above: tuple[object, ...] = ()) -> Mapping[str, str]:
        """Return a short hash of each thing it is made of; nothing for one that is `above`."""
        ...


class ChildCall(Struct, frozen=True):
    """The call that a child run works for, with its span, and what keeps parallel writes apart."""

    call_id: str
    span: str
    guard: WriteGuard | None = None


class Pause(Struct, frozen=True):
    """Why a child run has paused, and the calls in it that wait for a decision."""

    reason: str
    pending: tuple[PendingCall, ...] = ()


class ChildPaused(Exception):
    """A child run has paused; its call has no result yet."""

    def __init__(self, pause: Pause) -> None:
        super().__init__(pause.reason)
        self.pause = pause


class Children(Protocol):
    """Runs child runs in one run."""

    async def run(self, delegate: Delegate, said: str, call: ChildCall) -> object:
        """Begin a child run, or go on with the one that the call has begun; return its output.

        Raises:
            ChildPaused: it waits for somebody.
            ToolError: it has no answer; the text says why.
        """
        ...


def step_name(label: str, number: int) -> str:
    """Return the last part of a path: what runs there, and which one of that name it is."""
    return f"{label.replace('%', '%25').replace('/', '%2F').replace('#', '%23')}#{number}"


def label_of(step: str) -> str:
    """Return what runs at a path with this last part."""
    label = step.rpartition("#")[0]
    return label.replace("%23", "#").replace("%2F", "/").replace("%25", "%")
