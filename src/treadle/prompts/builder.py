"""Build a prompt from sections that always come in one order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.errors import ConfigError
from treadle.prompts.lists import bullet_list, numbered_list
from treadle.values import clean


class Prompt:
    """A prompt in sections. Give it as `instructions=`, or call `render` for its text.

    ```python
    from treadle import Prompt

    prompt = Prompt().constraints("Be brief.").role("You review code.")
    print(" ".join(str(prompt).split()))
    #> ## Role You review code. ## Constraints - Be brief.
    ```

    The sections are Role, Objective, Context, Instructions, Constraints, Input, Output Format and
    Examples, in this order whatever the order of the calls, then your own. Those with one text
    replace it; `instructions`, `constraints`, `example` and `section` add to what is there. What is
    blank is left out, and so is a section of which nothing is left.

    Each method changes the prompt and returns it; `copy` begins another from here. It is not meant
    to be changed by several threads at once.

    Raises:
        ConfigError: of each method, that what it was given is no text.
    """

    __slots__ = ("_constraints", "_examples", "_instructions", "_own", "_texts")

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._instructions: list[str] = []
        self._constraints: list[str] = []
        self._examples: list[tuple[str, str]] = []
        self._own: list[tuple[str, str]] = []

    def role(self, text: str) -> Prompt:
        """Say who the model is."""
        return self._put("Role", text)

    def objective(self, text: str) -> Prompt:
        """Say what it is to reach."""
        return self._put("Objective", text)

    def context(self, text: str) -> Prompt:
        """Say what it has to know."""
        return self._put("Context", text)

    def instructions(self, *items: str) -> Prompt:
        """Add to what it is to do: a numbered list, or plain text while it is one."""
        self._instructions += _kept(items)
        return self

    def constraints(self, *items: str) -> Prompt:
        """Add to what it has to keep to: a list with dashes."""
        self._constraints += _kept(items)
        return self

    def input(self, text: str) -> Prompt:
        """Give what it is to work on."""
        return self._put("Input", text)

    def output_format(self, text: str) -> Prompt:
        """Say what its answer looks like."""
        return self._put("Output Format", text)

    def example(self, input: str, output: str) -> Prompt:
        """Add an example of what is given and what is answered; one that is all blank is none."""
        pair = (_tidy(input), _tidy(output))
        if any(pair):
            self._examples.append(pair)
        return self

    def section(self, title: str, content: str | Sequence[str]) -> Prompt:
        """Add a section of your own after all others: a text, or a list whose lines get dashes."""
        title = " ".join(_tidy(title).split())
        text = _tidy(content) if isinstance(content, str) else bullet_list(_kept(content))
        if text:
            self._own.append((title, text))
        return self

    def copy(self) -> Prompt:
        """Return another prompt with the same sections."""
        other = Prompt()
        other._texts = dict(self._texts)
        other._instructions, other._constraints = [*self._instructions], [*self._constraints]
        other._examples, other._own = [*self._examples], [*self._own]
        return other

    def render(self) -> str:
        """Return the text; "" for a prompt that says nothing."""
        found = self._texts | {
            "Instructions": _list_or_text(self._instructions),
            "Constraints": bullet_list(self._constraints),
            "Examples": "\n\n".join(
                f"{number}. {_example(*pair)}" for number, pair in enumerate(self._examples, 1)
            ),
        }
        sections = [(title, found.get(title, "")) for title in SECTIONS] + self._own
        return "\n\n".join(_section(title, text) for title, text in sections if text)

    __str__ = render

    def __repr__(self) -> str:
        return f"<Prompt of {len(self.render())} characters>"

    def _put(self, title: str, text: str) -> Prompt:
        self._texts[title] = _tidy(text)
        return self


SECTIONS = (
    *("Role", "Objective", "Context", "Instructions"),
    *("Constraints", "Input", "Output Format", "Examples"),
)


def _tidy(text: object) -> str:
    if not isinstance(text, str):
        raise ConfigError(f"Prompt: {text!r:.60} is no text; give a str.")
    return clean(text).strip()


def _kept(items: Any) -> list[str]:
    if isinstance(items, str):  # a mistake of callers without types: not a list of letters
        return _kept((items,))
    try:
        texts = map(_tidy, items)
    except TypeError as error:
        raise ConfigError(f"Prompt: {items!r:.60} is no list; give a str, or several.") from error
    return [text for text in texts if text]


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n{text}" if title else text


def _list_or_text(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else numbered_list(items)


def _example(given: str, answered: str) -> str:
    """Return the lines of a pair, indented so that a list goes on; without what is blank."""
    told = [f"Input: {given}"] if given else []
    told += [f"Output: {answered}"] if answered else []
    return "\n".join(told).replace("\n", "\n   ")
