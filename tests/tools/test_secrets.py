"""Which arguments are secret, by the tools' schemas."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from treadle import tool
from treadle.tools.secrets import secret_names


class Login(BaseModel):
    """Somebody."""

    name: str
    password: SecretStr


def test_typed_functions() -> None:
    """Pydantic's types, marks of one's own, and models that hold one."""

    @tool
    def sign_in(
        user: str,
        password: SecretStr,
        pin: Annotated[str, Field(json_schema_extra={"writeOnly": True})],
        others: list[Login],
        last: SecretStr | None = None,
    ) -> str:
        """Sign in."""
        return user

    assert secret_names(sign_in.parameters) == ("password", "pin", "others", "last")


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({}, ()),
        ({"properties": []}, ()),
        ({"properties": {"a": {"type": "string"}, "b": True, "c": {"format": "password"}}}, ("c",)),
        ({"properties": {"a": {"additionalProperties": {"writeOnly": True}}}}, ("a",)),
        ({"properties": {"a": {"prefixItems": [{}, {"writeOnly": True}]}}}, ("a",)),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/B"}},
                "$defs": {
                    "A": {"properties": {"next": {"$ref": "#/$defs/A"}, "k": {"writeOnly": True}}},
                    "B": {"properties": {"next": {"$ref": "#/$defs/B"}}},
                },
            },
            ("a",),
        ),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/A~1B"}, "b": {"$ref": "#/properties/a"}},
                "$defs": {"A/B": {"format": "password"}},
            },
            ("a", "b"),
        ),
        ({"properties": {"a": {"$ref": "#/nowhere/at/all"}, "b": {"$ref": "https://h/x"}}}, ()),
    ],
)
def test_schemas(schema: dict[str, Any], found: tuple[str, ...]) -> None:
    """Those of any tool, also of servers of the Model Context Protocol."""
    assert secret_names(schema) == found


def test_a_schema_that_branches_into_itself_is_read_in_time() -> None:
    """What refers to itself many times is looked at once each."""
    many = {f"p{place}": {"$ref": "#/$defs/A"} for place in range(20)}
    schema = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"properties": many}}}

    assert secret_names(schema) == ()
