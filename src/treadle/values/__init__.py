"""Values: their lossless plain form for stores, their JSON text for models, and clean text."""

from __future__ import annotations

from treadle.values.declared import register, register_annotation
from treadle.values.json_kinds import is_array, is_object
from treadle.values.jsontext import json_text
from treadle.values.packing import pack
from treadle.values.plain import Plain
from treadle.values.text import clean
from treadle.values.unpacking import unpack

__all__ = [
    "Plain",
    "clean",
    "is_array",
    "is_object",
    "json_text",
    "pack",
    "register",
    "register_annotation",
    "unpack",
]
