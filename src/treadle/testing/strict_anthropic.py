"""What Anthropic's Messages API would refuse with a 400, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from treadle.values import is_array, is_object

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ID = re.compile(r"[A-Za-z0-9_-]+")
_USER = frozenset(
    {"text", "image", "document", "search_result", "tool_result", "container_upload"}
    | {"tool_addition", "tool_removal", "compaction", "browser_state"}
)
_SERVER = frozenset({"server_tool_use", "mcp_tool_use", "mcp_tool_listing", "container_upload"})
_ASSISTANT = frozenset(
    {"text", "thinking", "redacted_thinking", "tool_use", "compaction", "fallback"}
)
_SYSTEM = frozenset({"text", "tool_addition", "tool_removal"})
_RESULT = frozenset({"text", "image", "document", "search_result", "tool_reference"})
_FIELDS: dict[str, frozenset[str]] = {
    "text": frozenset({"text"}),
    "thinking": frozenset({"thinking", "signature"}),
    "redacted_thinking": frozenset({"data"}),
    "tool_use": frozenset({"id", "name", "input"}),
    "tool_result": frozenset({"tool_use_id"}),
    "image": frozenset({"source"}),
    "document": frozenset({"source"}),
}
_PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_SOURCES: dict[str, dict[str, frozenset[str]]] = {
    "image": {
        "base64": frozenset({"data", "media_type"}),
        "url": frozenset({"url"}),
        "file": frozenset({"file_id"}),
    },
    "document": {
        "base64": frozenset({"data", "media_type"}),
        "text": frozenset({"data", "media_type"}),
        "url": frozenset({"url"}),
        "file": frozenset({"file_id"}),
        "content": frozenset({"content"}),
    },
}
_CHOICES = frozenset({"auto", "any", "tool", "none"})
MOST_MARKS = 4


def anthropic_problems(request: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a decoded request."""
    messages = request.get("messages")
    if not is_array(messages) or not messages:
        return ["messages: a list with at least one message is wanted"]
    problems = _head_problems(request)
    for place, message in enumerate(messages):
        problems += _message_problems(message, f"messages[{place}]")
    turns = _turns(messages)
    if turns and turns[0][0] != "user":
        problems.append("messages: the first one is the user's")
    return [
        *problems,
        *_pairing_problems(turns),
        *_tool_problems(request),
        *_thinking_problems(request, turns),
        *_mark_problems(request),
    ]


def _head_problems(request: Mapping[str, Any]) -> list[str]:
    problems: list[str] = []
    if not isinstance(request.get("model"), str) or not request["model"]:
        problems.append("model: a name is wanted")
    most = request.get("max_tokens")
    if not isinstance(most, int) or isinstance(most, bool) or most < 0:
        problems.append(f"max_tokens: a number is wanted, not {most!r}")
    system = request.get("system")
    for place, block in enumerate(system if is_array(system) else ()):
        if not is_object(block) or block.get("type") != "text":
            problems.append(f"system[{place}]: a block of text is wanted")
        else:
            problems += _block_problems(block, frozenset({"text"}), f"system[{place}]")
    for name, most_allowed in (("temperature", 1), ("top_p", 1)):
        value = request.get(name)
        if value is not None and not (
            isinstance(value, int | float) and 0 <= value <= most_allowed
        ):
            problems.append(f"{name}: {value!r} is not between 0 and {most_allowed}")
    for text in request.get("stop_sequences") or ():
        if not isinstance(text, str) or not text.strip():
            problems.append(f"stop_sequences: {text!r} is nothing but white space")
    return problems


def _message_problems(message: Any, place: str) -> list[str]:
    if not is_object(message):
        return [f"{place}: an object is wanted"]
    role, content = message.get("role"), message.get("content")
    allowed = {"user": _USER, "assistant": _ASSISTANT, "system": _SYSTEM}.get(str(role))
    if allowed is None:
        return [f"{place}: no role {role!r}"]
    if role == "system" and content is None and message.get("output_config") is not None:
        return []
    if isinstance(content, str):
        return [] if content.strip() else [f"{place}: content is empty"]
    if not is_array(content) or not content:
        return [f"{place}: content is a text or a list of blocks, not {content!r}"]
    problems: list[str] = []
    for number, block in enumerate(content):
        problems += _block_problems(block, allowed, f"{place}.content[{number}]", role=str(role))
    return problems


