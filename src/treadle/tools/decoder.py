"""From the JSON of a call, or of an answer, to the Python values that were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from treadle.tools.annotations import ABSENT, Field, description_in, split_annotated
from treadle.tools.arguments import (
    ArgumentsInvalid,
    Problem,
    arguments_invalid,
    decode_repairing,
    parse_json,
    show,
)
from treadle.tools.plain import PlainDecode, PlainField, is_plain_default, plain_decoder, plain_type
from treadle.tools.schema import JsonSchema
from treadle.values import is_object


class Validator(Protocol):
    """What pydantic is to this module, which does not import it."""

    schema: JsonSchema

    def attempt(self, arguments: Any) -> tuple[dict[str, Any], list[Problem]]:
        """Return the values, and what is wrong with the arguments."""
        ...


class ArgumentDecoder:
    """Validates a call's arguments. `schema` is the JSON Schema that they follow.

    `fields` are the parameters, `extra` the type of all further ones where any are taken, and
    `names` those that the types of nested classes may use. Parameters of plain JSON types need
    no pydantic unless a value has to be converted or refused. Values are converted as pydantic
    does by default: "5" and true are taken for an integer, 5 is not taken for a string.

    Raises:
        TypeError: a type has no JSON form, or cannot be resolved.
    """

    __slots__ = ("_fields", "_plain", "_validator", "schema")

    def __init__(
        self,
        fields: Sequence[Field],
        *,
        extra: Any = ABSENT,
        names: Mapping[str, Any] | None = None,
    ) -> None:
        self._fields = tuple(fields)
        self._validator: Validator | None = None
        plain = _plain(self._fields) if extra is ABSENT else None
        self._plain: PlainDecode | None = None
        if plain is None:  # now, while the names are at hand, and so that errors come early
            self._validator = _load_validator(self._fields, extra, names or {})
            self.schema: JsonSchema = self._validator.schema
        else:
            self.schema, self._plain = plain

    def decode(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the values by parameter name, defaults filled in.

        Raises:
            ArgumentsInvalid: with every problem that was found.
        """
        if self._plain is not None:
            values = self._plain(arguments)
            if values is not None:
                return values
        values, problems = decode_repairing(arguments, self._ready().attempt)
        if problems:
            raise arguments_invalid(problems, self.schema)
        return values

    def _ready(self) -> Validator:
        if self._validator is None:
            self._validator = _load_validator(self._fields, ABSENT, {})
        return self._validator


class TypeDecoder:
    """Makes a value of one type from JSON text. `schema` is the type's JSON Schema.

    Raises:
        TypeError: the type has no JSON form.
    """

    __slots__ = ("_decoder", "schema")

    def __init__(self, kind: Any) -> None:
        self._decoder = ArgumentDecoder([Field("value", kind)])
        whole = self._decoder.schema
        definitions = {"$defs": whole["$defs"]} if "$defs" in whole else {}
        self.schema: JsonSchema = {**whole["properties"]["value"], **definitions}

    def from_json(self, text: str, *, under: str | None = None) -> Any:
        """Return the value that the text stands for; with `under`, the one an object has there.

        Raises:
            ArgumentsInvalid: the text is not JSON, or not of the type; it is a `ValueError` too.
        """
        value = parse_json(text)
        if under is not None:
            if not is_object(value) or under not in value:
                raise ArgumentsInvalid(f"Expected an object with {under!r}, got {show(value)}.")
            value = value[under]
        try:
            return self._decoder.decode({"value": value})["value"]
        except ArgumentsInvalid as error:
            start: tuple[str, ...] = () if under is None else (under,)
            problems = [replace(found, path=(*start, *found.path[1:])) for found in error.problems]
            raise arguments_invalid(problems, self.schema, subject="value is") from None


def _plain(fields: Sequence[Field]) -> tuple[JsonSchema, PlainDecode] | None:
    """Return the schema and the decoding of fields that are all plain, None for any others."""
    properties: dict[str, Any] = {}
    rows: list[PlainField] = []
    for field in fields:
        kind, more = split_annotated(field.annotation)
        plain = plain_type(kind)
        descriptions = [description_in(each) for each in more]
        has_default = field.default is not ABSENT
        shared = is_plain_default(field.default) if has_default else field.required
        if plain is None or not shared or not all(descriptions):
            return None
        properties[field.name] = _shown(plain.schema, field, descriptions)
        rows.append(PlainField(field.name, plain.convert, not has_default, field.default))
    schema: JsonSchema = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [row.name for row in rows if row.required]
    return schema | ({"required": required} if required else {}), plain_decoder(rows)


def _shown(schema: JsonSchema, field: Field, descriptions: Sequence[str]) -> JsonSchema:
    text = descriptions[-1] if descriptions else field.description
    described = {"description": text} if text else {}
    default = {} if field.default is ABSENT else {"default": field.default}
    return {**schema, **described, **default}


def _load_validator(fields: Sequence[Field], extra: Any, names: Mapping[str, Any]) -> Validator:
    """Load pydantic with the first tool that needs it: it is half of a small program's start."""
    from treadle.tools.adapter import Adapter  # noqa: PLC0415

    return Adapter(fields, extra, names)
