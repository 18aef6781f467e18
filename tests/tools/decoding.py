"""What tests of decoded arguments share: a tool of one argument `x`."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.tools.annotations import Field
from treadle.tools.decoder import ArgumentDecoder
from treadle.tools.signature import ArgumentsInvalid


def decoder_of(kind: Any) -> ArgumentDecoder:
    """Return a decoder of one argument `x`."""
    return ArgumentDecoder([Field("x", kind)])


def decoded(kind: Any, value: Any) -> Any:
    """Return what one argument of a type becomes."""
    return decoder_of(kind).decode({"x": value})["x"]


def message_of(kind: Any, value: Any) -> str:
    """Return what a model is told about a wrong value."""
    with pytest.raises(ArgumentsInvalid) as caught:
        decoded(kind, value)
    return str(caught.value)
