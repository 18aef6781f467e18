"""Ask the kernel how much of what was sent over a loopback connection was not read yet.

Linux tells it over a netlink socket (`sock_diag(7)`) to anybody, in some ten microseconds.
"""

from __future__ import annotations

import socket
import struct
import sys

_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_ANY_COOKIE = (0xFFFF_FFFF, 0xFFFF_FFFF)
_ALL_STATES = 0xFFFF_FFFF
_HEADER = struct.Struct("=IHHII")
_QUERY = struct.Struct("=BBBBI")
_PORTS = struct.Struct("!HH")
_INTERFACE = struct.Struct("=III")
_QUEUES = struct.Struct("=II")
_QUEUES_AT = _HEADER.size + 4 + 48 + 4
"""Where the queues stand in an answer: behind the states, the socket's addresses and a timer."""


class Unread:
    """Knows what waits at the reading end of 127.0.0.1's connections; elsewhere it says nothing."""

    def __init__(self) -> None:
        self._kernel: socket.socket | None = None
        if sys.platform == "linux":
            self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG)

    def bytes_at(self, reader: int, writer: int) -> int:
        """Return the bytes that port `reader` got from port `writer` and has not read yet.

        It is 0 as well where the system does not tell, or the connection is gone.
        """
        if self._kernel is None:
            return 0
        home = socket.inet_aton("127.0.0.1") + bytes(12)
        query = (
            _QUERY.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
            + _PORTS.pack(reader, writer)
            + home
            + home
            + _INTERFACE.pack(0, *_ANY_COOKIE)
        )
        size = _HEADER.size + len(query)
        self._kernel.send(_HEADER.pack(size, _BY_FAMILY, _REQUEST, 1, 0) + query)
        answer = self._kernel.recv(4096)
        if _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
            return 0
        return _QUEUES.unpack_from(answer, _QUEUES_AT)[0]
