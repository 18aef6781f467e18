"""What tells a client's model from others of its name, without what must not be seen."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

_SECRET = re.compile("auth|key|token|secret|cookie|sig|password", re.IGNORECASE)


def identity(
    protocol: str,
    address: str,
    *,
    headers: Mapping[str, str],
    query: Mapping[str, str],
    fields: Mapping[str, object],
) -> str:
    """Return the protocol, the host, and a hash of all else that changes requests or answers.

    Headers and parts of the query whose names say that they are secret are left out. A field that
    is not set is as one that there is not.
    """
    parts = urlsplit(address)
    asked = {**dict(parse_qsl(parts.query)), **query}
    told = [
        parts.path.rstrip("/"),
        _plain(asked),
        _plain({name.lower(): value for name, value in headers.items()}),
        sorted((name, value) for name, value in fields.items() if value not in (None, (), [], "")),
    ]
    hashed = hashlib.sha256(repr(told).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{protocol} {parts.netloc} {hashed[:16]}"


def _plain(named: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted((name, value) for name, value in named.items() if not _SECRET.search(name))
