"""The room's public names, and what loading one of them needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from treadle import plugins


def test_the_public_names_are_these() -> None:
    """Each is there, and no other is."""
    for name in plugins.__all__:
        assert callable(getattr(plugins, name))
    with pytest.raises(AttributeError, match="no attribute 'load_nothing'"):
        getattr(plugins, "load_nothing")  # noqa: B009 pyright knows that it is not there


@pytest.mark.e2e
@pytest.mark.parametrize("missing", ["grpc", "google.protobuf"])
def test_only_plugin_servers_need_more(missing: str) -> None:
    """Without gRPC all else works, and the error of `connect_grpc` says what to install."""
    program = (
        f"import sys\nsys.modules[{missing!r}] = None\n"
        "from treadle import MissingExtra\n"
        "from treadle.plugins import load_entry_points, load_folder, load_library\n"
        "try:\n    from treadle.plugins import connect_grpc\n"
        "except MissingExtra as error:\n    print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "need grpcio and protobuf; in a clone: pip install '.[grpc]'" in ended.stdout
