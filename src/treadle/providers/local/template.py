"""How tools, calls and their results are put into words for a small model.

What a model was trained on for tools fails below a billion parameters: it leaves out the tags,
calls again after a result, or thanks for it. These words were found by measuring: a call is one
bare JSON object, examples come before the functions and the rule last, and a result arrives in
a user's words that ask for one plain sentence. `benchmarks/local_reliability.py` measures them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from treadle.providers._json import encode
from treadle.values import is_array, is_object

Wire = dict[str, Any]

DEFAULT_SYSTEM = "You are a helpful assistant."

_EXAMPLES = """\
You can use functions. Examples:
User: How heavy is the bicycle?
Assistant: {"name": "get_weight", "arguments": {"item": "bicycle"}}
User: Thank you!
Assistant: You are welcome!
User: I need a taxi to the airport
Assistant: {"name": "book_taxi", "arguments": {"destination": "airport"}}
User: Who invented the telephone?
Assistant: Alexander Graham Bell invented it.

These are your functions now:
"""
_RULE = """\


If one of them fits the question, reply with one JSON object and nothing else:
{"name": <function name>, "arguments": <object with the arguments>}
If none fits, answer in plain words."""
_RULE_WITH_SCHEMA = """\


If one of them fits the question, reply with one JSON object and nothing else:
{"name": <function name>, "arguments": <object with the arguments>}
Otherwise give your answer."""
_ANSWER = "\n\nYour answer is one JSON object that follows this JSON Schema:\n"
_AFTER_RESULT = (
    "Now answer my question in one plain sentence that states this result. "
    "Do not call a function again."
)
_AFTER_RESULT_WITH_SCHEMA = (
    "Now answer my question with the JSON object, from this result. Do not call a function again."
)


def in_words(
    messages: Sequence[Wire], tools: Sequence[Wire], schema: Mapping[str, Any] | None
) -> list[Wire]:
    """Return Chat Completions messages in which tools are only spoken of, in plain text.

    `tools` are offered, `schema` is what the answer must follow. Any model's own chat template
    can render the result: it holds nothing but system, user and assistant texts.
    """
    spoken: list[Wire] = []
    names: dict[str, str] = {}
    rest = list(messages)
    system = ""
    while rest and rest[0].get("role") in ("system", "developer"):
        system += ("\n\n" if system else "") + _text(rest.pop(0))
    system = _system(system, tools, schema)
    if system:
        spoken.append({"role": "system", "content": system})
    after = _AFTER_RESULT if schema is None else _AFTER_RESULT_WITH_SCHEMA
    for place, message in enumerate(rest):
        role, text = message.get("role"), _text(message)
        if role == "tool":
            name = names.get(str(message.get("tool_call_id")), "The function")
            text = f"{name} returned: {text}"
            if place and rest[place - 1].get("role") == "tool":
                text = f"{spoken.pop()['content']}\n{text}"
            if place + 1 == len(rest) or rest[place + 1].get("role") != "tool":
                text = f"{text}\n{after}"
            role = "user"
        elif role == "assistant":
            calls = _calls(message)
            names.update((str(call.get("id")), _function(call)["name"]) for call in calls)
            text = "\n".join([*([text] if text else []), *map(call_text, calls)])
        elif role == "developer":
            role = "system"
        spoken.append({"role": role, "content": text})
    return spoken


def function_of(wire: Wire) -> Wire:
    """Return the function that a tool, a call or a choice names; nothing where there is none."""
    function: object = wire.get("function")
    return function if is_object(function) else {}


def call_start(name: str) -> str:
    """Return how a call of this function begins; its arguments and one brace follow."""
    return f'{{"name": {encode(name).decode()}, "arguments": '


def call_text(call: Wire) -> str:
    """Return a call as the model writes one."""
    function = _function(call)
    return f"{call_start(function['name'])}{function['arguments'] or '{}'}}}"


def _system(system: str, tools: Sequence[Wire], schema: Mapping[str, Any] | None) -> str:
    if tools:
        functions = "\n".join(_described(tool) for tool in tools)
        rule = _RULE if schema is None else _RULE_WITH_SCHEMA
        system = f"{system or DEFAULT_SYSTEM}\n\n{_EXAMPLES}{functions}{rule}"
    if schema is not None:
        system = f"{system or DEFAULT_SYSTEM}{_ANSWER}{_spaced(schema)}"
    return system


def _described(tool: Wire) -> str:
    function, known = function_of(tool), ("name", "description", "parameters")
    return _spaced({key: function[key] for key in known if function.get(key)})


def _spaced(value: object) -> str:
    """Return JSON with blanks after commas and colons, which is what models have read most of."""
    if is_object(value):
        items = (f"{encode(key).decode()}: {_spaced(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if is_array(value):
        return "[" + ", ".join(map(_spaced, value)) + "]"
    return encode(value).decode()


def _text(message: Wire) -> str:
    content: object = message.get("content")
    if not is_array(content):
        return content if isinstance(content, str) else ""
    return "\n".join(_block_texts(content))


def _block_texts(blocks: Iterable[object]) -> Iterable[str]:
    for block in blocks:
        text = block.get("text") if is_object(block) else block
        if isinstance(text, str):
            yield text


def _calls(message: Wire) -> list[Wire]:
    calls: object = message.get("tool_calls")
    return [call for call in calls if is_object(call)] if is_array(calls) else []


def _function(call: Wire) -> dict[str, str]:
    found = function_of(call)
    return {key: str(found.get(key) or "") for key in ("name", "arguments")}
