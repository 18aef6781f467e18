"""The exact tokenizer of a model, where the user has one on this machine."""

from __future__ import annotations

import os
import tempfile
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from treadle.models.tokens import Count

_O200K = (
    "fb374d419588a4632f3f557e76b4b70aebbca790",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
)
_CL100K = (
    "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
)
FILES = {"o200k_base": _O200K, "o200k_harmony": _O200K, "cl100k_base": _CL100K}
"""What tiktoken calls the file of an encoding in its folder, and the SHA-256 of what is in it."""
_found: dict[str, Count] = {}


def tokenizer_for(model: str) -> Count | None:
    """Return what counts the tokens of a text exactly as this model does, None if nothing here can.

    That is tiktoken (`pip install "treadle[tokens]"`) for the models of OpenAI that it knows, and
    only when the encoding lies in its folder already (`TIKTOKEN_CACHE_DIR`): nothing is ever
    downloaded. Loading an encoding takes up to a second, once in a process.

    Example:
        >>> tokenizer_for("a-model-that-nobody-knows") is None
        True
    """
    tiktoken = _tiktoken()
    if tiktoken is None:
        return None
    try:
        encoding = str(tiktoken.encoding_name_for_model(model.lower().rpartition("/")[2]))
    except KeyError:
        return None
    if encoding not in _found:
        if not _on_disk(encoding):  # tiktoken would fetch it
            return None
        encode = tiktoken.get_encoding(encoding).encode_ordinary
        _found[encoding] = lambda text: len(encode(text))
    return _found[encoding]


def _tiktoken() -> Any:
    try:
        return import_module("tiktoken")
    except ImportError:
        return None


def _on_disk(encoding: str) -> bool:
    """Whether tiktoken will find the file of an encoding, and find it whole."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    if not folder or encoding not in FILES:  # an empty name turns the folder off
        return False
    name, digest = FILES[encoding]
    try:
        return sha256((Path(folder) / name).read_bytes()).hexdigest() == digest
    except OSError:
        return False
