"""Which plugin servers are connected to, and how they are known."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.plugins.conftest import run_calls
from tests.plugins.wire import Plugin
from treadle import ConfigError, PluginFailed
from treadle.plugins import TLS, connect_grpc

Serve = Callable[..., str]


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("", "no address"),
        (7, "no address"),
        ("http://127.0.0.1:1", "no address|URL"),
        ("plugins", "no port"),
        (":50051", "no port"),
        ("127.0.0.1:", "no port"),
        ("127.0.0.1:99999", "no port"),
        ("192.0.2.1:50051", "not this machine"),
        ("localhost.example:50051", "not this machine"),
        ("127.0.0.1.example:50051", "not this machine"),
        ("dns:///plugins.example:50051", "not this machine"),
    ],
)
def test_wrong_addresses(address: Any, problem: str) -> None:
    """Each is refused before anything is connected; plain text leaves this machine for no one."""
    with pytest.raises(ConfigError, match=problem):
        connect_grpc([address])


@pytest.mark.parametrize(
    "address",
    ["localhost:1", "127.8.9.1:1", "[::1]:1", "ipv4:127.0.0.1:1", "ipv6:[::1]:1", "unix:/run/x"],
)
def test_this_machine(address: str) -> None:
    """Addresses of this machine need no TLS."""
    assert repr(connect_grpc(address)) == f"GrpcPlugins({address!r})"


def test_wrong_options() -> None:
    """Each is refused with what to do."""
    with pytest.raises(ConfigError, match="listed twice"):
        connect_grpc(["127.0.0.1:1", "127.0.0.1:1"])
    with pytest.raises(ConfigError, match="pass a list"):
        connect_grpc("127.0.0.1:1", send_metadata="user_id")
    with pytest.raises(ConfigError, match="connect_timeout=0 "):
        connect_grpc("127.0.0.1:1", connect_timeout=0)
    with pytest.raises(ConfigError, match="max_bytes=-1 "):
        connect_grpc("127.0.0.1:1", max_bytes=-1)
    with pytest.raises(ConfigError, match="timeout=0 "):
        connect_grpc("127.0.0.1:1", timeout=0)
    for name in ("", "x token", "x-bin", ":path", "größe"):
        with pytest.raises(ConfigError, match="no name of a header"):
            connect_grpc("127.0.0.1:1", headers={name: "x"})
    with pytest.raises(ConfigError, match="The value of the header 'x-token'") as raised:
        connect_grpc("127.0.0.1:1", headers={"x-token": "hush\nhush"})
    assert "hush" not in str(raised.value)
    assert connect_grpc("192.0.2.1:1", insecure=True)
    assert connect_grpc("192.0.2.1:1", tls=TLS())


@pytest.fixture
def pems(tmp_path: Path) -> Path:
    """Make an authority, and certificates of a server and a client, with openssl."""
    names = {"server": "subjectAltName=DNS:plugins.example", "client": "subjectAltName=DNS:me"}
    commands = [
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"
    ]
    for name, alternative in names.items():
        (tmp_path / f"{name}.ext").write_text(alternative)
        commands.append(
            f"req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN=x"
        )
        signing = f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2"
        commands.append(f"{signing} -extfile {name}.ext -out {name}.pem")
    for command in commands:
        subprocess.run(["openssl", *command.split()], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@pytest.mark.e2e
async def test_tls(serve: Serve, pems: Path) -> None:
    """Both sides show certificates; without the right ones nothing is loaded."""
    key, chain, roots = (
        (pems / name).read_bytes() for name in ("server.key", "server.pem", "ca.pem")
    )
    credentials = grpc.ssl_server_credentials([(key, chain)], roots, require_client_auth=True)
    address = serve(Plugin(), 0, credentials)
    mine = {"certificate": pems / "client.pem", "key": str(pems / "client.key")}

    tls = TLS(roots=roots, server_name="plugins.example", **mine)
    async with connect_grpc(address, tls=tls) as plugins:
        result = await run_calls(plugins.tools, ("echo", {}))
        assert not result.tool_results[0].is_error

    for wrong in (
        None,
        TLS(roots=roots, server_name="plugins.example"),
        TLS(roots=roots, server_name="other.example", **mine),
        TLS(server_name="plugins.example", **mine),
    ):
        with pytest.raises(PluginFailed, match=r"UNAVAILABLE|DEADLINE"):
            async with connect_grpc(address, tls=wrong, connect_timeout=5):
                pytest.fail("nothing may be loaded")


async def test_wrong_certificates(tmp_path: Path) -> None:
    """Files that are missing or no PEM are told before anything is connected."""
    with pytest.raises(ConfigError, match="both the client's certificate and its key"):
        TLS(certificate=b"x")
    with pytest.raises(ConfigError, match=r"cannot read '.*gone\.pem': No such file"):
        async with connect_grpc("127.0.0.1:1", tls=TLS(roots=tmp_path / "gone.pem")):
            pytest.fail("nothing may be loaded")
    with pytest.raises(ConfigError, match="PEM"):
        async with connect_grpc("127.0.0.1:1", tls=TLS(roots=b"\x30\x82")):
            pytest.fail("nothing may be loaded")
    assert "hush" not in repr(TLS(certificate=b"x", key=b"hush"))
