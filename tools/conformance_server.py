"""A server with what the scenarios of the MCP conformance suite call, made of our own parts.

`python -m tools.conformance_server` listens on a free port of 127.0.0.1 and prints its address.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from treadle import AskApproval, Audio, File, Image, RunContext, Text, Tool, ToolError, tool
from treadle.mcp import MCPServer

PIXEL = Image.from_base64(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==",
    "image/png",
)
SILENCE = Audio.from_bytes(
    b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\0\0\0",
    "audio/wav",
)


@tool
def test_simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> Any:
    """Give a picture."""
    return PIXEL


@tool
def test_audio_content() -> Any:
    """Give a sound."""
    return SILENCE


@tool
def test_embedded_resource() -> Any:
    """Give what is at an address."""
    return File.from_bytes(
        b"This is an embedded resource content.", "text/plain", name="test://embedded-resource"
    )


@tool
def test_multiple_content_types() -> Any:
    """Give a text, a picture and what is at an address."""
    return [
        "Multiple content types test:",
        PIXEL,
        File.from_bytes(
            b'{"test":"data","value":123}', "application/json", name="test://mixed-content-resource"
        ),
    ]


@tool
def test_error_handling() -> str:
    """Fail on purpose."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
async def test_tool_with_progress(ctx: RunContext) -> str:
    """Tell how far it is."""
    for amount in (0, 50, 100):
        ctx.report({"progress": amount, "total": 100})
        await asyncio.sleep(0.05)
    return "Done."


def asked(ctx: RunContext, reason: str, fields: dict[str, Any], required: list[str]) -> str:
    """Ask somebody to fill in a form, and say what they filled in."""
    if ctx.answer is None:
        raise AskApproval(reason, {"type": "object", "properties": fields, "required": required})
    return f"Elicitation completed: action=accept, content={ctx.answer}"


@tool
def test_elicitation(ctx: RunContext, message: str) -> str:
    """Ask for a name and an address."""
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return asked(ctx, message, fields, ["username", "email"])


@tool
def test_elicitation_sep1034_defaults(ctx: RunContext) -> str:
    """Ask with a default for every kind of value."""
    fields: dict[str, Any] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    return asked(ctx, "Please look at the defaults.", fields, [])


@tool
def test_elicitation_sep1330_enums(ctx: RunContext) -> str:
    """Ask with every kind of choice."""
    options = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{n}", "title": f"{word} Option"}
        for n, word in enumerate(("First", "Second", "Third"), 1)
    ]
    fields: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return asked(ctx, "Please choose.", fields, [])


SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
modern_schema = Tool.from_schema("json_schema_2020_12_tool", "Take an address.", SCHEMA, str)


def test_simple_prompt() -> str:
    """Say something simple."""
    return "This is a simple prompt for testing."


def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Say something with two arguments.

    Args:
        arg1: First test argument.
        arg2: Second test argument.
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


def test_prompt_with_embedded_resource(resourceUri: str) -> Any:  # noqa: N803 the suite's name
    """Say something about what is at an address."""
    text = b"Embedded resource content for testing."
    return [
        File.from_bytes(text, "text/plain", name=resourceUri),
        "Please process the embedded resource above.",
    ]


def test_prompt_with_image() -> Any:
    """Say something about a picture."""
    return [PIXEL, Text("Please analyze the image above.")]


def item(id: str) -> Any:
    """Give the record of an item."""
    text = f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'
    return File.from_bytes(text.encode(), "application/json")


SERVER = MCPServer(
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    test_tool_with_progress,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    modern_schema,
    name="conformance",
    prompts=[
        test_simple_prompt,
        test_prompt_with_arguments,
        test_prompt_with_embedded_resource,
        test_prompt_with_image,
    ],
    resources={
        "test://static-text": "This is the content of the static text resource.",
        "test://static-binary": Image.from_bytes(base64.b64decode(PIXEL.base64), "image/png"),
        "test://template/{id}/data": item,
    },
)

if __name__ == "__main__":
    asyncio.run(SERVER.serve_http(port=0, on_ready=lambda address: print(address, flush=True)))