def _block_problems(
    block: Any, allowed: frozenset[str], place: str, *, role: str = "user"
) -> list[str]:
    kind = block.get("type") if is_object(block) else None
    if not is_object(block) or not isinstance(kind, str):
        return [f"{place}: an object with a type is wanted"]
    hosted = kind in _SERVER or (kind.endswith("_tool_result") and kind != "tool_result")
    if kind not in allowed and not (role == "assistant" and hosted):
        return [f"{place}: {role} has no block of type {kind!r}"]
    missing = _FIELDS.get(kind, frozenset()) - block.keys()
    if missing:
        return [f"{place}: {', '.join(sorted(missing))} is missing"]
    checker = _OF_BLOCKS.get(kind)
    return checker(block, place) if checker else []


def _text_problems(block: Mapping[str, Any], place: str) -> list[str]:
    text = block["text"]
    said = isinstance(text, str) and text.strip()
    return [] if said else [f"{place}: text is empty"]


def _thought_problems(block: Mapping[str, Any], place: str) -> list[str]:
    signature = block["signature"]
    proved = isinstance(signature, str) and signature
    return [] if proved else [f"{place}: a thought without its signature"]


def _use_problems(block: Mapping[str, Any], place: str) -> list[str]:
    problems: list[str] = []
    if not _ID.fullmatch(str(block["id"])):
        problems.append(f"{place}: id {block['id']!r} is not {_ID.pattern}")
    if not _NAME.fullmatch(str(block["name"])):
        problems.append(f"{place}: name {block['name']!r} is not {_NAME.pattern}")
    if not is_object(block["input"]):
        problems.append(f"{place}: input {block['input']!r} is no JSON object")
    return problems


def _result_problems(block: Mapping[str, Any], place: str) -> list[str]:
    if not _ID.fullmatch(str(block["tool_use_id"])):
        return [f"{place}: tool_use_id {block['tool_use_id']!r} is not {_ID.pattern}"]
    content = block.get("content")
    if block.get("is_error") and not content:
        return [f"{place}: an error says what went wrong"]
    if not is_array(content):
        return []
    problems: list[str] = []
    for number, inner in enumerate(content):
        where = f"{place}.content[{number}]"
        problems += _block_problems(inner, _RESULT, where)
        if block.get("is_error") and is_object(inner) and inner.get("type") != "text":
            problems.append(f"{where}: an error holds nothing but text")
    return problems


def _source_problems(block: Mapping[str, Any], place: str) -> list[str]:
    kind, source = block["type"], block["source"]
    form = source.get("type") if is_object(source) else None
    wanted = _SOURCES[kind].get(str(form))
    if not is_object(source) or wanted is None:
        return [f"{place}: no source of type {form!r} for {kind}"]
    if not wanted <= source.keys():
        return [f"{place}: {', '.join(sorted(wanted - source.keys()))} is missing in its source"]
    media_type = source.get("media_type")
    known = _PICTURES if kind == "image" else {"application/pdf"}
    if form == "base64" and media_type not in known:
        return [f"{place}: no {kind} is {media_type!r}"]
    if form == "url" and not str(source["url"]).startswith(("http://", "https://")):
        return [f"{place}: {str(source['url'])[:60]!r} cannot be fetched"]
    return []


_OF_BLOCKS: dict[str, Callable[[Mapping[str, Any], str], list[str]]] = {
    "text": _text_problems,
    "thinking": _thought_problems,
    "tool_use": _use_problems,
    "tool_result": _result_problems,
    "image": _source_problems,
    "document": _source_problems,
}


