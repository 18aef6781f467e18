"""A plugin server written from the wire description alone: bytes by hand, nothing of ours.

`python -m tests.plugins.wire PORT` serves until it is killed, and prints its port.
"""

from __future__ import annotations

import math
import struct
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, cast

import grpc

SERVICE = "plugin.PluginService"


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def put(number: int, content: bytes | str) -> bytes:
    """Return a field of length-delimited content."""
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def flag(number: int, value: bool) -> bytes:
    return varint(number << 3) + varint(int(value))


def fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """Give each field's number and what it holds: bytes, an int, or a double."""
    at = 0

    def read() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = content[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(content):
        key = read()
        if key & 7 == 0:
            yield key >> 3, read()
        elif key & 7 == 1:
            yield key >> 3, struct.unpack("<d", content[at : at + 8])[0]
            at += 8
        else:
            size = read()
            yield key >> 3, content[at : at + size]
            at += size


def put_value(value: Any) -> bytes:
    if value is None:
        return flag(1, False)
    if isinstance(value, bool):
        return flag(4, value)
    if isinstance(value, int | float):
        return varint(2 << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, str):
        return put(3, value)
    if isinstance(value, dict):
        return put(5, put_struct(value))
    return put(6, b"".join(put(1, put_value(item)) for item in value))


def put_struct(values: Any) -> bytes:
    return b"".join(put(1, put(1, key) + put(2, put_value(each))) for key, each in values.items())


def get_value(content: bytes) -> Any:
    for number, held in fields(content):
        match number:
            case 1:
                return None
            case 2:
                return held
            case 3:
                return held.decode()
            case 4:
                return bool(held)
            case 5:
                return get_struct(held)
            case _:
                return [get_value(item) for _, item in fields(held)]
    return None


def get_struct(content: bytes) -> dict[str, Any]:
    entries = (dict(fields(entry)) for _, entry in fields(content))
    return {entry.get(1, b"").decode(): get_value(entry.get(2, b"")) for entry in entries}


def put_property(  # every field of the wire by name
    name: str,
    kind: str = "string",
    *,
    required: bool = False,
    description: str = "",
    items: str | bytes = "",
    properties: tuple[bytes, ...] = (),
) -> bytes:
    out = put(1, name) + put(2, kind) + flag(3, required) + put(4, description)
    if items:
        out += put(5, items)
    return out + b"".join(put(6, each) for each in properties)


@dataclass
class Plugin:
    """One tool as a server has it. `execute` gets metadata and parameters, and gives bytes."""

    name: str = "echo"
    description: str = "Say what came."
    properties: tuple[bytes, ...] = ()
    execute: Callable[[dict[str, Any], dict[str, Any], grpc.ServicerContext], bytes] = field(
        default=lambda metadata, parameters, _: put(1, repr((metadata, parameters)))
    )
    fails: str = ""
    """The method that fails, if one does."""
    called: list[str] = field(default_factory=list[str])
    headers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def answer(self, method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.called.append(method)
        self.headers.append(dict(context.invocation_metadata()))
        if method == self.fails:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{method} is out of order")
        match method:
            case "Name":
                return put(1, self.name)
            case "Description":
                return put(1, self.description)
            case "Properties":
                return b"".join(put(1, each) for each in self.properties)
            case "Execute":
                asked = dict(fields(request))
                metadata, parameters = get_struct(asked.get(1, b"")), get_struct(asked.get(2, b""))
                return self.execute(metadata, parameters, context)
            case _:
                return b""


def start(
    plugin: Plugin, port: int = 0, credentials: grpc.ServerCredentials | None = None
) -> tuple[grpc.Server, int]:
    """Serve a plugin on 127.0.0.1 in threads of this process; port 0 is any that is free."""

    def answering(method: str) -> Any:
        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            return plugin.answer(method, request, context)

        return cast("Any", grpc.unary_unary_rpc_method_handler(answer))

    methods = ("Init", "Name", "Description", "Properties", "Execute", "Ping")
    server = grpc.server(
        ThreadPoolExecutor(8),
        options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)],
    )
    handlers = {name: answering(name) for name in methods}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    address = f"127.0.0.1:{port}"
    if credentials is None:
        port = server.add_insecure_port(address)
    else:
        port = server.add_secure_port(address, credentials)
    server.start()
    return server, port


def main(port: int) -> None:
    def execute(metadata: dict[str, Any], parameters: dict[str, Any], context: Any) -> bytes:
        if "sleep" in parameters:
            time.sleep(parameters["sleep"])  # noqa: TID251 a server that hangs
        total = math.fsum(parameters.get("numbers", []))
        return put(1, f"sum {total:g}") + put(2, put_struct({"sum": total, "for": metadata}))

    listed = put_property("numbers", "array", required=True, items="number")
    nap = put_property("sleep", "number")
    server, port = start(Plugin("sum_up", "Add numbers.", (listed, nap), execute), port)
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main(int(sys.argv[1]))
