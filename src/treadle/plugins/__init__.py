"""Tools that others bring: entry points, folders, plugin servers and native libraries."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.plugins.address import TLS
    from treadle.plugins.entry_points import load_entry_points
    from treadle.plugins.folder import load_folder
    from treadle.plugins.grpc import GrpcPlugins, connect_grpc
    from treadle.plugins.library import load_library

__all__ = [
    "TLS",
    "GrpcPlugins",
    "connect_grpc",
    "load_entry_points",
    "load_folder",
    "load_library",
]

_HOMES = {
    "TLS": "address",
    "GrpcPlugins": "grpc",
    "connect_grpc": "grpc",
    "load_entry_points": "entry_points",
    "load_folder": "folder",
    "load_library": "library",
}


def __getattr__(name: str) -> Any:
    """Load a kind of plugin when it is first used."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'treadle.plugins' has no attribute {name!r}")
    return getattr(import_module(f"treadle.plugins.{home}"), name)
