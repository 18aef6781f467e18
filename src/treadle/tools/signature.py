"""A typed function as a tool: its name, its description, and the JSON Schema of its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Union, Unpack, get_args, get_origin

from treadle.errors import InvalidTool
from treadle.tools.annotations import ABSENT, Field, Names, defined_function, split_annotated
from treadle.tools.arguments import ArgumentsInvalid, parse_arguments
from treadle.tools.decoder import ArgumentDecoder, TypeDecoder
from treadle.tools.docstring_text import Description, read_docstring
from treadle.tools.records import record_of

__all__ = [
    "ArgumentDecoder",
    "ArgumentsInvalid",
    "Signature",
    "TypeDecoder",
    "inspect_function",
    "parse_arguments",
    "takes_context",
]
