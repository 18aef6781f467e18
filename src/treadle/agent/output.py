"""Typed output: the schema a model is given, and the value made of what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec.json import encode as encode_json

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


NOT_YET: Any = object()
"""Stands for the beginning of an output of which nothing can be told yet."""


class OutputType:
    """One output type: its JSON Schema, and the way from the model's words to a value."""

    __slots__ = ("_decoder", "_length", "_partial", "_wrapped", "kind", "schema")

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        register_annotation(kind)
        self._decoder = TypeDecoder(kind)
        schema = self._decoder.schema
        self._length = 0
        self._wrapped = schema.get("type") != "object"
        if self._wrapped:
            schema = _wrap(schema)
        self.schema = schema
        self._partial: Callable[[str], Any] | None = None

    @property
    def length(self) -> int:
        """How many characters the schema takes as JSON."""
        if not self._length:
            self._length = len(encode_json(self.schema))
        return self._length

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

    def from_beginning(self, text: str) -> Any:
        """Return what a JSON text that is still being written holds so far, or `NOT_YET`."""
        if self._partial is None:
            self._partial = _partial_decoder(self.kind, WRAPPED if self._wrapped else None)
        body = text.lstrip()
        if body.startswith("```"):
            body = body.partition("\n")[2].removesuffix("```")
        return self._partial(body)

    def from_call(self, call: ToolCall) -> Any:
        """Return the value that a call of the output tool carries, or raise `OutputRejected`."""
        return self._validated(self._decoder.from_json, call.raw)

    def _validated(self, decode: Any, body: str) -> Any:
        try:
            return decode(body, under=WRAPPED if self._wrapped else None)
        except ValueError as error:
            raise OutputRejected(str(error)) from error


class PartialOutput:
    """Tells what has come of one typed output while its text streams.

    Short texts are looked at with every piece, longer ones less often, so that all of the looking
    costs no more than some dozens of looks at the whole.
    """

    __slots__ = ("_last", "_next", "_output", "_size", "_tell")

    def __init__(self, output: OutputType, tell: Callable[[Any, int], None]) -> None:
        self._output = output
        self._tell = tell
        self._size = self._next = 0
        self._last: Any = NOT_YET

    def tell(self, seen: Sequence[str], turn: int) -> None:
        """Tell of the text seen so far, whose last piece is new, if there is more than before."""
        if len(seen) == 1:  # the first piece, or the first since the answer began anew
            self._size = self._next = 0
            self._last = NOT_YET
        self._size += len(seen[-1])
        ends = seen[-1].rstrip().endswith(("}", "`"))  # it may be all there is
        if self._size < self._next and not ends:
            return
        self._next = self._size + self._size // 32
        value = self._output.from_beginning("".join(seen))
        if value is not NOT_YET and value != self._last:
            self._last = value
            self._tell(value, turn)


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


def _partial_decoder(kind: Any, under: str | None) -> Callable[[str], Any]:
    """Return how to read beginnings of a type; nothing is told of what pydantic cannot treat."""
    from treadle.tools.partial import NOTHING, PartialDecoder  # noqa: PLC0415 loads pydantic

    try:
        decode = PartialDecoder(kind, under).decode
    except Exception:  # noqa: BLE001 the whole output has its own way
        return lambda _: NOT_YET

    def told(text: str) -> Any:
        found = decode(text)
        return NOT_YET if found is NOTHING else found

    return told


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
