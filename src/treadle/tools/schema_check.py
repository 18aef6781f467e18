"""Arguments held against a JSON Schema, for tools whose schema is only known at run time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

from treadle.tools.arguments import (
    Path,
    Problem,
    arguments_invalid,
    decode_repairing,
    show,
    show_type,
)
from treadle.tools.names import likely
from treadle.tools.schema import JsonSchema, find_ref
from treadle.tools.schema_bounds import BOUNDS, Bound, is_number, is_string
from treadle.values import is_array, is_object

Check = Callable[[Any, Path, list[Problem]], None]
"""Adds what is wrong with a value, which stands at a path, to the problems."""


class SchemaDecoder:
    """Checks a call's arguments against a JSON Schema; they come back as they are.

    Types are taken strictly: "5" is no integer, true is no number, 5.0 is an integer. `format`,
    references out of the schema, patterns that are not Python's, and unknown keywords refuse
    nothing. A string where an object or array belongs is decoded first.
    """

    __slots__ = ("_check", "schema")

    def __init__(self, schema: JsonSchema) -> None:
        self.schema = schema
        self._check: Check | None = None

    def decode(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments.

        Raises:
            ArgumentsInvalid: with every problem that was found.
        """
        values, problems = self._attempt(arguments)
        if problems:
            values, problems = decode_repairing(arguments, self._attempt)
        if problems:
            raise arguments_invalid(problems, self.schema)
        return values

    def _attempt(self, arguments: Any) -> tuple[Any, list[Problem]]:
        if self._check is None:
            self._check = Compiler(self.schema).check_of(self.schema)
        problems: list[Problem] = []
        try:
            self._check(arguments, (), problems)
        except RecursionError:
            problems = [Problem((), "nested too deeply")]
        return arguments, problems


class Compiler:
    """Makes checks of schemas; `root` is where references lead."""

    def __init__(self, root: JsonSchema) -> None:
        self._root = root
        self._referred: dict[str, Check] = {}

    def check_of(self, schema: Any) -> Check:
        """Return the check of one schema; of a value of the wrong type nothing else is said."""
        if not is_object(schema):
            return _refuse if schema is False else _accept
        makers = dict.fromkeys(make for keyword, make in _KEYWORDS.items() if keyword in schema)
        checks = [make(schema, self) for make in makers]
        asked = [(make, schema[keyword]) for keyword, make in BOUNDS.items() if keyword in schema]
        bounds = [make(argument, schema) for make, argument in asked]
        checks += [_within(bound) for bound in bounds if bound is not None]
        return _of_type(schema, _all_of([check for check in checks if check is not _accept]))

    def referred(self, ref: object) -> Check:
        """Return the check of what a reference leads to, made once even where it leads back."""
        if not isinstance(ref, str):
            return _accept
        if ref not in self._referred:
            self._referred[ref] = _accept
            try:
                self._referred[ref] = self.check_of(find_ref(self._root, ref))
            except LookupError:
                return _accept

        def check(value: Any, path: Path, problems: list[Problem]) -> None:
            self._referred[ref](value, path, problems)

        return check


def _accept(value: Any, path: Path, problems: list[Problem]) -> None: ...


def _refuse(value: Any, path: Path, problems: list[Problem]) -> None:
    problems.append(Problem(path, "nothing is allowed here", show(value)))


def _all_of(checks: list[Check]) -> Check:
    if not checks:
        return _accept
    if len(checks) == 1:
        return checks[0]

    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        for each in checks:
            each(value, path, problems)

    return check


def _within(bound: Bound) -> Check:
    applies, holds, text = bound.applies, bound.holds, bound.text

    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        if applies(value) and not holds(value):
            problems.append(Problem(path, text, show(value)))

    return check


def _is_integer(value: object) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer()
    )


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": is_string,
    "integer": _is_integer,
    "number": is_number,
    "boolean": lambda value: isinstance(value, bool),
    "array": is_array,
    "object": is_object,
    "null": lambda value: isinstance(value, NoneType),
}


