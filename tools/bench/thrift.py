"""Programs for BMv2's simple_switch, by Thrift: the two calls that load one, in the binary protocol
(thrift/doc/specs/thrift-binary-protocol.md), as `standard.thrift` of BMv2 declares them."""

import socket
import struct

from weft.base.errors import RunError, refuse

PORT = 9091
LIMIT_S = 60.0
_HEAD = struct.Struct(">II")
_VERSION_CALL, _VERSION_REPLY = 0x80010001, 0x80010002
_STRING = 11


def load(program: bytes, port: int = PORT) -> None:
    """Give a switch that runs in this network namespace its program, a BMv2 JSON; it has to be
    started with ``--enable-swap``. Raises RunError, with what it says, if it does not take that."""
    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
        _call(connection, "bm_load_new_config", program)
        _call(connection, "bm_swap_configs")


def listens() -> bool:
    """Return whether a switch takes calls."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", PORT)) == 0


def _call(connection: socket.socket, method: str, *texts: bytes) -> None:
    name = f"standard:{method}".encode()
    said = _HEAD.pack(_VERSION_CALL, len(name)) + name + struct.pack(">I", 0)
    for number, text in enumerate(texts, 1):
        said += struct.pack(">bhI", _STRING, number, len(text)) + text
    connection.sendall(said + b"\0")
    answer = connection.recv(1 << 16)  # that of a call without a result is one small message
    done = _HEAD.pack(_VERSION_REPLY, len(method)) + method.encode() + bytes(5)
    refuse(answer != done, f"simple_switch refuses {method}: {answer!r}", RunError)
