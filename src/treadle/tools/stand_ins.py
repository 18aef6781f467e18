"""Classes that pydantic does not know, made known to it.

Each gets a stand-in class that tells pydantic its fields and makes the real object of their values,
so that one validation covers everything and reports every problem. A dataclass, typed dict or
named tuple which holds such a class gets one too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from pydantic import Discriminator, GetCoreSchemaHandler, GetJsonSchemaHandler, Tag
from pydantic import Field as PydanticField
from pydantic_core import CoreSchema, core_schema

from treadle.tools.annotations import ABSENT, Field, description_in, split_annotated
from treadle.tools.records import Record, class_of, hints_of, is_record, is_unknown, record_of
from treadle.values import is_object


class Translator:
    """Rewrites annotations so that pydantic understands them; `names` are those in scope."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = dict(names)
        self._stand_ins: dict[Any, type] = {}
        self._open: set[Any] = set()

    def forget_names(self) -> None:
        """Let go of what was in scope, once pydantic has asked for everything: it may be large."""
        self._names.clear()

    def translate(self, annotation: Any) -> Any:
        """Return the annotation with stand-ins for the classes that pydantic does not know."""
        kind, metadata = split_annotated(annotation)
        if metadata:
            translated = self.translate(kind)
            return Annotated[(translated, *map(translate_metadata, metadata))]
        if self._needs_stand_in(kind):
            return self._stand_in(kind)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType):
            return self._union([each for each in arguments if each is not msgspec.UnsetType])
        if origin is None or origin is Literal:
            supertype = getattr(kind, "__supertype__", None)  # a NewType
            return kind if supertype is None else self.translate(supertype)
        translated = tuple(map(self.translate, arguments))
        return kind if translated == arguments else origin[translated]

    def _union(self, members: list[Any]) -> Any:
        """Return a union; Structs in it are told apart by their tags, as msgspec does."""
        tagged = {tag: member for member in members if (tag := _tag_of(member)) is not None}
        keys = {member.__struct_config__.tag_field for member in tagged.values()}
        others = [self.translate(each) for each in members if each not in tagged.values()]
        if len(tagged) < 2 or len(keys) > 1:
            return Union[tuple(map(self.translate, members))]  # noqa: UP007 known at run time only
        chosen = [Annotated[self.translate(each), Tag(tag)] for tag, each in tagged.items()]
        by_tag = Annotated[Union[tuple(chosen)], _discriminator(keys.pop(), tagged)]  # noqa: UP007 likewise
        return Union[(by_tag, *others)]

    def _needs_stand_in(self, kind: Any) -> bool:
        return is_record(kind) and (is_unknown(kind) or self._holds_unknown(kind, set()))

    def _holds_unknown(self, annotation: Any, seen: set[Any]) -> bool:
        kind, _ = split_annotated(annotation)
        if is_unknown(kind):
            return True
        inside = list(get_args(kind)) if get_origin(kind) is not Literal else []
        if is_record(kind) and class_of(kind) not in seen:
            seen.add(class_of(kind))
            inside += self._known_hints(kind)
        return any(self._holds_unknown(each, seen) for each in inside)

    def _known_hints(self, kind: Any) -> list[Any]:
        try:
            return list(hints_of(kind, self._names).values())
        except NameError:  # pydantic will say which
            return []

    def _stand_in(self, kind: Any) -> type:
        if kind not in self._stand_ins:
            cls: type[Any] = class_of(kind) or object
            describe = partial(_describe, _own_docstring(cls))
            members = {
                "__get_pydantic_core_schema__": staticmethod(partial(self._core_schema, kind)),
                "__get_pydantic_json_schema__": staticmethod(describe),
            }
            self._stand_ins[kind] = type(cls.__name__, (), members)
        return self._stand_ins[kind]

    def _core_schema(self, kind: Any, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return how to validate a class; `source` is its stand-in, the same for every use."""
        cls = class_of(kind)
        ref = f"{source.__module__}.{source.__name__}:{id(source)}"
        if cls is None or kind in self._open:
            return core_schema.definition_reference_schema(ref)
        self._open.add(kind)
        try:
            record = record_of(kind, self._names)
            schema = self._inner_schema(record, handler, ref if record.make is None else None)
        finally:
            self._open.discard(kind)
        if record.make is None:
            return schema
        return core_schema.no_info_wrap_validator_function(_maker(record, cls), schema, ref=ref)

    def _inner_schema(
        self, record: Record, handler: GetCoreSchemaHandler, ref: str | None
    ) -> CoreSchema:
        tag = [] if record.tag is None else [core_schema.literal_schema([record.tag[1]])]
        if record.as_array:
            items = [self._value_schema(field, handler) for field in record.fields]
            return core_schema.tuple_schema([*tag, *items])
        fields = {
            field.name: core_schema.typed_dict_field(
                self._value_schema(field, handler),
                required=field.required,
                validation_alias=record.keys.get(field.name),
            )
            for field in record.fields
        }
        if record.tag is not None:
            fields = {record.tag[0]: core_schema.typed_dict_field(tag[0]), **fields}
        extra = "forbid" if record.forbids_unknown else "ignore"
        return core_schema.typed_dict_schema(fields, extra_behavior=extra, ref=ref)

    def _value_schema(self, field: Field, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler.generate_schema(self.translate(field.annotation))
        if field.default is ABSENT:
            return schema
        return core_schema.with_default_schema(schema, default=field.default)


def _tag_of(annotation: Any) -> str | None:
    cls = class_of(annotation)
    tag = cls.__struct_config__.tag if cls is not None and issubclass(cls, msgspec.Struct) else None
    return tag if isinstance(tag, str) else None


def _discriminator(key: str, tagged: Mapping[str, Any]) -> Discriminator:
    def tag_of(value: Any) -> str | None:
        found = value.get(key) if is_object(value) else _tag_of(type(value))
        return found if isinstance(found, str) else None

    expected = f"Input should be an object with {key!r} one of {', '.join(map(repr, tagged))}"
    return Discriminator(tag_of, custom_error_type=NO_SUCH_TAG, custom_error_message=expected)


NO_SUCH_TAG = "no_such_tag"
"""pydantic's name for the error of a value that is no member of a tagged union."""


def translate_metadata(metadata: Any) -> Any:
    """Return a piece of `Annotated` metadata as pydantic understands it."""
    if isinstance(metadata, msgspec.Meta):
        return _translated_meta(metadata)
    description = description_in(metadata)
    return PydanticField(description=description) if description else metadata


def _translated_meta(meta: msgspec.Meta) -> Any:
    bounds = {name: getattr(meta, name) for name in _BOUNDS}
    given = {name: value for name, value in bounds.items() if value is not None}
    return PydanticField(**given, json_schema_extra=meta.extra_json_schema)


_BOUNDS = (
    *("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length"),
    *("description", "examples"),
)
"""What msgspec's `Meta` and pydantic's `Field` call by the same name."""


def _maker(record: Record, cls: type) -> Callable[[Any, Callable[[Any], Any]], Any]:
    """Return the validator that makes an object; what the class itself refuses is a finding too."""
    make, by_position = record.make or cls, record.as_array
    tag_key = record.tag[0] if record.tag is not None else None

    def validate(value: Any, inner: Callable[[Any], Any]) -> Any:
        if isinstance(value, cls):
            return value
        values = inner(value)
        try:
            if by_position:
                return make(*(values if tag_key is None else values[1:]))
            values.pop(tag_key, None)
            return make(**values)
        except TypeError as error:
            raise ValueError(str(error)) from error

    validate.__name__ = cls.__name__
    return validate


def _own_docstring(cls: type) -> str:
    """Return the class's docstring, "" for one it inherited or a dataclass wrote itself."""
    docstring = vars(cls).get("__doc__") or ""
    return "" if docstring.startswith(f"{cls.__name__}(") else docstring.strip()


def _describe(
    description: str, schema: CoreSchema, handler: GetJsonSchemaHandler
) -> dict[str, Any]:
    shown = handler(schema)
    if description:
        handler.resolve_ref_schema(shown).setdefault("description", description)
    return shown