def _turns(messages: list[Any]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Return what each side says in turn: what follows each other from one side is one turn."""
    turns: list[tuple[str, list[Mapping[str, Any]]]] = []
    for message in messages:
        if not is_object(message) or message.get("role") not in ("user", "assistant"):
            continue
        content = message.get("content")
        items: list[Any] = content if is_array(content) else []
        blocks: list[Mapping[str, Any]] = [block for block in items if is_object(block)]
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message["role"], blocks))
    return turns


def _pairing_problems(turns: list[tuple[str, list[Mapping[str, Any]]]]) -> list[str]:
    """Return what is wrong between calls and results: these come first in the turn right after."""
    problems: list[str] = []
    open_ids: list[Any] = []
    for number, (role, blocks) in enumerate(turns):
        if role == "assistant":
            problems += [f"turn {number}: call {one!r} has no result before it" for one in open_ids]
            open_ids = [b.get("id") for b in blocks if b.get("type") == "tool_use"]
            twice = {one for one in open_ids if open_ids.count(one) > 1}
            problems += [f"turn {number}: two calls with ID {one!r}" for one in twice]
            continue
        kinds = [b.get("type") for b in blocks]
        given = [b.get("tool_use_id") for b in blocks if b.get("type") == "tool_result"]
        if "tool_result" in kinds[len(given) :]:
            problems.append(f"turn {number}: results come before everything else in it")
        problems += [
            f"turn {number}: no open call has the ID {x!r}" for x in given if x not in open_ids
        ]
        problems += [
            f"turn {number}: call {x!r} has no result in it" for x in open_ids if x not in given
        ]
        problems += [
            f"turn {number}: two results for {x!r}" for x in set(given) if given.count(x) > 1
        ]
        open_ids = []
    return problems


def _tool_problems(request: Mapping[str, Any]) -> list[str]:
    problems: list[str] = []
    tools, names = request.get("tools"), list[str]()
    for place, tool in enumerate(tools if is_array(tools) else ()):
        problems += _offer_problems(tool, f"tools[{place}]")
        if is_object(tool) and isinstance(tool.get("name"), str):
            names.append(tool["name"])
    problems += [f"tools: two are called {n!r}" for n in set(names) if names.count(n) > 1]
    choice = request.get("tool_choice")
    if choice is None:
        return problems
    kind = choice.get("type") if is_object(choice) else None
    if not tools:
        problems.append("tool_choice: only allowed when tools are")
    if not is_object(choice) or kind not in _CHOICES:
        problems.append(f"tool_choice: no type {kind!r}")
    elif kind == "tool" and choice.get("name") not in names:
        problems.append(f"tool_choice: no tool {choice.get('name')!r}")
    return problems


def _offer_problems(tool: Any, where: str) -> list[str]:
    if not is_object(tool):
        return [f"{where}: an object is wanted"]
    if tool.get("type") not in (None, "custom"):
        return []  # one of the server's own
    problems: list[str] = []
    if not _NAME.fullmatch(str(tool.get("name", ""))):
        problems.append(f"{where}: name {tool.get('name')!r} is not {_NAME.pattern}")
    schema = tool.get("input_schema")
    if not is_object(schema) or schema.get("type") != "object":
        problems.append(f"{where}: input_schema is no object schema")
    elif schema.keys() & {"anyOf", "oneOf", "allOf"}:
        problems.append(f"{where}: input_schema has alternatives at its top")
    return problems


def _thinking_problems(
    request: Mapping[str, Any], turns: list[tuple[str, list[Mapping[str, Any]]]]
) -> list[str]:
    thinking = request.get("thinking")
    kind = thinking.get("type") if is_object(thinking) else None
    if not is_object(thinking) or kind not in ("enabled", "adaptive"):
        return []
    problems: list[str] = []
    if request.get("temperature") not in (None, 1):
        problems.append("temperature: may only be 1 while the model thinks")
    if kind == "adaptive":
        return problems
    budget, most = thinking.get("budget_tokens"), request.get("max_tokens")
    if not isinstance(budget, int) or budget < 1024:
        problems.append(f"thinking: budget_tokens {budget!r} is less than 1024")
    elif isinstance(most, int) and budget >= most:
        problems.append(f"thinking: budget_tokens {budget} is not less than max_tokens {most}")
    choice = request.get("tool_choice")
    if is_object(choice) and choice.get("type") in ("any", "tool"):
        problems.append("tool_choice: no tool can be forced while the model thinks")
    if turns and turns[-1][0] == "assistant" and turns[-1][1]:
        last = turns[-1][1][-1].get("type")
        if last == "text":
            problems.append("messages: nothing can be begun for a model that thinks")
    return problems


def _mark_problems(request: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the cache marks, in the order in which they count."""
    parts = (request.get("tools"), request.get("system"), request.get("messages"))
    marks = [mark for part in parts for mark in _marks(part)]
    if request.get("cache_control") is not None:
        marks.append(request["cache_control"])
    problems: list[str] = []
    if len(marks) > MOST_MARKS:
        problems.append(f"cache_control: {len(marks)} marks, at most {MOST_MARKS} are allowed")
    short = False
    for mark in marks:
        if not is_object(mark) or mark.get("type") != "ephemeral":
            problems.append(f"cache_control: no mark {mark!r}")
        elif mark.get("ttl") == "1h" and short:
            problems.append("cache_control: a mark of an hour comes after one of five minutes")
        else:
            short = short or mark.get("ttl") != "1h"
    return problems


def _marks(value: Any) -> list[Any]:
    """Return the marks on blocks and tools; what is in a tool's input is none."""
    if is_array(value):
        return [mark for each in value for mark in _marks(each)]
    if not is_object(value):
        return []
    own = [value["cache_control"]] if value.get("cache_control") is not None else []
    return [*_marks(value.get("content")), *own]
