"""Calls that are not of functions, and the results that each kind of them wants."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.errors import InvalidInput
from treadle.messages import Image, ToolResult
from treadle.providers._json import decode, encode
from treadle.providers.openai.chat_wire import Wire
from treadle.values import clean, is_array, is_object

Calls = Mapping[str, Wire]
"""Items of calls by our call IDs."""

_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "custom_tool_call": ("input",),
    "computer_call": ("action", "actions", "pending_safety_checks"),
    "local_shell_call": ("action",),
    "shell_call": ("action",),
    "apply_patch_call": ("operation",),
    "tool_search_call": ("arguments",),
}
"""The kinds of calls that we have to answer, and their fields that a tool of ours is given."""


def is_ours(item: Wire, answered: set[str]) -> bool:
    """Whether a call is for a tool of ours. The server runs some, whose results then follow."""
    call_id = item.get("call_id")
    kind = item.get("type")
    if not isinstance(kind, str) or kind not in _ARGUMENTS:
        return False
    if not isinstance(call_id, str) or not call_id:
        return False
    return item.get("execution") != "server" and call_id not in answered


def name_of(item: Wire) -> str:
    """Return the name of the tool that a call is for: its own, or that of its kind."""
    name = item.get("name")
    return name if isinstance(name, str) and name else str(item["type"]).removesuffix("_call")


def arguments_of(item: Wire) -> str:
    """Return the arguments of a call as JSON.

    A lone field that is an object stands for its content; safety checks of a computer's call are
    acknowledged by a tool that returns.
    """
    fields = {name: item[name] for name in _ARGUMENTS[item["type"]] if item.get(name)}
    lone = next(iter(fields.values())) if len(fields) == 1 else None
    return encode(lone if is_object(lone) else fields).decode()


def result_item(
    result: ToolResult, call: Wire | None, call_id: str, output: str | list[Wire]
) -> Wire:
    """Return the item that answers a call.

    Raises:
        InvalidInput: the call wants something that the result does not have.
    """
    kind = str(call["type"]) if call else "function_call"
    match kind:
        case "computer_call":
            return _screenshot(result, call or {}, call_id)
        case "local_shell_call":
            return {"type": f"{kind}_output", "id": call_id, "output": result.text}
        case "shell_call":
            outcome = {"type": "exit", "exit_code": int(result.is_error)}
            said = {"stdout": result.text, "stderr": "", "outcome": outcome}
            return {"type": f"{kind}_output", "call_id": call_id, "output": [said]}
        case "apply_patch_call":
            status = "failed" if result.is_error else "completed"
            said = {"status": status, "output": result.text}
            return {"type": f"{kind}_output", "call_id": call_id, **said}
        case "tool_search_call":
            found = {"execution": "client", "status": "completed", "tools": _tools(result.text)}
            return {"type": "tool_search_output", "call_id": call_id, **found}
        case _:
            return {"type": f"{kind}_output", "call_id": call_id, "output": output}


def _screenshot(result: ToolResult, call: Wire, call_id: str) -> Wire:
    image = next((part for part in result.parts if isinstance(part, Image)), None)
    if image is None:
        raise InvalidInput(
            f"The result of {result.name!r} has no image: a computer's call is answered by one, "
            "the screenshot after the action. Return an Image from the tool."
        )
    item: Wire = {
        "type": "computer_call_output",
        "call_id": call_id,
        "output": {"type": "computer_screenshot", "image_url": image.data_url},
    }
    checks = call.get("pending_safety_checks")
    return {**item, "acknowledged_safety_checks": checks} if checks else item


def _tools(text: str) -> list[Wire]:
    try:
        found: object = decode(clean(text).encode())
    except ValueError:
        return []
    return found if is_array(found) else []
