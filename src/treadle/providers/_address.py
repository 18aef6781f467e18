"""Where requests go: the base URL of a server, read and extended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import quote, urlencode, urlsplit

from treadle.errors import ConfigError
from treadle.values import clean
from treadle.values.secret import masked

_LABEL = re.compile(r"(?!xn--$)[a-z0-9_]([a-z0-9_-]{0,62})", re.IGNORECASE)
_LONGEST = 253
_PASSED_OVER = re.compile(r"[\r\n\t]")
"""What `urlsplit` drops without a word."""
_AS_IS = "!#$%&'()*+,/:;=?@[]~"
"""What may stand in the rest of an address as it is; whoever wrote a % has quoted already."""


def address_of_server(given: str) -> str:
    """Return a base URL as it can be sent: in ASCII, without spaces around it and a fragment.

    Raises:
        ConfigError: it is no http or https address, or its host no name that there can be.
    """
    text = given.strip().partition("#")[0]
    scheme, separator, rest = text.partition("://")
    place = re.split(r"[/?]", rest, maxsplit=1)[0]
    path = quote(clean(rest[len(place) :]), safe=_AS_IS)
    if not place.isascii():
        place = _in_ascii(place, given)
    url = f"{scheme}{separator}{place}{path}"
    host_of(url)
    return url


def host_of(url: str) -> str:
    """Return the host and port of a base URL, in lower case.

    Raises:
        ConfigError: it is no http or https address, or its host no name that there can be.
    """
    try:
        parts = None if _PASSED_OVER.search(url) else urlsplit(url)
        port = parts and parts.port
    except ValueError:  # whose text may hold a password
        parts = port = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"base_url {shown(url)!r} is not an address; "
            'write it like "http://localhost:8000/v1", the port a number up to 65535.'
        )
    if parts.username or parts.password:
        raise ConfigError(
            f"base_url for {parts.hostname!r} holds a name or password; pass these in headers=."
        )
    if not _is_possible(parts.hostname):
        raise ConfigError(
            f"base_url {shown(url)!r} is not an address: there can be no host of this name."
        )
    return parts.hostname if port is None else f"{parts.hostname}:{port}"


def shown(url: str) -> str:
    """Return as much of an address as may stand in a message: no password, path or query."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    rest = rest.partition("?")[0].rpartition("@")[2]
    return f"{scheme}{separator}{re.split(r'[/#]', rest, maxsplit=1)[0]}"


def without_query(url: str) -> str:
    """Return an address as a repr shows it: a query may hold a key."""
    return masked(url.partition("?")[0], ())


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


def _in_ascii(place: str, given: str) -> str:
    """Return a host, with the port it may have, as the network knows it (IDNA 2008)."""
    from yarl import URL  # noqa: PLC0415 (0.03 s that only who needs it pays)

    user, at, host = place.rpartition("@")
    name, colon, port = host.partition(":")
    try:
        found = URL.build(scheme="http", host=name).raw_host
    except ValueError:
        found = None
    if not found or not found.isascii():
        raise ConfigError(
            f"base_url {shown(given)!r} is not an address: there can be no host of this name."
        )
    return f"{user}{at}{found}{colon}{port}"


def _is_possible(name: str) -> bool:
    """Whether a host can have this name: an IP address, or labels of what DNS takes."""
    labels = name.removesuffix(".").split(".")
    if ":" in name or all(label.isdecimal() for label in labels):
        try:
            ip_address(name.partition("%")[0])
        except ValueError:
            return False
        return True
    return len(name) <= _LONGEST and all(_LABEL.fullmatch(label) for label in labels)
