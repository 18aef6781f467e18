"""A call's arguments as the model wrote them, and what to tell it when they are wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from msgspec import DecodeError, Struct
from msgspec.json import decode as decode_json
from msgspec.json import encode as encode_json

from treadle.errors import ToolError
from treadle.values import clean, is_array, is_object

Path = tuple[str | int, ...]

MOST_PROBLEMS = 20
MOST_CHARACTERS = 100
MOST_LAYERS = 5
"""How many layers of JSON text inside JSON are looked into."""


class Problem(Struct, frozen=True):
    """One thing that is wrong: where, what was expected, and what was there instead.

    `got` is short text, "" where nothing was there. `wants_json` marks a string that stands
    where an object or an array belongs.
    """

    path: Path
    text: str
    got: str = ""
    wants_json: bool = False

    def __str__(self) -> str:
        return f"{show_path(self.path)}: {self.text}{f', got {self.got}' if self.got else ''}"


class ArgumentsInvalid(ToolError, ValueError):
    """A call's arguments cannot be used; the message tells the model what to change.

    `problems` has the single findings; it is empty when the text was no JSON object at all.
    """

    def __init__(self, message: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


def parse_arguments(raw: str) -> dict[str, Any]:
    """Return the object that a call's argument text stands for.

    Empty and blank text and `null` are `{}`, and an object that was encoded twice is decoded
    twice. Integers keep every digit, the last of repeated keys counts, and NUL and lone
    surrogates become U+FFFD.

    Raises:
        ArgumentsInvalid: the text is not one JSON object; says where, and what was expected.
    """
    value = parse_json(raw)
    if is_object(value):
        return value
    if value is None:
        return {}
    inner = decoded_container(value)
    if is_object(inner):
        return inner
    raise ArgumentsInvalid(
        f'The arguments must be one JSON object like {{"name": "value"}}, got {show(value)}.'
    )


def parse_json(raw: str) -> Any:
    """Return the value of a JSON text, None for a blank one; for the rest see `parse_arguments`."""
    try:
        value = decode_json(raw)
    except (DecodeError, UnicodeEncodeError, RecursionError):
        return _parse_slowly(raw)
    # Decoded text holds NUL only where the raw one has its escape; lone surrogates fail above.
    return clean_value(value) if "\\u0000" in raw else value


def clean_value(value: Any) -> Any:
    """Return a JSON value with all its text, keys too, fit for stores and providers."""
    if isinstance(value, str):
        return clean(value)
    if is_array(value):
        return [clean_value(item) for item in value]
    if is_object(value):
        return {clean(key): clean_value(item) for key, item in value.items()}
    return value


Attempt = Callable[[Any], tuple[Any, list[Problem]]]
"""Decodes once: the decoded value and what is wrong, where nothing wrong means it may be used."""


def decode_repairing(value: Any, attempt: Attempt) -> tuple[Any, list[Problem]]:
    """Attempt to decode; where a string stands for an object or array, decode it and try again.

    Some servers hand nested objects over as JSON text. A string is decoded once, and only after
    it was refused where an object or array is wanted, so real strings stay as they are.
    """
    decoded, problems = attempt(value)
    for _ in range(MOST_LAYERS):
        unwrapped = value
        for path in dict.fromkeys(problem.path for problem in problems if problem.wants_json):
            unwrapped = _unwrap(unwrapped, path)
        if unwrapped is value:
            break
        value = unwrapped
        decoded, problems = attempt(value)
    return decoded, problems


def decoded_container(text: object) -> Any:
    """Return the object or array that a string holds as JSON, else None."""
    if not isinstance(text, str) or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return parse_json(text)
    except ArgumentsInvalid:
        return None


def arguments_invalid(
    problems: Iterable[Problem], schema: Mapping[str, Any], *, subject: str = "arguments are"
) -> ArgumentsInvalid:
    """Return the error that tells a model all problems at once, and what the parameters are."""
    found = tuple(dict.fromkeys(problems))
    count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
    lines = [f"The {subject} not valid ({count}):"]
    lines += [f"- {problem}" for problem in found[:MOST_PROBLEMS]]
    if len(found) > MOST_PROBLEMS:
        lines.append(f"- and {len(found) - MOST_PROBLEMS} more")
    if "properties" in schema:
        lines.append(f"Parameters: {show_parameters(schema)}")
    return ArgumentsInvalid("\n".join(lines), found)


def show(value: object) -> str:
    """Return a value as JSON text, cut when it is long."""
    try:
        text = encode_json(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = ascii(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


def show_path(path: Path) -> str:
    """Return a path as one would write it: `period.days[0]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "arguments"


def show_parameters(schema: Mapping[str, Any]) -> str:
    """Return the parameters of an object schema in one line."""
    required = schema.get("required", ())
    shown = [
        f"{name} ({show_type(child)}{', required' if name in required else ''})"
        for name, child in schema.get("properties", {}).items()
    ]
    return ", ".join(shown) or "none"


def show_type(schema: object) -> str:
    """Return what a schema accepts, in a word or two."""
    if not is_object(schema):
        return "any"
    if "const" in schema:
        return show(schema["const"])
    if "enum" in schema:
        return " | ".join(show(choice) for choice in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(show_type(choice) for choice in schema[key]))
    kind = schema.get("type", "object" if "$ref" in schema else "any")
    if kind == "array" and schema.get("items"):
        return f"array of {show_type(schema['items'])}"
    return " | ".join(kind) if is_array(kind) else str(kind)


def _parse_slowly(raw: str) -> Any:
    """Parse what the quick parser refused: it may be odd but right, else say where it is wrong."""
    text = clean(raw)
    if not text.strip():
        return None
    try:
        value = json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
        return clean_value(value)
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 20) : error.pos + 20]
        reason = f"{error.msg} at character {error.pos}, near {show(near)}"
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:  # a number: not finite, or of more digits than Python reads
        reason = str(error)
    raise ArgumentsInvalid(
        f"The text is not valid JSON: {reason}. Send complete JSON that fits the schema."
    )


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    return number if abs(number) != float("inf") else _refuse_number(show(text))


def _unwrap(value: Any, path: Path) -> Any:
    """Return a copy with the string at `path` decoded, or `value` itself where it cannot be."""
    if not path:
        inner = decoded_container(value)
        return value if inner is None else inner
    first, rest = path[0], path[1:]
    if is_object(value) and first in value:
        key = str(first)
        inner = _unwrap(value[key], rest)
        return value if inner is value[key] else {**value, key: inner}
    if is_array(value) and isinstance(first, int) and first < len(value):
        inner = _unwrap(value[first], rest)
        return value if inner is value[first] else [*value[:first], inner, *value[first + 1 :]]
    return value
