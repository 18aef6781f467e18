"""The messages of plugin servers: described at run time, filled from JSON, read as JSON.

The wire format, as plugin servers speak it (`google.protobuf.Empty` is an empty message, too):

    package plugin, service PluginService, unary: Init, Name, Description, Properties, Execute, Ping
    ToolProperty     1 name, 2 type, 3 required, 4 description, 5 items, repeated 6 properties
    ExecuteRequest   1 ctxmeta Struct, 2 parameters Struct
    ExecuteResponse  1 result, 2 structured_content Struct, repeated 3 image_parts
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import DESCRIPTOR as STRUCT

from treadle.errors import InvalidTool, ToolError
from treadle.messages import Image, Text
from treadle.plugins.images import image_at, image_of, whole
from treadle.tools.parameters import Parameter, parameters_schema
from treadle.values import clean

METHOD = "/plugin.PluginService/"

EXACT = 2**53
"""The largest whole number up to which the wire, which has only doubles, keeps every one."""
DEEPEST = 96
"""Messages inside messages; most readers of the format stop at 100."""

_TYPES = ("string", "integer", "number", "boolean", "array", "object")
_KINDS = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
}
_STRUCT = ".google.protobuf.Struct"
_FIELDS: Mapping[str, str] = {
    "NameResponse": "name:string",
    "DescriptionResponse": "description:string",
    # Servers write `items` as the name of a type, or as a property of its own: both are bytes.
    "ToolProperty": (
        "name:string type:string required:bool description:string items:bytes "
        "properties:*.plugin.ToolProperty"
    ),
    "PropertiesResponse": "properties:*.plugin.ToolProperty",
    "ExecuteRequest": f"ctxmeta:{_STRUCT} parameters:{_STRUCT}",
    "ImageUrl": "url:string detail:string",
    "ImageBinary": "mime_type:string data:bytes",
    "ImagePart": "image_url:?.plugin.ImageUrl binary:?.plugin.ImageBinary",
    "ExecuteResponse": (
        f"result:string structured_content:{_STRUCT} image_parts:*.plugin.ImagePart"
    ),
}
"""Each message's fields, numbered from 1; `*` is repeated and `?` belongs to the one-of."""


class Unreadable(Exception):
    """What a plugin server answered is not its message."""


def request_of(metadata: Mapping[str, Any], arguments: Mapping[str, Any]) -> bytes:
    """Return the bytes of an ExecuteRequest.

    Raises:
        ToolError: a value cannot be sent without loss; the text says where it stands.
    """
    request = _MESSAGES["ExecuteRequest"]()
    request.ctxmeta.SetInParent()
    request.parameters.SetInParent()
    _fill(request.ctxmeta, metadata, "metadata", 1)
    _fill(request.parameters, arguments, "", 1)
    return request.SerializeToString(deterministic=True)


def text_of(message: str, field: str, content: bytes) -> str:
    """Return the text in the one field of a NameResponse or DescriptionResponse.

    Raises:
        Unreadable: the bytes are no such message.
    """
    return clean(getattr(_parsed(message, content), field))


def schema_of(content: bytes) -> dict[str, Any]:
    """Return the JSON Schema that a PropertiesResponse stands for.

    Raises:
        Unreadable: the bytes are no such message.
        InvalidTool: a property has no name, or a type that there is not.
    """
    response = _parsed("PropertiesResponse", content)
    return parameters_schema([_parameter(each) for each in response.properties])


def answer_of(plugin: str, content: bytes) -> object:
    """Return what a tool gives back for an ExecuteResponse: texts, values and pictures, each once.

    Raises:
        Unreadable: the bytes are no such message.
    """
    response = _parsed("ExecuteResponse", content)
    images = whole(_images(plugin, response.image_parts))
    value = _plain_struct(response.structured_content)
    said = clean(response.result)
    told_twice = bool(said) and bool(value) and _is_json_of(said, value)
    if value and not images and (told_twice or not said):
        return value
    parts: list[Text | Image] = [Text(said)] if said else []
    if value and not told_twice:
        parts.append(Text(json.dumps(value, indent=2, ensure_ascii=False)))
    if parts or images:
        return [*parts, *images]
    return value if response.HasField("structured_content") else ""


def _images(plugin: str, parts: Sequence[Any]) -> Iterator[Image | None]:
    for part in parts:
        if part.HasField("binary"):
            yield image_of(plugin, part.binary.mime_type, part.binary.data)
        else:
            yield image_at(plugin, part.image_url.url, part.image_url.detail)


def _is_json_of(text: str, value: object) -> bool:
    try:
        return json.loads(text) == value
    except (ValueError, RecursionError):
        return False


