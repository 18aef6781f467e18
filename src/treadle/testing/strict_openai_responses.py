"""What OpenAI's Responses API would refuse with a 400, in words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from treadle.testing.strict_schema import schema_problems
from treadle.values import is_array, is_object

Json = Mapping[str, Any]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LONGEST_ID = 64
_INPUT = frozenset({"input_text", "input_image", "input_file"})
_BLOCKS = {
    "user": _INPUT,
    "system": _INPUT,
    "developer": _INPUT,
    "assistant": frozenset({"output_text", "refusal"}),
}
_WANTED: dict[str, tuple[str, ...]] = {
    "input_text": ("text",),
    "output_text": ("text",),
    "refusal": ("refusal",),
    "input_image": ("image_url", "file_id"),
    "input_file": ("file_data", "file_url", "file_id"),
}
"""Of each block one field of these."""
_ANSWERS = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
    "computer_call_output": "computer_call",
    "shell_call_output": "shell_call",
    "apply_patch_call_output": "apply_patch_call",
    "tool_search_output": "tool_search_call",
}
"""What answers what."""
_STEPS = frozenset(
    {"reasoning", "file_search_call", "web_search_call", "image_generation_call"}
    | {"code_interpreter_call", "local_shell_call", "local_shell_call_output", "mcp_list_tools"}
    | {"mcp_approval_request", "mcp_approval_response", "mcp_call", "compaction"}
    | {"compaction_trigger", "item_reference", "additional_tools", "configuration_update"}
    | {"program", "program_output"}
)
_OPTIONS = frozenset(
    {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "stream"}
    | {"stream_options", "temperature", "top_p", "top_logprobs", "max_output_tokens", "store"}
    | {"max_tool_calls", "metadata", "reasoning", "text", "include", "truncation", "prompt"}
    | {"previous_response_id", "conversation", "background", "background_options", "moderation"}
    | {"context_management", "prompt_cache_key", "prompt_cache_options", "service_tier"}
    | {"prompt_cache_retention", "safety_identifier", "user", "image", "access_programs"}
)


def responses_problems(request: Json) -> list[str]:
    """Return what is wrong with a decoded request."""
    items = request.get("input")
    known = any(request.get(name) for name in ("previous_response_id", "conversation", "prompt"))
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not is_array(items) or not (items or known):
        return ["input: a text or a list with at least one item is wanted"]
    problems = _head_problems(request)
    for place, item in enumerate(items):
        problems += _item_problems(item, f"input[{place}]")
    objects = [item for item in items if is_object(item)]
    if not known:  # what the server has kept may hold the other half
        problems += _pairing_problems(objects)
    return [
        *problems,
        *_repeated(objects),
        *_reasoning_problems(objects),
        *_tool_problems(request),
        *_format_problems(request),
    ]


def _head_problems(request: Json) -> list[str]:
    problems = [f"{name}: no such field" for name in request if name not in _OPTIONS]
    if not isinstance(request.get("model"), str) or not request["model"]:
        problems.append("model: a name is wanted")
    for name, least, most in (
        ("temperature", 0, 2),
        ("top_p", 0, 1),
        ("max_output_tokens", 16, 2**31),
    ):
        value = request.get(name)
        if value is not None and not (isinstance(value, int | float) and least <= value <= most):
            problems.append(f"{name}: {value!r} is not from {least} to {most}")
    if len(str(request.get("prompt_cache_key") or "")) > _LONGEST_ID:
        problems.append(f"prompt_cache_key: at most {_LONGEST_ID} characters are allowed")
    if request.get("previous_response_id") and request.get("conversation"):
        problems.append("previous_response_id and conversation: only one of them is allowed")
    return problems


def _item_problems(item: Any, place: str) -> list[str]:
    if not is_object(item):
        return [f"{place}: an object is wanted"]
    kind = item.get("type", "message")
    if kind == "message":
        return _message_problems(item, place)
    if kind in _ANSWERS:
        return [*_id_problems(item, place), *_output_problems(item, place)]
    if kind in _ANSWERS.values():
        problems = _id_problems(item, place)
        return [*problems, *_call_problems(item, place)] if kind == "function_call" else problems
    if kind not in _STEPS:
        return [f"{place}: no item of type {kind!r}"]
    if kind == "reasoning" and not is_array(item.get("summary")):
        return [f"{place}: summary is missing"]
    return []


def _message_problems(item: Json, place: str) -> list[str]:
    role, content = item.get("role"), item.get("content")
    if role not in _BLOCKS:
        return [f"{place}: no role {role!r}"]
    return _content_problems(content, _BLOCKS[role], f"{place}.content")


def _content_problems(content: Any, allowed: frozenset[str], place: str) -> list[str]:
    if isinstance(content, str):
        return []
    if not is_array(content):
        return [f"{place}: a text or a list of blocks is wanted, not {content!r}"]
    problems: list[str] = []
    for number, block in enumerate(content):
        kind = block.get("type") if is_object(block) else None
        if not is_object(block) or kind not in allowed:
            problems.append(f"{place}[{number}]: no block of type {kind!r} is allowed here")
        elif not any(isinstance(block.get(name), str) for name in _WANTED[str(kind)]):
            names = " or ".join(_WANTED[str(kind)])
            problems.append(f"{place}[{number}]: {names} is missing")
        elif block.get("file_data") and not block.get("filename"):
            problems.append(f"{place}[{number}]: filename is missing")
    return problems


def _id_problems(item: Json, place: str) -> list[str]:
    call_id = item.get("call_id")
    if call_id is None and item.get("execution") == "server":
        return []
    if not isinstance(call_id, str) or not call_id:
        return [f"{place}: call_id is missing"]
    if len(call_id) > _LONGEST_ID:
        most = f"at most {_LONGEST_ID} are allowed"
        return [f"{place}: call_id has {len(call_id)} characters, {most}"]
    return []


def _call_problems(item: Json, place: str) -> list[str]:
    problems: list[str] = []
    if not _NAME.fullmatch(str(item.get("name", ""))):
        problems.append(f"{place}: name {item.get('name')!r} is not {_NAME.pattern}")
    arguments = item.get("arguments")
    try:
        decoded = json.loads(arguments) if isinstance(arguments, str) else None
    except ValueError:
        decoded = None
    if not is_object(decoded):
        problems.append(f"{place}: arguments {arguments!r} are not a JSON object as text")
    return problems


def _output_problems(item: Json, place: str) -> list[str]:
    output = item.get("output")
    if item["type"] in ("function_call_output", "custom_tool_call_output"):
        return _content_problems(output, _INPUT, f"{place}.output")
    if item["type"] == "computer_call_output":
        shown = is_object(output) and (output.get("image_url") or output.get("file_id"))
        return [] if shown else [f"{place}: output is no screenshot"]
    return []


def _pairing_problems(items: list[Any]) -> list[str]:
    """Return what is wrong between calls and results."""
    problems: list[str] = []
    opened: dict[tuple[str, str], bool] = {}  # whether it is answered
    for place, item in enumerate(items):
        kind, call_id = item.get("type"), item.get("call_id")
        if not isinstance(call_id, str) or item.get("execution") == "server":
            continue
        if kind in _ANSWERS:
            key = (_ANSWERS[kind], call_id)
            if key not in opened:
                problems.append(f"input[{place}]: no {key[0]} has the ID {call_id!r}")
            elif opened[key]:
                problems.append(f"input[{place}]: the {key[0]} {call_id!r} is answered twice")
            opened[key] = True
        elif kind in _ANSWERS.values():
            if (kind, call_id) in opened:
                problems.append(f"input[{place}]: two calls with ID {call_id!r}")
            opened[kind, call_id] = False
    open_keys = [key for key, answered in opened.items() if not answered]
    return [*problems, *(f"{kind} {call_id!r} has no output" for kind, call_id in open_keys)]


def _repeated(items: list[Any]) -> list[str]:
    ids = [item["id"] for item in items if isinstance(item.get("id"), str)]
    return [f"input: two items with ID {one!r}" for one in dict.fromkeys(ids) if ids.count(one) > 1]


def _reasoning_problems(items: list[Any]) -> list[str]:
    """Return the reasoning that what the model said or did next is missing from."""
    problems: list[str] = []
    for place, item in enumerate(items):
        if item.get("type") != "reasoning" or not item.get("id"):
            continue
        after: Json = items[place + 1] if place + 1 < len(items) else {}
        from_user = after.get("role") in ("user", "system") or after.get("type") in _ANSWERS
        if not after or from_user:
            problems.append(f"input[{place}]: reasoning without the item that it led to")
    return problems


def _tool_problems(request: Json) -> list[str]:
    tools, choice = request.get("tools"), request.get("tool_choice")
    if not tools and (choice == "required" or is_object(choice)):
        return ["tool_choice: only allowed when tools are"]
    if tools is None:
        return []
    if not is_array(tools):
        return ["tools: a list is wanted"]
    problems: list[str] = []
    names: list[str] = []
    for place, tool in enumerate(tools):
        where = f"tools[{place}]"
        if not is_object(tool) or not isinstance(tool.get("type"), str):
            problems.append(f"{where}: type is wanted")
        elif tool["type"] == "function":
            names.append(str(tool.get("name", "")))
            problems += _function_problems(tool, where)
    return problems + [f"tools: two are called {n!r}" for n in set(names) if names.count(n) > 1]


def _function_problems(tool: Json, where: str) -> list[str]:
    problems: list[str] = []
    if "function" in tool:
        problems.append(f"{where}: its fields stand in the tool itself, not in 'function'")
    if not _NAME.fullmatch(str(tool.get("name", ""))):
        problems.append(f"{where}: name {tool.get('name')!r} is not {_NAME.pattern}")
    parameters = tool.get("parameters")
    if parameters is not None and (
        not is_object(parameters) or parameters.get("type", "object") != "object"
    ):
        problems.append(f"{where}: parameters are no object schema")
    elif tool.get("strict") and parameters:
        problems += schema_problems(parameters, where)
    return problems


def _format_problems(request: Json) -> list[str]:
    text = request.get("text")
    wanted = text.get("format") if is_object(text) else None
    if not is_object(wanted) or wanted.get("type") != "json_schema":
        return []
    if not _NAME.fullmatch(str(wanted.get("name", ""))):
        return [f"text.format: name {wanted.get('name')!r} is not {_NAME.pattern}"]
    if not is_object(wanted.get("schema")):
        return ["text.format: schema is missing"]
    return schema_problems(wanted["schema"], "text.format") if wanted.get("strict") else []
