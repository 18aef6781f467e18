"""Where plugin servers are, and how each side knows the other."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from treadle.errors import ConfigError

HEADER = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TLS:
    """How to know a plugin server, and how it knows us. Each is PEM, as bytes or in a file.

    `roots` are the certificates to trust, None for those of the gRPC package. `certificate` and
    `key` are the client's own. `server_name` is the name in the server's certificate, where it
    is not the one in the address.
    """

    roots: bytes | Path | str | None = None
    certificate: bytes | Path | str | None = None
    key: bytes | Path | str | None = field(default=None, repr=False)
    server_name: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("TLS needs both the client's certificate and its key, or neither.")


def check_address(address: object, *, tls: TLS | None, insecure: bool) -> None:
    """Refuse what is no address, and one to which all would go in plain text.

    Raises:
        ConfigError: says which, and what to write.
    """
    if not isinstance(address, str) or not address.strip() or "://" in address.partition("/")[0]:
        raise ConfigError(f"{address!r} is no address of a plugin server; write host:port.")
    if address.startswith(("unix:", "unix-abstract:")):
        return
    if address.startswith(("http:", "https:", "grpc:", "grpcs:")):
        raise ConfigError(f"{address!r} is a URL; write host:port, and pass tls= for TLS.")
    host, colon, port = address.removeprefix("dns:///").rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"{address!r} has no port; write host:port.")
    if tls is None and not insecure and not _is_here(host):
        raise ConfigError(
            f"{address!r} is not this machine, and all that is sent could be read on the way; "
            "pass tls=TLS(), or insecure=True where the network is trusted."
        )


def _is_here(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    bare = host.removeprefix("ipv4:").removeprefix("ipv6:").strip("[]")
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def checked_headers(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return headers as gRPC takes them.

    Raises:
        ConfigError: a name or a value has characters that it cannot have; no value is told.
    """
    for name, value in headers.items():
        if not HEADER.fullmatch(name) or name.endswith("-bin"):
            raise ConfigError(f"{name!r} is no name of a header that gRPC takes.")
        if not value.isascii() or not value.isprintable():
            raise ConfigError(f"The value of the header {name!r} is not plain ASCII text.")
    return tuple((name.lower(), value) for name, value in headers.items())


def read_pem(source: bytes | Path | str | None) -> bytes | None:
    """Return a certificate or key, from its file where it is in one.

    Raises:
        ConfigError: the file cannot be read, or it is no PEM.
    """
    if source is None or isinstance(source, bytes):
        content = source
    else:
        try:
            content = Path(source).read_bytes()
        except OSError as error:
            raise ConfigError(f"TLS: cannot read {str(source)!r}: {error.strerror}.") from error
    if content is not None and b"-----BEGIN" not in content:
        raise ConfigError("TLS: certificates and keys are PEM, which begins with -----BEGIN.")
    return content
