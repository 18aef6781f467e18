"""Typed output: the schema a model is given, and the value made of what it says."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from treadle.errors import ConfigError
from treadle.messages import ToolCall
from treadle.ports.model import OutputSchema, ToolSpec
from treadle.tools.signature import TypeDecoder
from treadle.values import register_annotation

OUTPUT_TOOL = "final_result"
WRAPPED = "result"
"""The key under which a type that is no JSON object is asked for: providers want an object."""


VALUES = (str, bytes, int, float, list, tuple, set, dict)
"""What is given by mistake for a type: an instance of one of these is none."""


class OutputRejected(Exception):
    """What the model said is not of the asked type; the text says what is wrong with it."""


class OutputType:
    """One output type: its JSON Schema, and the way from the model's words to a value."""

    __slots__ = ("_decoder", "_wrapped", "kind", "schema")

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        register_annotation(kind)
        self._decoder = TypeDecoder(kind)
        schema = self._decoder.schema
        self._wrapped = schema.get("type") != "object"
        if self._wrapped:
            schema = _wrap(schema)
        self.schema = schema

    @property
    def output_schema(self) -> OutputSchema:
        """What a model that obeys schemas is given."""
        return OutputSchema(OUTPUT_TOOL, self.schema)

    @property
    def tool_spec(self) -> ToolSpec:
        """What any other model is given: a tool to answer with."""
        return ToolSpec(
            OUTPUT_TOOL, "Give the final answer. Call this once, when you are done.", self.schema
        )

    def from_text(self, text: str) -> Any:
        """Return the value that a JSON text stands for; a fence of backticks around it is allowed.

        Raises:
            OutputRejected: it is not JSON, or not of the type.
        """
        body = text.strip()
        if body.startswith("```") and body.endswith("```"):
            body = body[3:-3].removeprefix("json").strip()
        return self._validated(self._decoder.from_json, body)

    def from_call(self, call: ToolCall) -> Any:
        """Return the value that a call of the output tool carries, or raise `OutputRejected`."""
        return self._validated(self._decoder.from_json, call.raw)

    def _validated(self, decode: Any, body: str) -> Any:
        try:
            return decode(body, under=WRAPPED if self._wrapped else None)
        except ValueError as error:
            raise OutputRejected(str(error)) from error


def output_type(kind: Any) -> OutputType | None:
    """Return how to get this type from a model, or None for plain text.

    Raises:
        ConfigError: it is no type, or one that has no JSON Schema.
    """
    if kind is str:
        return None
    if isinstance(kind, VALUES):
        raise ConfigError(
            f"output_type={kind!r} cannot be asked of a model: it is a value, not a type. Give a "
            "class or an annotation, such as str, list[int] or a dataclass."
        )
    try:
        return _output_of(kind) if _is_hashable(kind) else OutputType(kind)
    except Exception as error:
        raise ConfigError(f"output_type={kind!r} cannot be asked of a model: {error}") from error


@lru_cache(maxsize=256)
def _output_of(kind: Any) -> OutputType:
    return OutputType(kind)


def _is_hashable(kind: Any) -> bool:
    """Whether it can be remembered; `Annotated` with a dict in it is a type that cannot."""
    try:
        hash(kind)
    except TypeError:
        return False
    return True


def _wrap(schema: Mapping[str, Any]) -> dict[str, Any]:
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer: dict[str, Any] = {
        "type": "object",
        "properties": {WRAPPED: inner},
        "required": [WRAPPED],
        "additionalProperties": False,
    }
    return outer | ({"$defs": schema["$defs"]} if "$defs" in schema else {})