def _parameter(found: Any) -> Parameter:
    members = tuple(_parameter(each) for each in found.properties)
    kind: Any = found.type or ("object" if members else "array" if found.items else "string")
    items = _items(found.items, members) if kind == "array" else None
    return Parameter(
        name=clean(found.name),
        type=kind,
        description=clean(found.description),
        required=found.required,
        items=items,
        properties=members if kind == "object" else (),
    )


def _items(content: bytes, members: Sequence[Parameter]) -> Any:
    """Return what an array holds: a type by its name, or a property with all it says."""
    text = content.decode("utf-8", "replace")
    if text in _TYPES:
        return parameters_schema(members) if text == "object" else text
    if not content:
        return parameters_schema(members) if members else None
    try:
        found = _parsed("ToolProperty", content)
    except Unreadable:
        raise InvalidTool(f"An array holds {text[:60]!r}, which is no type.") from None
    found.name = found.name or "items"
    return _parameter(found).schema


def _plain_struct(struct: Any) -> dict[str, Any]:
    # The wire keeps no order; a result has to be the same text each time.
    return {clean(name): _plain(struct.fields[name]) for name in sorted(struct.fields)}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        number: float = value.number_value
        return int(number) if number.is_integer() and abs(number) <= EXACT else number
    if kind == "string_value":
        return clean(value.string_value)
    if kind == "bool_value":
        return value.bool_value
    if kind == "struct_value":
        return _plain_struct(value.struct_value)
    if kind == "list_value":
        return [_plain(item) for item in value.list_value.values]
    return None


def _fill(struct: Any, values: Mapping[str, Any], path: str, depth: int) -> None:
    if depth > DEEPEST:
        raise ToolError(f"{path[:60]!r} is nested too deeply for a plugin server; make it flatter.")
    for name, value in values.items():
        place = f"{path}.{name}" if path else name
        _fill_value(struct.fields[clean(name)], value, place, depth + 2)


def _fill_value(into: Any, value: Any, path: str, depth: int) -> None:
    if value is None:
        into.null_value = 0
    elif isinstance(value, bool):
        into.bool_value = value
    elif isinstance(value, str):
        into.string_value = clean(value)
    elif isinstance(value, int | float):
        into.number_value = _exact(value, path)
    elif isinstance(value, Mapping):
        into.struct_value.SetInParent()
        _fill(into.struct_value, value, path, depth + 1)  # pyright: ignore[reportUnknownArgumentType] JSON
    elif isinstance(value, list | tuple):
        _fill_list(into.list_value, value, path, depth + 1)  # pyright: ignore[reportUnknownArgumentType] JSON
    else:
        raise ToolError(f"{path!r} is a {type(value).__name__}, which is no JSON value.")


def _fill_list(into: Any, values: Sequence[Any], path: str, depth: int) -> None:
    if depth > DEEPEST:
        raise ToolError(f"{path[:60]!r} is nested too deeply for a plugin server; make it flatter.")
    into.SetInParent()
    for index, item in enumerate(values):
        _fill_value(into.values.add(), item, f"{path}[{index}]", depth + 1)


def _exact(number: float, path: str) -> float:
    """Return the number as a double, where that changes nothing."""
    if isinstance(number, int) and abs(number) > EXACT:
        raise ToolError(
            f"{path!r} is {number}, which has more digits than a plugin server can be sent "
            "(2^53 at most); pass it as a string if the tool takes one."
        )
    if not math.isfinite(number):
        raise ToolError(f"{path!r} is {number}, which is no JSON value.")
    return float(number)


def _parsed(message: str, content: bytes) -> Any:
    try:
        return _MESSAGES[message].FromString(content)
    except DecodeError as error:
        raise Unreadable(f"it is no {message}: {error}") from error


def _described() -> FileDescriptorProto:
    """Return the description of all messages, as a compiler of their .proto file would write it."""
    file = FileDescriptorProto(name="treadle/plugin.proto", package="plugin", syntax="proto3")
    file.dependency.append(STRUCT.name)
    for name, fields in _FIELDS.items():
        described = file.message_type.add(name=name)
        for number, field in enumerate(fields.split(), 1):
            _describe(described, number, *field.split(":"))
    return file


def _describe(message: DescriptorProto, number: int, name: str, kind: str) -> None:
    field = message.field.add(name=name, number=number)
    repeated, chosen = kind.startswith("*"), kind.startswith("?")
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    if kind in _KINDS:
        field.type = _KINDS[kind]
    else:
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = kind.lstrip("*?")
    if chosen:
        if not message.oneof_decl:
            message.oneof_decl.add(name="kind")
        field.oneof_index = 0


def _classes() -> dict[str, Any]:
    """Return the class of each message, in a pool of their own: no other package can clash."""
    pool = DescriptorPool()
    pool.AddSerializedFile(STRUCT.serialized_pb)
    pool.AddSerializedFile(_described().SerializeToString())
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"plugin.{name}")) for name in _FIELDS}


_MESSAGES = _classes()
