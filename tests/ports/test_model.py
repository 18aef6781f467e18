"""Settings of a model: what they take, and what is refused in words before any call."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from treadle import ModelSettings
from treadle.errors import ConfigError


def settings(**given: Any) -> ModelSettings:
    """Settings with these values, whatever they are."""
    return ModelSettings(**given)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("temperature", "hot", "a number from 0 up"),
        ("temperature", -0.1, "a number from 0 up"),
        ("temperature", float("nan"), "a number from 0 up"),
        ("temperature", float("inf"), "a number from 0 up"),
        ("temperature", True, "a number from 0 up"),
        ("top_p", 1.5, "a number from 0 to 1"),
        ("max_output_tokens", -1, "an int of at least 1"),
        ("max_output_tokens", 0, "an int of at least 1"),
        ("max_output_tokens", 2.0, "an int of at least 1"),
        ("stop", "", "none of them empty"),
        ("stop", 3, "a tuple of texts"),
        ("stop", ["a", 3], "a tuple of texts"),
        ("seed", "1", "an int"),
        ("seed", 2**70, "an int"),
        ("frequency_penalty", "0", "a number"),
        ("presence_penalty", [], "a number"),
        ("tool_choice", "", "the name of a tool"),
        ("tool_choice", {"type": "auto"}, "the name of a tool"),
        ("parallel_tool_calls", 1, "True or False"),
        ("reasoning_effort", "hard", "one of 'none', 'minimal', 'low'"),
        ("reasoning_effort", [], "one of 'none', 'minimal', 'low'"),
        ("timeout", 0, "seconds above 0"),
        ("timeout", "9", "seconds above 0"),
        ("extra_body", {"a": object()}, "JSON values"),
        ("extra_body", {1: 2}, "its keys texts"),
        ("extra_body", [("a", 1)], "a dict"),
        ("extra_headers", {"X-A": 1}, "a mapping of texts to texts"),
        ("extra_headers", "X-A: 1", "a mapping of texts to texts"),
    ],
)
def test_a_setting_that_cannot_be_sent(name: str, value: object, wanted: str) -> None:
    """The error names the field, the value, and what to give."""
    with pytest.raises(ConfigError) as caught:
        settings(**{name: value})

    assert f"ModelSettings({name}={value!r}): give " in str(caught.value) or name == "stop"
    assert f"ModelSettings({name}=" in str(caught.value)
    assert wanted in str(caught.value)
    with pytest.raises(ConfigError, match=name):
        replace(ModelSettings(), **{name: value})


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": 0, "top_p": 1, "max_output_tokens": 1, "seed": -1},
        {"frequency_penalty": -2, "presence_penalty": 2.0, "timeout": 0.01},
        {"tool_choice": "look", "parallel_tool_calls": False, "reasoning_effort": "none"},
        {"extra_body": {"a": [None, {"b": 1.5}], "c": "\ud800"}, "extra_headers": {"X-A": "b"}},
        {"stop": ("a", "b")},
        {"stop": ()},
    ],
)
def test_settings_that_can_be_sent(given: dict[str, Any]) -> None:
    """They are kept as they are."""
    made = settings(**given)

    assert {name: getattr(made, name) for name in given} == given


@pytest.mark.parametrize(
    ("given", "kept"), [("END", ("END",)), (["a", "b"], ("a", "b")), ([], ()), (("a",), ("a",))]
)
def test_stop_may_be_one_text_or_a_list(given: object, kept: tuple[str, ...]) -> None:
    """One text is one sequence to stop at, not its letters."""
    assert settings(stop=given).stop == kept
