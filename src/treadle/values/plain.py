"""The plain form: what JSON carries without loss, and how a value that does not fit is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
else:
    Plain = Any  # msgspec reads annotations at run time and has no recursive aliases

TAG = "$"
"""The key that marks a dict of the plain form as something else than a dict."""

MAX_DEPTH = 200
"""How many containers may stand inside each other."""

SMALLEST_INT = -(2**63)
LARGEST_INT = 2**64 - 1

_LONGEST_PATH = 400


class Misfit(Exception):
    """A value somewhere inside another does not fit; its path grows while the error travels up."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str] = []

    def at(self, step: str, value: object) -> None:  # noqa: ARG002 - TooDeep needs it
        """Note that the error came through `value`, which is reached by `step`."""
        self.steps.append(step)

    def path(self, root: str) -> str:
        """Return where the value stands, from `root` on; of a long path the middle is left out."""
        whole = root + "".join(reversed(self.steps))
        if len(whole) <= _LONGEST_PATH:
            return whole
        return f"{whole[: _LONGEST_PATH // 2]} ... {whole[-_LONGEST_PATH // 2 :]}"


class TooDeep(Misfit):
    """A container stands inside `MAX_DEPTH` others; one that it came through twice is a cycle."""

    def __init__(self) -> None:
        super().__init__(f"it is nested more than {MAX_DEPTH} levels deep")
        self.passed: dict[
            int, object
        ] = {}  # by id; the object is kept, so that its id stays its own

    def at(self, step: str, value: object) -> None:
        """Note the step; at a cycle the path begins anew, so that it ends where that is entered."""
        if id(value) in self.passed:
            self.steps.clear()
            self.reason = f"{described(value)} contains itself"
        self.passed[id(value)] = value
        super().at(step, value)


class Unknown(Misfit):
    """A stored value names a type that is not registered here, or that no longer fits it."""

    def __init__(self, reason: str, *, type_name: str, raw: Plain) -> None:
        super().__init__(reason)
        self.type_name = type_name
        self.raw = raw


def key_step(key: object) -> str:
    """Return the step of a path that goes through a key; long keys are cut."""
    shown = repr(key) if type(key) in _SHOWN else described(key)
    return f"[{shown}]" if len(shown) <= 60 else f"[{shown[:57]}...]"


def described(value: object) -> str:
    """Return the name of a value's type with its article; never its address or content."""
    name = type_label(type(value))
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def type_label(kind: type) -> str:
    """Return a type's full name, without the module of what is built in."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


_SHOWN = (str, int, float, bool, bytes, type(None))
