"""The exact tokenizer: used where it is, never fetched."""

from __future__ import annotations

import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from treadle.models import tokenizer
from treadle.models.tokenizer import tokenizer_for

NAMES = {"gpt-4o": "o200k_base", "gpt-4": "cl100k_base", "davinci": "r50k_base"}


def refused(encoding: str) -> NoReturn:
    """What loads an encoding would fetch it."""
    raise AssertionError(f"{encoding} would be fetched")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of that name, which knows some models and has no encoding."""
    package = SimpleNamespace(
        encoding_name_for_model=NAMES.__getitem__, get_encoding=refused, __name__="tiktoken"
    )
    monkeypatch.setitem(sys.modules, "tiktoken", package)


def test_without_the_package_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate is used then."""
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert tokenizer_for("gpt-4o") is None


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("model", ["gpt-4o", "openai/GPT-4o", "gpt-4", "davinci", "claude-x", ""])
def test_nothing_is_fetched(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder, an empty one, one with a broken file, and the folder turned off."""
    for folder in (tmp_path / "none", tmp_path, ""):
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        assert tokenizer_for(model) is None
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    for name, _ in tokenizer.FILES.values():
        (tmp_path / name).write_bytes(b"cut off")
    assert tokenizer_for(model) is None
    assert len(list(tmp_path.iterdir())) == 2  # tiktoken would have removed what is broken


@pytest.mark.skipif(
    find_spec("tiktoken") is None or "TIKTOKEN_CACHE_DIR" not in os.environ,
    reason="needs tiktoken, and the folder with its encodings in TIKTOKEN_CACHE_DIR",
)
def test_texts_are_counted_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Special marks count as the text that they are; no connection is made."""
    monkeypatch.setattr(socket, "socket", refused)
    count = tokenizer_for("openai/gpt-4o")
    assert count is not None
    assert count is tokenizer_for("gpt-5-mini")
    assert [count("hello world"), count("<|endoftext|>"), count("")] == [2, 7, 0]
    assert count("\ud800\0") > 0
