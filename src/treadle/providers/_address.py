"""Where requests go: the base URL of a server, read and extended."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlencode, urlsplit

from treadle.errors import ConfigError


def host_of(url: str) -> str:
    """Return the host and port of a base URL, in lower case.

    Raises:
        ConfigError: it is no http or https address.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"base_url {url!r} is not an address: {error}.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f'base_url {url!r} is not an address; write it like "http://localhost:8000/v1".'
        )
    if parts.username or parts.password:
        raise ConfigError(
            f"base_url for {parts.hostname!r} holds a name or password; pass these in headers=."
        )
    return parts.hostname if port is None else f"{parts.hostname}:{port}"


def is_local(url: str) -> bool:
    """Whether a URL points to this machine or a private network, where servers want no key."""
    name = urlsplit(url).hostname or ""
    if name == "localhost" or name.endswith((".localhost", ".local", ".internal", ".lan")):
        return True
    try:
        return ip_address(name).is_private
    except ValueError:
        return "." not in name


def endpoint(base_url: str, path: str, query: Mapping[str, str]) -> str:
    """Return the address that requests go to: `path` is added unless the base URL ends in it.

    A query in the base URL is kept.
    """
    base, _, asked = base_url.partition("?")
    base = base.rstrip("/")
    if not base.endswith(path):
        base += path
    asked = "&".join(part for part in (asked, urlencode(query)) if part)
    return f"{base}?{asked}" if asked else base
