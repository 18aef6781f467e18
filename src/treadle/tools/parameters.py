"""Parameters that are only known at run time: listed one by one, or as any JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from treadle.errors import InvalidTool
from treadle.tools.normalize import checked_type, normalize_schema
from treadle.tools.schema import JsonSchema

__all__ = ["Parameter", "ParameterType", "normalize_schema", "parameters_schema", "with_parameters"]

ParameterType = Literal["string", "integer", "number", "boolean", "array", "object"]


class Parameter(Struct, frozen=True, kw_only=True):
    """One parameter of a tool whose parameters are listed by hand.

    `items` says what an array holds: a type, or a schema. `properties` are the members of an
    object; `enum` are the only values allowed.

        >>> city = Parameter(name="city", description="City name", required=True)
        >>> parameters_schema([city])["required"]
        ['city']
    """

    name: str
    type: ParameterType = "string"
    description: str = ""
    required: bool = False
    items: ParameterType | dict[str, Any] | None = None
    properties: tuple[Parameter, ...] = ()
    enum: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidTool("A parameter needs a name.")
        checked_type(self.type, self.name)
        start = f"Parameter {self.name!r} is of type {self.type!r}"
        if self.items is not None and self.type != "array":
            raise InvalidTool(f"{start}; only an array has items.")
        if self.properties and self.type != "object":
            raise InvalidTool(f"{start}; only an object has properties.")

    @property
    def schema(self) -> JsonSchema:
        """The JSON Schema of its values."""
        schema: JsonSchema = {"type": self.type}
        if self.description:
            schema["description"] = self.description
        if self.enum:
            schema["enum"] = list(self.enum)
        if self.type == "array":
            items = self.items or {}
            schema["items"] = {"type": items} if isinstance(items, str) else items
        if self.type == "object":
            schema |= parameters_schema(self.properties)
        return schema


def parameters_schema(parameters: Iterable[Parameter]) -> JsonSchema:
    """Return the object schema of these parameters. Of several with one name the last counts.

    Raises:
        InvalidTool: the items of an array are no schema.
    """
    return with_parameters({}, *parameters)


def with_parameters(schema: JsonSchema | None, *parameters: Parameter) -> JsonSchema:
    """Return an object schema with parameters added or replaced; the given one stays as it is."""
    whole = normalize_schema(schema)
    properties, required = dict(whole["properties"]), list(whole.get("required", ()))
    for parameter in parameters:
        properties[parameter.name] = parameter.schema
        if parameter.required:
            required.append(parameter.name)
        else:
            required = [name for name in required if name != parameter.name]
    return normalize_schema({**whole, "properties": properties, "required": required})