_EXACT: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (NoneType,),
}
"""The types that values usually have: recognising one is quicker than a test."""


def _of_type(schema: JsonSchema, rest: Check) -> Check:
    """Return a check of the type and, only where that is right, of the rest."""
    kind = schema.get("type")
    names: list[Any] = kind if is_array(kind) else [kind]
    tests = [_TYPES[name] for name in names if name in _TYPES]
    if len(tests) < len(names):
        return rest
    text = f"expected {' | '.join(names)}"
    wants_json = "string" not in names and ("object" in names or "array" in names)
    exact = frozenset(kind for name in names for kind in _EXACT[name])

    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        if type(value) in exact or any(test(value) for test in tests):
            if rest is not _accept:
                rest(value, path, problems)
        else:
            problems.append(Problem(path, text, show(value), wants_json and isinstance(value, str)))

    return check


def _ref(schema: JsonSchema, compiler: Compiler) -> Check:
    return compiler.referred(schema["$ref"])


def _required(schema: JsonSchema, _: Compiler) -> Check:
    return _needing([name for name in schema["required"] or () if isinstance(name, str)])


def _needing(names: list[str]) -> Check:
    needed = frozenset(names)

    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        if is_object(value) and not needed <= value.keys():
            missing = [name for name in names if name not in value]
            problems.extend(Problem((*path, name), "required, but missing") for name in missing)

    return check if names else _accept


def _dependent_required(schema: JsonSchema, _: Compiler) -> Check:
    needs = schema["dependentRequired"]
    rules = {name: _needing(need) for name, need in needs.items()} if is_object(needs) else {}

    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        for name, needing in rules.items():
            if is_object(value) and name in value:
                needing(value, path, problems)

    return check if rules else _accept


def _members(schema: JsonSchema, compiler: Compiler) -> Check:
    """Check the members of an object: those declared, those by pattern, and all others."""
    declared = _checks_by_name(schema.get("properties"), compiler)
    by_pattern = _checks_by_pattern(schema.get("patternProperties"), compiler)
    others = schema.get("additionalProperties", True)
    check_other = _unknown_member(declared) if others is False else compiler.check_of(others)

    def checks_for(name: str) -> list[Check]:
        found = [declared[name]] if name in declared else []
        found += [check for pattern, check in by_pattern if pattern.search(name)]
        return found or [check_other]

    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        if not is_object(value):
            return
        for name, member in value.items():
            known = None if by_pattern else declared.get(name)
            if known is not None:
                known(member, (*path, name), problems)
            else:
                for each in checks_for(name):
                    each(member, (*path, name), problems)

    return check


def _checks_by_name(schemas: Any, compiler: Compiler) -> dict[str, Check]:
    named = schemas if is_object(schemas) else {}
    return {name: compiler.check_of(child) for name, child in named.items()}


def _checks_by_pattern(schemas: Any, compiler: Compiler) -> list[tuple[re.Pattern[str], Check]]:
    found: list[tuple[re.Pattern[str], Check]] = []
    for pattern, check in _checks_by_name(schemas, compiler).items():
        try:
            found.append((re.compile(pattern), check))
        except re.error:
            found.append((re.compile(""), _accept))  # may be any name, so it opens the object
    return found


def _unknown_member(declared: Mapping[str, Check]) -> Check:
    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        meant = likely(str(path[-1]), declared)
        hint = f", did you mean {meant!r}?" if meant else ""
        problems.append(Problem(path, f"unknown parameter{hint}", show(value)))

    return check


def _property_names(schema: JsonSchema, compiler: Compiler) -> Check:
    check_name = compiler.check_of(schema["propertyNames"])

    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        for name in value if is_object(value) else ():
            check_name(name, (*path, name), problems)

    return check


