"""Check a request as a strict provider would, and say what it would refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from treadle.errors import ConfigError
from treadle.testing.strict_anthropic import anthropic_problems
from treadle.testing.strict_gemini import gemini3_problems, gemini_problems
from treadle.testing.strict_openai_responses import responses_problems
from treadle.testing.strict_schema import schema_problems
from treadle.values import is_array, is_object

Kind = Literal["openai", "template", "anthropic", "gemini", "gemini3", "openai_responses"]
Checker = Callable[[Mapping[str, Any] | bytes | str], list[str]]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CONTENT = {
    "system": {"text"},
    "developer": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}


def strict(kind: Kind) -> Checker:
    """Return a checker of requests: a body in, its problems in words out.

    "openai" holds a Chat Completions request to what OpenAI refuses with a 400: every call answered
    once, right after its message, by a tool message of its ID; arguments that are JSON objects;
    names, content and options that fit. "template" also wants what the chat templates of vLLM and
    llama.cpp want: one system message, first, then user and assistant in turn. "anthropic" holds a
    Messages request to what Anthropic refuses, "openai_responses" a Responses request to what
    OpenAI does.

    Raises:
        ConfigError: there is no checker of that kind.
    """
    if kind not in _CHECKERS:
        raise ConfigError(f"No request checker {kind!r}; there are {', '.join(_CHECKERS)}.")
    return _CHECKERS[kind]


def assert_strict(body: Mapping[str, Any] | bytes | str, kind: Kind = "openai") -> None:
    """Raise an AssertionError that lists what a strict provider would refuse in this request."""
    problems = strict(kind)(body)
    if problems:
        raise AssertionError(f"strict({kind!r}) refuses the request:\n- " + "\n- ".join(problems))


def _openai(body: Mapping[str, Any] | bytes | str) -> list[str]:
    request, problems = _decoded(body)
    if request is None:
        return problems
    messages = request.get("messages")
    if not is_array(messages) or not messages:
        return [*problems, "messages: a list with at least one message is wanted"]
    if not isinstance(request.get("model"), str) or not request["model"]:
        problems.append("model: a name is wanted")
    for place, message in enumerate(messages):
        problems += _message_problems(message, f"messages[{place}]")
    return [*problems, *_pairing_problems(messages), *_option_problems(request)]


def _template(body: Mapping[str, Any] | bytes | str) -> list[str]:
    problems = _openai(body)
    request, _ = _decoded(body)
    if request is None or not is_array(request.get("messages")):
        return problems
    last = ""
    for place, message in enumerate(request["messages"]):
        role = message.get("role") if is_object(message) else None
        if role in ("system", "developer"):
            if place:
                problems.append(f"messages[{place}]: only the first message may be the system's")
        elif role == "user":
            if last == "user":
                problems.append(f"messages[{place}]: two user messages in a row")
            last = "user"
        elif role == "assistant":
            if last in ("", "assistant"):
                problems.append(f"messages[{place}]: it is the user's turn, not the assistant's")
            last = "assistant"
        else:  # after its results the assistant goes on, or the user does
            last = "tool"
    return problems


def _message_problems(message: Any, place: str) -> list[str]:
    if not is_object(message):
        return [f"{place}: an object is wanted"]
    role, content = message.get("role"), message.get("content")
    if role not in _CONTENT:
        return [f"{place}: no role {role!r}"]
    problems = _content_problems(content, role, place)
    if role == "assistant":
        problems += _call_problems(message, place)
        if not content and not message.keys() & {"tool_calls", "function_call", "audio", "refusal"}:
            problems.append(f"{place}: an assistant message with neither content nor calls")
    elif content is None:
        problems.append(f"{place}: content is null")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        problems.append(f"{place}: tool_call_id is missing")
    return problems


def _content_problems(content: Any, role: str, place: str) -> list[str]:
    if content is None or isinstance(content, str):
        return []
    if not is_array(content) or not content:
        return [f"{place}: content is a text or a list of blocks, not {content!r}"]
    problems: list[str] = []
    for number, block in enumerate(content):
        where = f"{place}.content[{number}]"
        kind = block.get("type") if is_object(block) else None
        if kind not in _CONTENT[role]:
            problems.append(f"{where}: a {role} message has no block of type {kind!r}")
        elif kind not in block:
            problems.append(f"{where}: {kind!r} is missing")
    return problems


def _call_problems(message: Mapping[str, Any], place: str) -> list[str]:
    calls = message.get("tool_calls")
    if calls is None:
        return []
    if not is_array(calls) or not calls:
        return [f"{place}: tool_calls is an empty list"]
    problems: list[str] = []
    for number, call in enumerate(calls):
        where = f"{place}.tool_calls[{number}]"
        if not is_object(call) or not isinstance(call.get("id"), str) or not call["id"]:
            problems.append(f"{where}: id is missing")
        elif len(call["id"]) > 40:
            problems.append(f"{where}: id has {len(call['id'])} characters, at most 40 are allowed")
        elif call.get("type") == "custom":
            continue
        elif call.get("type") != "function" or not is_object(call.get("function")):
            problems.append(f"{where}: type and function are wanted")
        else:
            problems += _function_problems(call["function"], where)
    ids = [call.get("id") for call in calls if is_object(call)]
    problems += [f"{place}: two calls with ID {one!r}" for one in set(ids) if ids.count(one) > 1]
    return problems


def _function_problems(function: Mapping[str, Any], where: str) -> list[str]:
    problems: list[str] = []
    if not _NAME.fullmatch(str(function.get("name", ""))):
        problems.append(f"{where}: name {function.get('name')!r} is not {_NAME.pattern}")
    arguments = function.get("arguments")
    try:
        decoded = json.loads(arguments, parse_constant=_refuse) if arguments else None
    except (ValueError, TypeError):
        decoded = None
    if not is_object(decoded):
        problems.append(f"{where}: arguments {arguments!r} are not a JSON object as text")
    return problems


def _pairing_problems(messages: list[Any]) -> list[str]:
    """Return what is wrong between calls and results."""
    problems: list[str] = []
    open_ids: list[str] = []
    for place, message in enumerate(messages):
        if not is_object(message):
            continue
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if call_id in open_ids:
                open_ids.remove(call_id)
            else:
                problems.append(f"messages[{place}]: no open call has the ID {call_id!r}")
            continue
        problems += [f"messages[{place}]: call {one!r} has no result before it" for one in open_ids]
        calls = message.get("tool_calls")
        open_ids = [call["id"] for call in calls if "id" in call] if is_array(calls) else []
    return [*problems, *(f"call {one!r} has no result" for one in open_ids)]


def _option_problems(request: Mapping[str, Any]) -> list[str]:
    problems: list[str] = []
    tools = request.get("tools")
    if tools is None:
        problems += [
            f"{name}: only allowed when tools are"
            for name in ("tool_choice", "parallel_tool_calls")
            if request.get(name) is not None
        ]
    elif not is_array(tools) or not tools:
        problems.append("tools: an empty list")
    else:
        problems += _tool_problems(tools)
    if request.get("stream_options") is not None and not request.get("stream"):
        problems.append("stream_options: only allowed when stream is true")
    return problems + _format_problems(request.get("response_format"))


def _tool_problems(tools: list[Any]) -> list[str]:
    problems: list[str] = []
    names: list[str] = []
    for place, tool in enumerate(tools):
        function = tool.get("function") if is_object(tool) else None
        if not is_object(function):
            problems.append(f"tools[{place}]: type and function are wanted")
            continue
        name = str(function.get("name", ""))
        names.append(name)
        if not _NAME.fullmatch(name):
            problems.append(f"tools[{place}]: name {name!r} is not {_NAME.pattern}")
        parameters = function.get("parameters", {"type": "object"})
        if not is_object(parameters) or parameters.get("type") != "object":
            problems.append(f"tools[{place}]: parameters are no object schema")
        elif function.get("strict"):
            problems += schema_problems(parameters, f"tools[{place}]")
    return problems + [f"tools: two are called {n!r}" for n in set(names) if names.count(n) > 1]


def _format_problems(wanted: Any) -> list[str]:
    schema = wanted.get("json_schema") if is_object(wanted) else None
    if not is_object(schema):
        return []
    if not _NAME.fullmatch(str(schema.get("name", ""))):
        return [f"response_format: name {schema.get('name')!r} is not {_NAME.pattern}"]
    return schema_problems(schema.get("schema"), "response_format") if schema.get("strict") else []


def _decoded(body: Mapping[str, Any] | bytes | str) -> tuple[Mapping[str, Any] | None, list[str]]:
    if isinstance(body, Mapping):
        return body, []
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        text.encode("utf-8")
        decoded = json.loads(text, parse_constant=_refuse)
        json.dumps(decoded, ensure_ascii=False).encode("utf-8")  # lone surrogates come as escapes
    except ValueError as error:
        return None, [f"the body is not valid JSON in UTF-8: {error}"]
    return (decoded, []) if is_object(decoded) else (None, ["the body is no JSON object"])


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _checker(problems: Callable[[Mapping[str, Any]], list[str]]) -> Checker:
    """Return a checker of bodies that have yet to be decoded."""

    def check(body: Mapping[str, Any] | bytes | str) -> list[str]:
        request, unreadable = _decoded(body)
        return unreadable if request is None else problems(request)

    return check


_CHECKERS: dict[str, Checker] = {
    "openai": _openai,
    "template": _template,
    "anthropic": _checker(anthropic_problems),
    "gemini": _checker(gemini_problems),
    "gemini3": _checker(gemini3_problems),
    "openai_responses": _checker(responses_problems),
}
