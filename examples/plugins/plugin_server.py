"""A plugin server in Python: one tool, `forecast`, over gRPC.

`python plugin_server.py` prints its port and serves until it is ended. It needs `grpcio` and
`protobuf`, and nothing generated: see `plugin.proto` for what it speaks, or generate code of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.struct_pb2 import Struct


def field(number: int, content: str | bytes) -> bytes:
    """Return a field that is a text or a message, as it stands on the wire."""
    raw = content.encode() if isinstance(content, str) else content
    size, length = len(raw), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2]) + bytes([*length, size]) + raw


def fields(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Give the number and the content of each field that is a text or a message."""
    at = 0
    while at < len(content):
        number, size, shift = content[at] >> 3, 0, 0
        while True:
            at += 1
            size |= (content[at] & 0x7F) << shift
            shift += 7
            if content[at] < 0x80:
                break
        at += 1
        yield number, content[at : at + size]
        at += size


method: Any = grpc.unary_unary_rpc_method_handler

REQUIRED = bytes([3 << 3, 1])
CITY = field(1, "city") + field(2, "string") + REQUIRED + field(4, "City name.")
DAYS = field(1, "days") + field(2, "integer") + field(4, "How many days, 1 if not given.")


def execute(request: bytes, context: grpc.ServicerContext) -> bytes:
    """Run one call."""
    parameters: dict[str, Any] = dict(Struct.FromString(dict(fields(request))[2]).items())
    days = int(parameters.get("days", 1))
    if days > 7:
        context.abort(grpc.StatusCode.OUT_OF_RANGE, "At most 7 days.")
    told = Struct()
    told.update({"city": parameters["city"], "celsius": [12 + day for day in range(days)]})
    return field(2, told.SerializeToString())


def always(content: bytes) -> Any:
    """Return a method that has one answer."""

    def answer(_request: bytes, _context: grpc.ServicerContext) -> bytes:
        return content

    return method(answer)


METHODS: dict[str, Any] = {
    "Init": always(b""),
    "Name": always(field(1, "forecast")),
    "Description": always(field(1, "Forecast the weather of a city.")),
    "Properties": always(field(1, CITY) + field(1, DAYS)),
    "Execute": method(execute),
    "Ping": always(b""),
}


def main() -> None:
    """Serve on this machine only; beyond it, use `add_secure_port`."""
    server = grpc.server(ThreadPoolExecutor(4))
    handler = grpc.method_handlers_generic_handler("plugin.PluginService", METHODS)
    server.add_generic_rpc_handlers((handler,))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