def _items(schema: JsonSchema, compiler: Compiler) -> Check:
    """Check an array: the first items each by its own schema, all further ones by one."""
    listed, rest = schema.get("prefixItems", []), schema.get("items", True)
    if is_array(rest):  # as drafts before 2020-12 write it
        listed, rest = rest, schema.get("additionalItems", True)
    first = [compiler.check_of(child) for child in listed] if is_array(listed) else []
    check_rest = compiler.check_of(rest)

    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        if not is_array(value):
            return
        for index, item in enumerate(value):
            check_item = first[index] if index < len(first) else check_rest
            check_item(item, (*path, index), problems)

    return check


def _contains(schema: JsonSchema, compiler: Compiler) -> Check:
    check_item = compiler.check_of(schema["contains"])
    least = schema.get("minContains", 1)

    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        if is_array(value) and sum(_passes(check_item, item) for item in value) < least:
            expected = f"expected {least} or more items like {show_type(schema['contains'])}"
            problems.append(Problem(path, expected, show(value)))

    return check


def _every(schema: JsonSchema, compiler: Compiler) -> Check:
    return _all_of([compiler.check_of(child) for child in schema["allOf"] or ()])


def _any(schema: JsonSchema, compiler: Compiler) -> Check:
    return _alternatives(schema["anyOf"] or [], compiler)


def _one(schema: JsonSchema, compiler: Compiler) -> Check:
    branches = [compiler.check_of(child) for child in schema["oneOf"] or ()]
    check_any = _alternatives(schema["oneOf"] or [], compiler)

    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        count = sum(_passes(branch, value) for branch in branches)
        if count > 1:
            expected = f"fits {count} of the alternatives {show_type(schema)}, but must fit one"
            problems.append(Problem(path, expected, show(value)))
        elif count == 0:
            check_any(value, path, problems)

    return check if branches else _accept


def _alternatives(schemas: list[Any], compiler: Compiler) -> Check:
    """Check that one of the schemas fits; if none does, tell about the one that nearly did."""
    branches = [compiler.check_of(child) for child in schemas]
    expected = f"expected {show_type({'anyOf': schemas})}"

    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        findings: list[list[Problem]] = []
        for branch in branches:
            found: list[Problem] = []
            branch(value, path, found)
            if not found:
                return
            findings.append(found)
        near = [found for found in findings if all(problem.path != path for problem in found)]
        if len(near) == 1:
            problems.extend(near[0])
            return
        here = [problem for found in findings for problem in found if problem.path == path]
        wants_json = any(problem.wants_json for problem in here)
        problems.append(Problem(path, expected, show(value), wants_json))
        problems.extend(problem for found in near for problem in found if problem.wants_json)

    return check if branches else _accept


def _not(schema: JsonSchema, compiler: Compiler) -> Check:
    unwanted = compiler.check_of(schema["not"])

    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        if _passes(unwanted, value):
            problems.append(Problem(path, f"must not be {show_type(schema['not'])}", show(value)))

    return check


def _condition(schema: JsonSchema, compiler: Compiler) -> Check:
    condition = compiler.check_of(schema["if"])
    then, otherwise = (compiler.check_of(schema.get(key, True)) for key in ("then", "else"))

    def check(value: Any, path: Path, problems: list[Problem]) -> None:
        (then if _passes(condition, value) else otherwise)(value, path, problems)

    return check


def _passes(check: Check, value: Any) -> bool:
    problems: list[Problem] = []
    check(value, (), problems)
    return not problems


_KEYWORDS: Mapping[str, Callable[[JsonSchema, Compiler], Check]] = {
    "$ref": _ref,
    "required": _required,
    "dependentRequired": _dependent_required,
    "properties": _members,
    "patternProperties": _members,
    "additionalProperties": _members,
    "propertyNames": _property_names,
    "items": _items,
    "prefixItems": _items,
    "contains": _contains,
    "allOf": _every,
    "anyOf": _any,
    "oneOf": _one,
    "not": _not,
    "if": _condition,
}
"""How to check what a keyword asks for; where several belong together, any of them will do."""
