"""Read what a model gave for a plan: every problem is noted, none is the end of the reading."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from treadle.errors import PlanInvalid
from treadle.plan import PlanStep
from treadle.values import clean, is_array, is_object

_MOST = 10**18
_INTEGER = re.compile(r"\s*([+-]?\d{1,18})(?:\.0*)?\s*", re.ASCII)


class Fields:
    """The fields of one object, a null being none; `problems` grows as they are read."""

    def __init__(
        self,
        given: Mapping[str, Any],
        names: Collection[str],
        where: str = "",
        problems: list[str] | None = None,
    ) -> None:
        self._given = {name: value for name, value in given.items() if value is not None}
        self._where = where
        self.problems: list[str] = [] if problems is None else problems
        self.problems += [
            f"{where}There is no field {name!r}; there are {', '.join(names)}."
            for name in given
            if name not in names
        ]

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def __getitem__(self, name: str) -> Any:
        return self._given.get(name)

    def wrong(self, name: str, wanted: str) -> None:
        """Note that a field is not what it has to be."""
        given = f"{self._given[name]!r:.60} was given" if name in self else "it is missing"
        self.problems.append(f"{self._where}{name!r} has to be {wanted}; {given}.")

    def text(self, name: str) -> str:
        """Return a text; one that is missing is a problem."""
        value = self[name]
        if isinstance(value, str):
            return clean(value).strip()
        self.wrong(name, "a text")
        return ""

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, of one where a text was given; blank ones are left out."""
        value = self[name]
        listed = [value] if isinstance(value, str) else value
        if listed is None:
            return ()
        if not is_array(listed) or not all(isinstance(each, str) for each in listed):
            self.wrong(name, "a list of texts")
            return ()
        texts = (clean(each).strip() for each in listed)
        return tuple(text for text in texts if text)

    def index(self, name: str) -> int:
        """Return a positive integer; anything else is a problem, and 1."""
        number = _integer(self[name])
        if number is None or number < 1:
            self.wrong(name, "the index of a step, 1 or more")
            return 1
        return number

    def indexes(self, name: str) -> tuple[int, ...]:
        """Return a list of positive integers."""
        value = self[name]
        if value is None:
            return ()
        numbers = [_integer(each) for each in value] if is_array(value) else [None]
        found = tuple(number for number in numbers if number is not None and number > 0)
        if len(found) < len(numbers):
            self.wrong(name, "a list of indexes of steps, each 1 or more")
        return found

    def check(self) -> None:
        """Raise when there was a problem.

        Raises:
            PlanInvalid: with all of them.
        """
        if self.problems:
            raise PlanInvalid(self.problems)


def steps_in(fields: Fields, names: Collection[str]) -> Sequence[PlanStep]:
    """Return the steps of a new plan, by their indexes, which have to run from 1 without a gap."""
    given = fields["steps"]
    if not is_array(given) or not given:
        fields.wrong("steps", "a list of at least one step")
        return ()
    found: dict[int, PlanStep] = {}
    indexes: list[int] = []
    for place, row in enumerate(given, 1):
        where = f"Step at place {place}: "
        if not is_object(row):
            fields.problems.append(f"{where}it has to be an object; {row!r:.60} was given.")
            continue
        own = Fields(row, names, where, fields.problems)
        index = own.index("index")
        indexes.append(index)
        found[index] = PlanStep(
            str(index),
            own.text("title"),
            own.text("status"),  # pyright: ignore[reportArgumentType] (checked with the plan)
            tuple(map(str, own.indexes("dependencies"))),
            own.text("detail") if "detail" in own else "",
            own.text("notes") if "notes" in own else "",
        )
    if not fields.problems and sorted(indexes) != list(range(1, len(indexes) + 1)):
        got = ", ".join(map(str, indexes))
        fields.problems.append(
            f"Indexes have to run from 1 to {len(indexes)}, each once; {got} were given."
        )
    return [found[index] for index in sorted(found)]


def _integer(value: object) -> int | None:
    """Return an integer that came as one, as a float without a fraction, or as a text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        found = _INTEGER.fullmatch(value)
        return int(found[1]) if found else None
    if not isinstance(value, int | float) or abs(value) > _MOST or value != int(value):
        return None  # not a number is more than nothing
    return int(value)
